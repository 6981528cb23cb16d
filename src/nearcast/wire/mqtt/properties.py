"""Properties of MQTT 5: their definitions, the packets they may be in, and their encoding.

A property that is unknown or not allowed in its packet is malformed; one that occurs twice, or has
a value that the specification forbids, is a protocol error. User properties keep their order and
their duplicates [MQTT-3.3.2-18].
"""

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from nearcast.wire.mqtt.errors import EncodeError, ProtocolError, forbidden
from nearcast.wire.mqtt.fields import (
    Fields,
    encode_binary,
    encode_integer,
    encode_text,
    encode_variable,
)
from nearcast.wire.mqtt.packet_types import LARGEST_VARIABLE_INTEGER, PacketType, Sender
from nearcast.wire.mqtt.reason_codes import ReasonCode

SUBSCRIPTION_IDENTIFIER = 0x0B
USER_PROPERTY = 0x26


class Properties(Struct, frozen=True, kw_only=True, gc=False, repr_omit_defaults=True):
    """The properties of one packet; None and () where the packet has none."""

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_identifier: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_interval: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifier_available: bool | None = None
    shared_subscription_available: bool | None = None


NO_PROPERTIES = Properties()


class Kind(Enum):
    """The encoding of a property's value."""

    BYTE = auto()
    FLAG = auto()
    UINT16 = auto()
    UINT32 = auto()
    VARIABLE = auto()
    TEXT = auto()
    BINARY = auto()
    PAIR = auto()


PropertyValue = int | str | bytes | tuple[str, str]
PropertyPairs = Sequence[tuple[str, str]]
"""Ordered; names may be repeated."""

_MOST = {
    Kind.BYTE: 1,
    Kind.FLAG: 1,
    Kind.UINT16: 0xFFFF,
    Kind.UINT32: 0xFFFF_FFFF,
    Kind.VARIABLE: LARGEST_VARIABLE_INTEGER,
}
_SIZES = {Kind.BYTE: 1, Kind.FLAG: 1, Kind.UINT16: 2, Kind.UINT32: 4}


class PropertyDefinition(Struct, frozen=True):
    """One row of the specification's table: a property and the packets it may be in."""

    identifier: int
    name: str
    kind: Kind
    packets: frozenset[PacketType]
    least: int = 0
    repeats: frozenset[PacketType] = frozenset()
    out_of_range: ReasonCode = ReasonCode.PROTOCOL_ERROR

    @property
    def title(self) -> str:
        """The name used in messages."""
        return self.name.replace("_", " ")

    def problem_with(self, value: PropertyValue) -> str | None:
        """Return why a value is not allowed; None if it is."""
        if isinstance(value, int):
            most = _MOST[self.kind]
            if not self.least <= value <= most:
                return f"{value} is not allowed; it is from {self.least} to {most}"
        elif self.identifier == 0x08 and (not value or not {"+", "#"}.isdisjoint(str(value))):
            return "it is a topic name: at least one character, no wildcards [MQTT-3.3.2-14]"
        return None


