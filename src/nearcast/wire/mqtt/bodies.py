"""Decoding the bodies of all packets but PUBLISH, in the field order of the specification."""

from collections.abc import Callable

from nearcast.wire.mqtt.errors import ProtocolError, forbidden
from nearcast.wire.mqtt.fields import Fields
from nearcast.wire.mqtt.packet_types import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    PROTOCOL_NAMES,
    PacketType,
    Sender,
)
from nearcast.wire.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    Will,
)
from nearcast.wire.mqtt.properties import NO_PROPERTIES, Properties, decode_properties
from nearcast.wire.mqtt.reason_codes import (
    AUTH_CODES,
    CONNACK_CODES,
    DISCONNECT_CODES,
    PUBACK_CODES,
    PUBCOMP_CODES,
    PUBREC_CODES,
    PUBREL_CODES,
    RETURN_CODES,
    SUBACK_CODES,
    SUBACK_RETURN_CODES,
    UNSUBACK_CODES,
    ReasonCode,
)

# Reads a body, given the version of the connection and the sender.
Body = Callable[[Fields, int, Sender], Packet]

_RESERVED, _CLEAN_START, _WILL, _WILL_RETAIN, _PASSWORD, _USERNAME = 1, 2, 4, 0x20, 0x40, 0x80
_NO_LOCAL, _RETAIN_AS_PUBLISHED = 0x04, 0x08


def connect(fields: Fields, version: int, sender: Sender) -> Connect:
    """Read a CONNECT, which contains its version."""
    name = fields.text("protocol name")
    version = fields.byte("protocol version")
    if PROTOCOL_NAMES.get(version) != name:
        raise ProtocolError(
            ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
            f"{name[:20]!r} {version} is none of MQTT 5, MQTT 4 (3.1.1) and MQIsdp 3 (3.1)",
            "CONNECT protocol",
        )
    flags = _connect_flags(fields, version)
    keep_alive = fields.uint16("keep alive")
    properties = _properties(fields, PacketType.CONNECT) if version == MQTT_5 else NO_PROPERTIES
    client_id = fields.text("client identifier")
    clean_start = bool(flags & _CLEAN_START)
    if not client_id and version != MQTT_5 and (version == MQTT_3_1 or not clean_start):
        raise ProtocolError(
            ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
            "it may be empty only with a clean session, and not in MQTT 3.1",
            "CONNECT client identifier",
        )
    will = _will(fields, flags, version) if flags & _WILL else None
    # In MQTT 3.1 a flag may be set and its field missing at the end of the packet.
    missing = version == MQTT_3_1 and not fields.left
    username = fields.text("user name") if flags & _USERNAME and not missing else None
    missing = version == MQTT_3_1 and not fields.left
    password = fields.binary("password") if flags & _PASSWORD and not missing else None
    return Connect(
        client_id, version, clean_start, keep_alive, will, username, password, properties
    )


def _connect_flags(fields: Fields, version: int) -> int:
    flags = fields.byte("flags")
    if version == MQTT_3_1:
        # In 3.1 bits without meaning are unused rather than reserved.
        flags &= ~_RESERVED if flags & _WILL else ~(_RESERVED | 0x38)
    if flags & _RESERVED:
        raise fields.malformed("the reserved bit is set [MQTT-3.1.2-3]", "flags")
    qos = flags >> 3 & 3
    if not flags & _WILL and (qos or flags & _WILL_RETAIN):
        raise fields.malformed("there is a QoS or retain flag for a will, but no will", "flags")
    if qos == 3:
        raise fields.malformed("3 is no QoS", "will QoS")
    if version == MQTT_3_1_1 and flags & _PASSWORD and not flags & _USERNAME:
        raise fields.malformed("there is a password but no user name [MQTT-3.1.2-22]", "flags")
    return flags


def _will(fields: Fields, flags: int, version: int) -> Will:
    properties = _properties(fields, PacketType.WILL) if version == MQTT_5 else NO_PROPERTIES
    topic = fields.text("will topic")
    if not topic or "+" in topic or "#" in topic:
        raise fields.malformed(
            "a topic name is at least one character, without the wildcards + and #", "will topic"
        )
    payload = fields.binary("will payload")
    return Will(topic, payload, flags >> 3 & 3, bool(flags & _WILL_RETAIN), properties)


