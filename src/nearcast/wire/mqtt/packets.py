"""The control packets of MQTT as values, the same for the versions 3.1, 3.1.1 and 5.

Fields that a version lacks keep their default: a decoder never sets them, an encoder drops them.
Reason codes are those of MQTT 5; the return codes of MQTT 3 are translated.
"""

from msgspec import Struct
from msgspec.structs import force_setattr

from nearcast.wire.mqtt.errors import forbidden
from nearcast.wire.mqtt.packet_types import MQTT_5, PacketType, Sender
from nearcast.wire.mqtt.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    encode_properties,
)
from nearcast.wire.mqtt.publish_properties import (
    only_short_user_properties,
    short_user_properties,
)
from nearcast.wire.mqtt.reason_codes import ReasonCode


class Will(Struct, frozen=True, gc=False):
    """The message that a server publishes when a client's connection is lost."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(Struct, frozen=True, gc=False):
    """A client's first packet; `clean_start` is the clean session of MQTT 3."""

    client_id: str = ""
    version: int = MQTT_5
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class ConnAck(Struct, frozen=True, gc=False):
    """A server's answer to a CONNECT."""

    session_present: bool = False
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class Publish(Struct, frozen=True, gc=False, eq=False):
    """A message, with its properties as received: bytes, without their length.

    Equality ignores the cached properties. Use `with_` to make one with properties.
    """

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    raw_properties: bytes = b""
    _properties: Properties | None = None

    def with_(self, properties: Properties) -> "Publish":
        """Return the same message with these properties; raises `EncodeError`."""
        raw = encode_properties(properties, PacketType.PUBLISH)
        return Publish(
            self.topic, self.payload, self.qos, self.retain, self.dup, self.packet_id, raw
        )

    @property
    def properties(self) -> Properties:
        """The properties, parsed on first use; raises `ProtocolError` if they are invalid."""
        return self._properties or self._read(Sender.SERVER)

    def validate(self, sender: Sender = Sender.CLIENT) -> bool:
        """Check the properties that the decoder left unread; raises `ProtocolError`.

        Return True if there are only user properties, so that they may be forwarded unchanged.
        """
        raw = self.raw_properties
        if self.topic and (not raw or only_short_user_properties(raw)):
            return True
        properties = self._read(sender)
        if not self.topic and properties.topic_alias is None:
            raise forbidden("it is empty and there is no topic alias", "PUBLISH topic")
        return properties == Properties(user_properties=properties.user_properties)

    def _read(self, sender: Sender) -> Properties:
        raw = self.raw_properties
        pairs = short_user_properties(raw)
        if pairs is None:
            properties = decode_properties(raw, PacketType.PUBLISH, sender)
        else:
            properties = Properties(user_properties=tuple(pairs)) if pairs else NO_PROPERTIES
        force_setattr(self, "_properties", properties)
        return properties

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Publish) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, bytes, int, bool, bool, int, bytes]:
        return (
            self.topic,
            self.payload,
            self.qos,
            self.retain,
            self.dup,
            self.packet_id,
            self.raw_properties,
        )


class Acknowledgement(Struct, frozen=True, gc=False):
    """The common fields of the four acknowledgements of a PUBLISH."""

    packet_id: int
    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


class PubAck(Acknowledgement, frozen=True, gc=False):
    """The answer to a PUBLISH of QoS 1."""


class PubRec(Acknowledgement, frozen=True, gc=False):
    """The first answer to a PUBLISH of QoS 2: received."""


class PubRel(Acknowledgement, frozen=True, gc=False):
    """The answer to a PUBREC: the packet identifier will not be sent again."""


class PubComp(Acknowledgement, frozen=True, gc=False):
    """The answer to a PUBREL: complete."""


class TopicFilter(Struct, frozen=True, gc=False):
    """One filter of a SUBSCRIBE with its options; `topics.parse_filter` checks the filter."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(Struct, frozen=True, gc=False):
    """A client's request for subscriptions."""

    packet_id: int
    filters: tuple[TopicFilter, ...]
    properties: Properties = NO_PROPERTIES


class SubAck(Struct, frozen=True, gc=False):
    """The answer to a SUBSCRIBE: one reason code for each filter, in order."""

    packet_id: int
    reason_codes: tuple[ReasonCode, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(Struct, frozen=True, gc=False):
    """A client's request to end subscriptions."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class UnsubAck(Struct, frozen=True, gc=False):
    """The answer to an UNSUBSCRIBE; MQTT 3 has no reason codes in it."""

    packet_id: int
    reason_codes: tuple[ReasonCode, ...] = ()
    properties: Properties = NO_PROPERTIES


class PingReq(Struct, frozen=True, gc=False):
    """A client's ping, or several that came one after the other."""

    count: int = 1


class PingResp(Struct, frozen=True, gc=False):
    """The server's answer to a ping."""


class Disconnect(Struct, frozen=True, gc=False):
    """The last packet; in MQTT 3 only clients send it."""

    reason_code: ReasonCode = ReasonCode.NORMAL_DISCONNECTION
    properties: Properties = NO_PROPERTIES


class Auth(Struct, frozen=True, gc=False):
    """A step of enhanced authentication (MQTT 5)."""

    reason_code: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = NO_PROPERTIES


Packet = (
    Connect
    | ConnAck
    | Publish
    | PubAck
    | PubRec
    | PubRel
    | PubComp
    | Subscribe
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
    | Auth
)
