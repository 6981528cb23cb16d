"""Outgoing messages and requests, checked on creation."""

from msgspec import Struct

from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    EncodeError,
    PacketType,
    Properties,
    PublishFrame,
    ReasonCode,
    Subscribe,
    Unsubscribe,
    encode,
)
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET
from nearcast.wire.mqtt.properties import encode_properties


class OutgoingMessage(Struct, eq=False):
    """An outgoing message; token 0: a standing one that is sent again."""

    token: int
    frame: PublishFrame
    qos: int
    retain: bool
    size: int
    packet_id: int = 0
    reason_code: ReasonCode = ReasonCode.SUCCESS
    """The code of its PUBREC."""
    standing: bool = False
    """It is in force as long as the session, so it is sent again if the server loses that."""


class OutgoingRequest(Struct, eq=False):
    """An outgoing SUBSCRIBE or UNSUBSCRIBE; token 0: a subscription that is sent again."""

    token: int
    packet: Subscribe | Unsubscribe
    size: int


Item = OutgoingMessage | OutgoingRequest


def outgoing(
    token: int,
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool,
    properties: Properties,
    version: int,
) -> OutgoingMessage:
    """Return a message, or raise `EncodeError` for what MQTT cannot carry."""
    if not topic or "+" in topic or "#" in topic:
        raise EncodeError("a topic name has at least one character and no wildcards + and #")
    if qos not in (0, 1, 2):
        raise EncodeError(f"{qos} is no QoS; it is 0, 1 or 2")
    if properties.topic_alias is not None:
        raise EncodeError("a topic alias belongs to one connection; a message has none")
    _check_properties(properties, version)
    frame = PublishFrame(topic, payload, encode_properties(properties, PacketType.PUBLISH))
    size = frame.size(version, qos)
    if size > LARGEST_PACKET:
        raise EncodeError(f"the message is {size} bytes long; MQTT carries {LARGEST_PACKET}")
    return OutgoingMessage(token, frame, qos, retain, size)


def request(token: int, packet: Subscribe | Unsubscribe, version: int) -> OutgoingRequest:
    """Return a request, or raise `EncodeError` for what MQTT cannot carry."""
    _check_properties(packet.properties, version)
    return OutgoingRequest(token, packet, len(encode(packet, version)))


def _check_properties(properties: Properties, version: int) -> None:
    if version != MQTT_5 and properties != NO_PROPERTIES:
        raise EncodeError("MQTT 3 carries no properties; use MQTT 5")
