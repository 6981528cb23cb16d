"""Encoding packets to bytes, for each version: unsupported fields are dropped.

For MQTT 3 these are properties, subscription options except QoS, and reason codes in packets that
have none; return codes of CONNACK and SUBACK are translated. A packet that cannot be expressed
raises `EncodeError`. Messages to many recipients are encoded by `PublishFrame`.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from nearcast.wire.mqtt.errors import EncodeError
from nearcast.wire.mqtt.fields import encode_binary, encode_integer, encode_text, encode_variable
from nearcast.wire.mqtt.packet_types import (
    MQTT_3_1,
    MQTT_3_1_1,
    MQTT_5,
    PROTOCOL_NAMES,
    PacketType,
)
from nearcast.wire.mqtt.packets import (
    Acknowledgement,
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    Will,
)
from nearcast.wire.mqtt.properties import NO_PROPERTIES, Properties, encode_properties
from nearcast.wire.mqtt.publish_frame import PublishFrame
from nearcast.wire.mqtt.reason_codes import ReasonCode, return_code

_FIRST_BYTES = {
    packet: packet << 4
    | (packet in (PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE)) << 1
    for packet in PacketType
}
_SUCCESSES = {
    packet: bytes((_FIRST_BYTES[packet], 2))
    for packet in (PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP)
}


def encode(packet: Packet, version: int = MQTT_5) -> bytes:
    """Return a packet as bytes; raises `EncodeError`."""
    return _ENCODERS[type(packet)](packet, version)


def encode_within(packet: Packet, version: int, limit: int) -> bytes | None:
    """Return a packet as at most `limit` bytes; None if that is impossible.

    To fit, a packet loses its user properties and then its reason string [MQTT-3.2.2-19,
    MQTT-3.2.2-20 and similar for other packets]; a PUBLISH and requests of clients lose nothing.
    """
    data = encode(packet, version)
    if len(data) <= limit:
        return data
    if isinstance(packet, ConnAck | Acknowledgement | SubAck | UnsubAck | Disconnect | Auth):
        properties = replace(packet.properties, user_properties=())
        for shorter in (properties, replace(properties, reason_string=None)):
            data = encode(replace(packet, properties=shorter), version)
            if len(data) <= limit:
                return data
    return None


def success(packet: PacketType, packet_id: int) -> bytes:
    """Return a PUBACK, PUBREC, PUBREL or PUBCOMP with success and without properties."""
    return _SUCCESSES[packet] + packet_id.to_bytes(2, "big")


def _framed(packet: PacketType, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((_FIRST_BYTES[packet],)) + encode_variable(len(body)) + body


def _properties(properties: Properties, packet: PacketType, version: int) -> bytes:
    """Return properties preceded by their length; nothing for MQTT 3."""
    if version != MQTT_5:
        return b""
    raw = encode_properties(properties, packet)
    return encode_variable(len(raw)) + raw


def _packet_id(packet_id: int) -> bytes:
    if not packet_id:
        raise EncodeError("the packet identifier is 0; it must be 1 to 65535")
    return encode_integer(packet_id, 2, "packet identifier")


def _qos(qos: int) -> int:
    if qos not in (0, 1, 2):
        raise EncodeError(f"{qos} is no QoS; it is 0, 1 or 2")
    return qos


def _connect(packet: Connect, _: int) -> bytes:
    version = packet.version
    if version not in PROTOCOL_NAMES:
        raise EncodeError(f"{version} is no version of MQTT; it is 3, 4 or 5")
    if version == MQTT_3_1_1 and packet.password is not None and packet.username is None:
        raise EncodeError("MQTT 3.1.1 has no password without a user name")
    will = packet.will
    flags = (
        packet.clean_start << 1
        | (packet.password is not None) << 6
        | (packet.username is not None) << 7
    )
    if will is not None:
        flags |= 4 | _qos(will.qos) << 3 | will.retain << 5
    parts = [
        encode_text(PROTOCOL_NAMES[version], "protocol name"),
        bytes((version, flags)),
        encode_integer(packet.keep_alive, 2, "keep alive"),
        _properties(packet.properties, PacketType.CONNECT, version),
        encode_text(packet.client_id, "client identifier"),
    ]
    if will is not None:
        parts += _will(will, version)
    if packet.username is not None:
        parts.append(encode_text(packet.username, "user name"))
    if packet.password is not None:
        parts.append(encode_binary(packet.password, "password"))
    return _framed(PacketType.CONNECT, *parts)


def _will(will: Will, version: int) -> list[bytes]:
    return [
        _properties(will.properties, PacketType.WILL, version),
        encode_text(will.topic, "will topic"),
        encode_binary(will.payload, "will payload"),
    ]


def _connack(packet: ConnAck, version: int) -> bytes:
    code = packet.reason_code
    # MQTT 3.1 has no such flag, and a refusal must not set it [MQTT-3.2.2-6].
    present = packet.session_present and version != MQTT_3_1 and not code
    return _framed(
        PacketType.CONNACK,
        bytes((present, code if version == MQTT_5 else return_code(code))),
        _properties(packet.properties, PacketType.CONNACK, version),
    )


def _publish(packet: Publish, version: int) -> bytes:
    if packet.qos:
        _packet_id(packet.packet_id)
    if "+" in packet.topic or "#" in packet.topic:
        raise EncodeError("a topic name holds no wildcards + and #")
    if not packet.topic and (version != MQTT_5 or packet.properties.topic_alias is None):
        raise EncodeError("a topic name is at least one character, unless there is a topic alias")
    frame = PublishFrame(packet.topic, packet.payload, packet.raw_properties)
    return frame.encode(
        version,
        qos=_qos(packet.qos),
        retain=packet.retain,
        dup=packet.dup,
        packet_id=packet.packet_id,
    )


def _acknowledgement(kind: PacketType) -> Callable[[Acknowledgement, int], bytes]:
    def write(packet: Acknowledgement, version: int) -> bytes:
        parts = [_packet_id(packet.packet_id)]
        properties = packet.properties
        if version == MQTT_5 and (packet.reason_code or properties != NO_PROPERTIES):
            parts.append(bytes((packet.reason_code,)))
            if properties != NO_PROPERTIES:
                parts.append(_properties(properties, kind, version))
        return _framed(kind, *parts)

    return write


def _subscribe(packet: Subscribe, version: int) -> bytes:
    if not packet.filters:
        raise EncodeError("a SUBSCRIBE has at least one topic filter")
    parts = [
        _packet_id(packet.packet_id),
        _properties(packet.properties, PacketType.SUBSCRIBE, version),
    ]
    for wanted in packet.filters:
        options = _options(wanted) if version == MQTT_5 else _qos(wanted.qos)
        parts += (encode_text(wanted.filter, "topic filter"), bytes((options,)))
    return _framed(PacketType.SUBSCRIBE, *parts)


def _options(wanted: TopicFilter) -> int:
    if wanted.retain_handling not in (0, 1, 2):
        raise EncodeError(f"retain handling is 0, 1 or 2, not {wanted.retain_handling}")
    return (
        _qos(wanted.qos)
        | wanted.no_local << 2
        | wanted.retain_as_published << 3
        | wanted.retain_handling << 4
    )


def _suback(packet: SubAck, version: int) -> bytes:
    codes = packet.reason_codes
    if version != MQTT_5:
        codes = tuple(ReasonCode.UNSPECIFIED_ERROR if code.failed else code for code in codes)
    return _framed(
        PacketType.SUBACK,
        _packet_id(packet.packet_id),
        _properties(packet.properties, PacketType.SUBACK, version),
        bytes(codes),
    )


def _unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    if not packet.filters:
        raise EncodeError("an UNSUBSCRIBE has at least one topic filter")
    return _framed(
        PacketType.UNSUBSCRIBE,
        _packet_id(packet.packet_id),
        _properties(packet.properties, PacketType.UNSUBSCRIBE, version),
        *[encode_text(topic_filter, "topic filter") for topic_filter in packet.filters],
    )


def _unsuback(packet: UnsubAck, version: int) -> bytes:
    return _framed(
        PacketType.UNSUBACK,
        _packet_id(packet.packet_id),
        _properties(packet.properties, PacketType.UNSUBACK, version),
        bytes(packet.reason_codes) if version == MQTT_5 else b"",
    )


def _pingreq(packet: PingReq, version: int) -> bytes:
    return b"\xc0\x00" * packet.count


def _pingresp(packet: PingResp, version: int) -> bytes:
    return b"\xd0\x00"


def _disconnect(packet: Disconnect, version: int) -> bytes:
    if version != MQTT_5 or packet == Disconnect():
        return b"\xe0\x00"
    properties = b""
    if packet.properties != NO_PROPERTIES:
        properties = _properties(packet.properties, PacketType.DISCONNECT, version)
    return _framed(PacketType.DISCONNECT, bytes((packet.reason_code,)), properties)


def _auth(packet: Auth, version: int) -> bytes:
    if version != MQTT_5:
        raise EncodeError("MQTT 3 has no AUTH")
    if packet == Auth():
        return b"\xf0\x00"
    if packet.properties.authentication_method is None:
        raise EncodeError("an AUTH names its authentication method")
    return _framed(
        PacketType.AUTH,
        bytes((packet.reason_code,)),
        _properties(packet.properties, PacketType.AUTH, version),
    )


# Each takes packets of its own type, which the type of a table cannot express.
_ENCODERS: dict[type, Callable[[Any, int], bytes]] = {
    Connect: _connect,
    ConnAck: _connack,
    Publish: _publish,
    PubAck: _acknowledgement(PacketType.PUBACK),
    PubRec: _acknowledgement(PacketType.PUBREC),
    PubRel: _acknowledgement(PacketType.PUBREL),
    PubComp: _acknowledgement(PacketType.PUBCOMP),
    Subscribe: _subscribe,
    SubAck: _suback,
    Unsubscribe: _unsubscribe,
    UnsubAck: _unsuback,
    PingReq: _pingreq,
    PingResp: _pingresp,
    Disconnect: _disconnect,
    Auth: _auth,
}