def _table() -> tuple[PropertyDefinition, ...]:
    p = PacketType
    message = frozenset((p.PUBLISH, p.WILL))
    opening = frozenset((p.CONNECT, p.CONNACK))
    connect, connack = frozenset((p.CONNECT,)), frozenset((p.CONNACK,))
    publish = frozenset((p.PUBLISH,))
    authenticating = opening | {p.AUTH}
    acknowledging = frozenset((p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP, p.SUBACK, p.UNSUBACK))
    everywhere = frozenset(p) - {p.PINGREQ, p.PINGRESP}
    alias = ReasonCode.TOPIC_ALIAS_INVALID
    return (
        PropertyDefinition(0x01, "payload_format_indicator", Kind.BYTE, message),
        PropertyDefinition(0x02, "message_expiry_interval", Kind.UINT32, message),
        PropertyDefinition(0x03, "content_type", Kind.TEXT, message),
        PropertyDefinition(0x08, "response_topic", Kind.TEXT, message),
        PropertyDefinition(0x09, "correlation_data", Kind.BINARY, message),
        PropertyDefinition(
            SUBSCRIPTION_IDENTIFIER,
            "subscription_identifiers",
            Kind.VARIABLE,
            publish | {p.SUBSCRIBE},
            least=1,
            repeats=publish,
        ),
        PropertyDefinition(0x11, "session_expiry_interval", Kind.UINT32, opening | {p.DISCONNECT}),
        PropertyDefinition(0x12, "assigned_client_identifier", Kind.TEXT, connack),
        PropertyDefinition(0x13, "server_keep_alive", Kind.UINT16, connack),
        PropertyDefinition(0x15, "authentication_method", Kind.TEXT, authenticating),
        PropertyDefinition(0x16, "authentication_data", Kind.BINARY, authenticating),
        PropertyDefinition(0x17, "request_problem_information", Kind.FLAG, connect),
        PropertyDefinition(0x18, "will_delay_interval", Kind.UINT32, frozenset((p.WILL,))),
        PropertyDefinition(0x19, "request_response_information", Kind.FLAG, connect),
        PropertyDefinition(0x1A, "response_information", Kind.TEXT, connack),
        PropertyDefinition(0x1C, "server_reference", Kind.TEXT, connack | {p.DISCONNECT}),
        PropertyDefinition(
            0x1F, "reason_string", Kind.TEXT, acknowledging | connack | {p.DISCONNECT, p.AUTH}
        ),
        PropertyDefinition(0x21, "receive_maximum", Kind.UINT16, opening, least=1),
        PropertyDefinition(0x22, "topic_alias_maximum", Kind.UINT16, opening),
        PropertyDefinition(0x23, "topic_alias", Kind.UINT16, publish, least=1, out_of_range=alias),
        PropertyDefinition(0x24, "maximum_qos", Kind.BYTE, connack),
        PropertyDefinition(0x25, "retain_available", Kind.FLAG, connack),
        PropertyDefinition(
            USER_PROPERTY, "user_properties", Kind.PAIR, everywhere, repeats=everywhere
        ),
        PropertyDefinition(0x27, "maximum_packet_size", Kind.UINT32, opening, least=1),
        PropertyDefinition(0x28, "wildcard_subscription_available", Kind.FLAG, connack),
        PropertyDefinition(0x29, "subscription_identifier_available", Kind.FLAG, connack),
        PropertyDefinition(0x2A, "shared_subscription_available", Kind.FLAG, connack),
    )


TABLE = _table()
BY_IDENTIFIER = {row.identifier: row for row in TABLE}
_LISTS = frozenset(("subscription_identifiers", "user_properties"))


def decode_properties(raw: bytes, packet: PacketType, sender: Sender = Sender.SERVER) -> Properties:
    """Return the properties of a packet; raises `ProtocolError`.

    The sender matters for a PUBLISH: only a server's may have subscription identifiers.
    """
    if not raw:
        return NO_PROPERTIES
    fields = Fields(raw, 0, len(raw), packet.name)
    values: dict[str, PropertyValue] = {}
    pairs: list[tuple[str, str]] = []
    identifiers: list[PropertyValue] = []
    while fields.left:
        start = fields.at
        fields.at = _read_pairs(raw, start, pairs)
        if fields.at != start:
            continue
        row, value = read_property(fields, packet)
        if row.name in values:
            raise forbidden("it may be there only once", f"{packet.name} {row.title}")
        if row.identifier != SUBSCRIPTION_IDENTIFIER or packet not in row.repeats:
            values[row.name] = value
        elif sender is Sender.CLIENT:
            raise forbidden(
                "a client may not send one [MQTT-3.3.4-6]", f"{packet.name} {row.title}"
            )
        else:
            identifiers.append(value)
    if "authentication_data" in values and "authentication_method" not in values:
        raise forbidden("authentication data without an authentication method", packet.name)
    only = values.pop("subscription_identifiers", None)
    return Properties(
        user_properties=tuple(pairs),
        subscription_identifiers=tuple(identifiers) if only is None else (only,),  # type: ignore[arg-type]
        **values,  # type: ignore[arg-type]
    )