def connack(fields: Fields, version: int, sender: Sender) -> ConnAck:
    """Read a CONNACK."""
    flags = fields.byte("flags")
    if version == MQTT_3_1:
        flags = 0
    if flags > 1:
        raise fields.malformed("a reserved bit is set [MQTT-3.2.2-1]", "flags")
    codes = CONNACK_CODES if version == MQTT_5 else RETURN_CODES
    code = _reason(fields, codes)
    if flags and code:
        raise forbidden("a session is present though it failed [MQTT-3.2.2-6]", "CONNACK flags")
    properties = _properties(fields, PacketType.CONNACK) if version == MQTT_5 else NO_PROPERTIES
    return ConnAck(bool(flags), code, properties)


def _acknowledgement(
    packet: PacketType,
    make: type[PubAck] | type[PubRec] | type[PubRel] | type[PubComp],
    codes: dict[int, ReasonCode],
) -> Body:
    def read(fields: Fields, version: int, sender: Sender) -> Packet:
        packet_id = _packet_id(fields)
        if version != MQTT_5 or not fields.left:
            return make(packet_id)
        code = _reason(fields, codes)
        properties = _properties(fields, packet) if fields.left else NO_PROPERTIES
        return make(packet_id, code, properties)

    return read


def subscribe(fields: Fields, version: int, sender: Sender) -> Subscribe:
    """Read a SUBSCRIBE."""
    packet_id = _packet_id(fields)
    properties = _properties(fields, PacketType.SUBSCRIBE) if version == MQTT_5 else NO_PROPERTIES
    filters: list[TopicFilter] = []
    while fields.left:
        topic_filter = _filter(fields)
        filters.append(_options(fields, topic_filter, version))
    if not filters:
        raise forbidden("there is no topic filter [MQTT-3.8.3-2]", "SUBSCRIBE")
    return Subscribe(packet_id, tuple(filters), properties)


def _options(fields: Fields, topic_filter: str, version: int) -> TopicFilter:
    options = fields.byte("options")
    if version == MQTT_3_1:
        options &= 3
    qos = options & 3
    if qos == 3:
        raise forbidden("3 is no QoS", "SUBSCRIBE options")
    if options & (0xC0 if version == MQTT_5 else 0xFC):
        raise fields.malformed("a reserved bit is set [MQTT-3.8.3-5]", "options")
    retain_handling = options >> 4 & 3
    if retain_handling == 3:
        raise forbidden("3 is no retain handling; it is 0, 1 or 2", "SUBSCRIBE options")
    no_local = bool(options & _NO_LOCAL)
    if no_local and topic_filter.startswith("$share/"):
        raise forbidden("no local on a shared subscription [MQTT-3.8.3-4]", "SUBSCRIBE options")
    as_published = bool(options & _RETAIN_AS_PUBLISHED)
    return TopicFilter(topic_filter, qos, no_local, as_published, retain_handling)


def suback(fields: Fields, version: int, sender: Sender) -> SubAck:
    """Read a SUBACK."""
    packet_id = _packet_id(fields)
    properties = _properties(fields, PacketType.SUBACK) if version == MQTT_5 else NO_PROPERTIES
    codes = SUBACK_CODES if version == MQTT_5 else SUBACK_RETURN_CODES
    return SubAck(packet_id, _reasons(fields, codes), properties)


def unsubscribe(fields: Fields, version: int, sender: Sender) -> Unsubscribe:
    """Read an UNSUBSCRIBE."""
    packet_id = _packet_id(fields)
    properties = _properties(fields, PacketType.UNSUBSCRIBE) if version == MQTT_5 else NO_PROPERTIES
    filters: list[str] = []
    while fields.left:
        filters.append(_filter(fields))
    if not filters:
        raise forbidden("there is no topic filter [MQTT-3.10.3-2]", "UNSUBSCRIBE")
    return Unsubscribe(packet_id, tuple(filters), properties)


def unsuback(fields: Fields, version: int, sender: Sender) -> UnsubAck:
    """Read an UNSUBACK."""
    packet_id = _packet_id(fields)
    if version != MQTT_5:
        return UnsubAck(packet_id)
    properties = _properties(fields, PacketType.UNSUBACK)
    return UnsubAck(packet_id, _reasons(fields, UNSUBACK_CODES), properties)


