"""Encoded payloads from the server become what was published.

Dictionaries come on a topic of their own before the first payload that needs them, and hold for one
connection. What cannot be decoded is passed on as it came: no message is lost because of it.
"""

import logging

from msgspec.structs import replace

from nearcast.logs import log_event
from nearcast.wire.encoding.content_codings import (
    DICTIONARY_TOPIC,
    ENCODING,
    LARGEST_DICTIONARY,
    decode_payload,
)
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.mqtt import Publish, stripped

MOST_DICTIONARIES = 256
_MARK = ENCODING.encode()
_NO_IDENTIFIERS: frozenset[int] = frozenset()

log = logging.getLogger("nearcast.client")


class PayloadDecoder:
    """The dictionaries that the server told on this connection."""

    def __init__(self) -> None:
        self._dictionaries: dict[int, bytes] = {}

    def lost(self) -> None:
        """Drop what was told on a lost transport."""
        self._dictionaries.clear()

    def decoded(self, message: Publish) -> Publish | None:
        """Return a message as it was published; None if it told a dictionary."""
        if message.topic.startswith(DICTIONARY_TOPIC):
            self._note(message)
            return None
        if _MARK not in message.raw_properties:
            return message
        named = [value for name, value in message.properties.user_properties if name == ENCODING]
        if not named:
            return message
        try:
            payload = decode_payload(named[0], message.payload, self._dictionaries)
        except DecodingError as error:
            log_event(
                log, logging.WARNING, "a payload cannot be decoded", topic=message.topic, why=error
            )
            return message
        raw = stripped(message.raw_properties, _NO_IDENTIFIERS, ENCODING)
        return replace(message, payload=payload, raw_properties=raw, _properties=None)

    def _note(self, message: Publish) -> None:
        number = message.topic.removeprefix(DICTIONARY_TOPIC)
        fits = len(message.payload) <= LARGEST_DICTIONARY
        if number.isdecimal() and fits and len(self._dictionaries) < MOST_DICTIONARIES:
            self._dictionaries[int(number)] = message.payload