def _read_pairs(raw: bytes, at: int, pairs: list[tuple[str, str]]) -> int:
    """Read consecutive user properties the fast way; return where other properties begin.

    It also stops at an invalid one, for which `read_property` raises the error.
    """
    end = len(raw)
    try:
        while at < end and raw[at] == USER_PROPERTY:
            key_end = at + 3 + (raw[at + 1] << 8 | raw[at + 2])
            value_end = key_end + 2 + (raw[key_end] << 8 | raw[key_end + 1])
            key = raw[at + 3 : key_end].decode()
            value = raw[key_end + 2 : value_end].decode()
            if value_end > end or "\0" in key or "\0" in value:
                return at
            pairs.append((key, value))
            at = value_end
    except (IndexError, UnicodeDecodeError):
        pass
    return at


def read_property(fields: Fields, packet: PacketType) -> tuple[PropertyDefinition, PropertyValue]:
    """Read one property: its row of the table, and its validated value."""
    row = BY_IDENTIFIER.get(fields.byte("property"))
    if row is None:
        identifier = fields.data[fields.at - 1]
        raise fields.malformed(f"there is no property 0x{identifier:02X}", "properties")
    if packet not in row.packets:
        raise fields.malformed(f"a {packet.name} may not carry it", row.title)
    value: PropertyValue
    match row.kind:
        case Kind.PAIR:
            value = (fields.text(row.title), fields.text(row.title))
        case Kind.TEXT:
            value = fields.text(row.title)
        case Kind.UINT32:
            value = fields.uint32(row.title)
        case Kind.UINT16:
            value = fields.uint16(row.title)
        case Kind.BYTE | Kind.FLAG:
            value = fields.byte(row.title)
        case Kind.BINARY:
            value = fields.binary(row.title)
        case Kind.VARIABLE:
            value = fields.variable(row.title)
    problem = row.problem_with(value)
    if problem:
        raise ProtocolError(row.out_of_range, problem, f"{packet.name} {row.title}")
    return row, bool(value) if row.kind is Kind.FLAG else value


def encode_properties(properties: Properties, packet: PacketType) -> bytes:
    """Return the properties as bytes, without their length; raises `EncodeError`."""
    if properties is NO_PROPERTIES:
        return b""
    out: list[bytes] = []
    for row in TABLE:
        held = getattr(properties, row.name)
        if held is None or held == ():
            continue
        if packet not in row.packets:
            raise EncodeError(f"a {packet.name} may not carry the property {row.title}")
        values = held if row.name in _LISTS else (held,)
        if len(values) > 1 and packet not in row.repeats:
            raise EncodeError(f"a {packet.name} carries the property {row.title} only once")
        out += (encode_property(row, value) for value in values)
    return b"".join(out)


def encode_property(row: PropertyDefinition, value: PropertyValue) -> bytes:
    """Return one property as bytes: its identifier and its value."""
    problem = row.problem_with(value)
    if problem:
        raise EncodeError(f"the property {row.title}: {problem}")
    identifier = row.identifier.to_bytes(1, "big")
    match value:
        case str():
            return identifier + encode_text(value, row.title)
        case bytes():
            return identifier + encode_binary(value, row.title)
        case (key, text):
            return identifier + encode_text(key, row.title) + encode_text(text, row.title)
        case _ if row.kind is Kind.VARIABLE:
            return identifier + encode_variable(value)
        case _:
            return identifier + encode_integer(value, _SIZES[row.kind], row.title)