def pingreq(fields: Fields, version: int, sender: Sender) -> PingReq:
    """Read a PINGREQ, which is empty."""
    return PingReq()


def pingresp(fields: Fields, version: int, sender: Sender) -> PingResp:
    """Read a PINGRESP, which is empty."""
    return PingResp()


def disconnect(fields: Fields, version: int, sender: Sender) -> Disconnect:
    """Read a DISCONNECT."""
    if version != MQTT_5 or not fields.left:
        return Disconnect()
    code = _reason(fields, DISCONNECT_CODES)
    properties = _properties(fields, PacketType.DISCONNECT) if fields.left else NO_PROPERTIES
    if sender is Sender.SERVER and properties.session_expiry_interval is not None:
        raise forbidden(
            "a server may not send one [MQTT-3.14.2-2]", "DISCONNECT session expiry interval"
        )
    return Disconnect(code, properties)


def auth(fields: Fields, version: int, sender: Sender) -> Auth:
    """Read an AUTH: either empty, or with a reason code and an authentication method."""
    if version != MQTT_5:
        raise fields.malformed("MQTT 3 has no packet of type 15", "type")
    if not fields.left:
        return Auth()
    code = _reason(fields, AUTH_CODES)
    properties = _properties(fields, PacketType.AUTH)
    if properties.authentication_method is None:
        raise forbidden("the authentication method is missing", "AUTH properties")
    return Auth(code, properties)


def _packet_id(fields: Fields) -> int:
    packet_id = fields.uint16("packet identifier")
    if not packet_id:
        raise forbidden("it is 0", f"{fields.packet} packet identifier")
    return packet_id


def _filter(fields: Fields) -> str:
    topic_filter = fields.text("topic filter")
    if not topic_filter:
        raise fields.malformed("it is at least one character [MQTT-4.7.3-1]", "topic filter")
    return topic_filter


def _properties(fields: Fields, packet: PacketType) -> Properties:
    size = fields.variable("property length")
    if size > fields.left:
        raise fields.malformed(f"{size} bytes announced, {fields.left} left", "property length")
    start = fields.at
    fields.at = start + size
    return decode_properties(fields.data[start : fields.at], packet)


def _reason(fields: Fields, codes: dict[int, ReasonCode]) -> ReasonCode:
    byte = fields.byte("reason code")
    code = codes.get(byte)
    if code is None:
        raise forbidden(f"0x{byte:02X} is none of its reason codes", f"{fields.packet} reason code")
    return code


def _reasons(fields: Fields, codes: dict[int, ReasonCode]) -> tuple[ReasonCode, ...]:
    if not fields.left:
        raise forbidden("there is no reason code", fields.packet)
    return tuple(_reason(fields, codes) for _ in range(fields.left))


_ACKNOWLEDGEMENTS: dict[int, Body] = {
    PacketType.PUBACK: _acknowledgement(PacketType.PUBACK, PubAck, PUBACK_CODES),
    PacketType.PUBREC: _acknowledgement(PacketType.PUBREC, PubRec, PUBREC_CODES),
    PacketType.PUBREL: _acknowledgement(PacketType.PUBREL, PubRel, PUBREL_CODES),
    PacketType.PUBCOMP: _acknowledgement(PacketType.PUBCOMP, PubComp, PUBCOMP_CODES),
}
# The packets that each side may send, besides PUBLISH.
BODIES: dict[Sender, dict[int, Body]] = {
    Sender.CLIENT: {
        PacketType.CONNECT: connect,
        **_ACKNOWLEDGEMENTS,
        PacketType.SUBSCRIBE: subscribe,
        PacketType.UNSUBSCRIBE: unsubscribe,
        PacketType.PINGREQ: pingreq,
        PacketType.DISCONNECT: disconnect,
        PacketType.AUTH: auth,
    },
    Sender.SERVER: {
        PacketType.CONNACK: connack,
        **_ACKNOWLEDGEMENTS,
        PacketType.SUBACK: suback,
        PacketType.UNSUBACK: unsuback,
        PacketType.PINGRESP: pingresp,
        PacketType.DISCONNECT: disconnect,
        PacketType.AUTH: auth,
    },
}
