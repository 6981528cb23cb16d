"""Encoded payloads: each message once for all clients that accept the same codings."""

from typing import TYPE_CHECKING

from nearcast.broker.net.connection import Connection
from nearcast.wire.encoding.content_codings import (
    ENCODING,
    NAMES,
    Coding,
    Dictionary,
    encode_payload,
)
from nearcast.wire.mqtt import PublishFrame, stripped, user_properties

if TYPE_CHECKING:
    from nearcast.broker.delivery.dictionary_book import DictionaryBook
    from nearcast.broker.sessions.outbound_message import OutboundMessage

_PAYLOAD_FORMAT = frozenset((0x01,))
_DICTIONARY_FRAME_BYTES = 100


class PayloadEncoder:
    """Encodes messages for connections that accept the same codings."""

    def __init__(self, accepted: Coding, dictionaries: "DictionaryBook") -> None:
        self.accepted = accepted
        self._dictionaries = dictionaries
        self.encoded = 0
        """How many messages it encoded."""
        self.saved_bytes = 0
        """How much smaller they became, in bytes, each counted once."""

    def frame(self, message: "OutboundMessage", connection: Connection) -> PublishFrame:
        """Return the frame of a message; a dictionary it needs is written before."""
        known = message.encoded_frames
        if known is None:
            known = message.encoded_frames = {}
        dictionary = self._dictionary(message.frame.topic, connection)
        accepted = self.accepted if dictionary is not None else self.accepted & ~Coding.DICTIONARY
        found = known.get(accepted)
        if found is None:
            found = known[accepted] = self._encode(message.frame, accepted, dictionary)
        frame, used = found
        if used is not None and used.id not in connection.dictionaries:
            connection.dictionaries |= {used.id}
            told = PublishFrame(used.topic, used.trained)
            connection.out.append(told.at_most_once(connection.version))
        return frame

    def _dictionary(self, topic: str, connection: Connection) -> Dictionary | None:
        """Return the dictionary for a topic, if the client may read all that it was trained on."""
        if Coding.DICTIONARY not in self.accepted:
            return None
        found = self._dictionaries.for_topic(topic)
        if found is None or not connection.permissions.may_subscribe(found.pattern):
            return None
        largest = connection.largest_packet
        if largest and len(found.dictionary.trained) + _DICTIONARY_FRAME_BYTES > largest:
            return None
        return found.dictionary

    def _encode(
        self, frame: PublishFrame, accepted: Coding, dictionary: Dictionary | None
    ) -> tuple[PublishFrame, Dictionary | None]:
        encoded = encode_payload(frame.payload, accepted, dictionary)
        if encoded is None:
            return frame, None
        self.encoded += 1
        self.saved_bytes += len(frame.payload) - len(encoded.payload)
        properties = stripped(frame.raw_properties, _PAYLOAD_FORMAT)
        marked = user_properties(((ENCODING, encoded.name),)) + properties
        used = dictionary if encoded.name == NAMES[Coding.DICTIONARY] else None
        return PublishFrame(frame.topic, encoded.payload, marked), used
