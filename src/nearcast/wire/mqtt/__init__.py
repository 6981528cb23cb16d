"""MQTT 3.1, 3.1.1 and 5: a decoder and an encoder without I/O."""

from nearcast.wire.mqtt.decoder import Decoder
from nearcast.wire.mqtt.encoder import encode, encode_within, success
from nearcast.wire.mqtt.errors import EncodeError, ProtocolError
from nearcast.wire.mqtt.packet_types import MQTT_3_1, MQTT_3_1_1, MQTT_5, PacketType, Sender
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
from nearcast.wire.mqtt.properties import NO_PROPERTIES, Properties
from nearcast.wire.mqtt.publish_frame import PublishFrame
from nearcast.wire.mqtt.publish_properties import (
    MESSAGE_EXPIRY_MARK,
    first_message_expiry,
    message_expiry,
    short_user_properties,
    stripped,
    subscription_identifiers,
    topic_alias,
    user_properties,
)
from nearcast.wire.mqtt.reason_codes import ReasonCode
from nearcast.wire.mqtt.topics import Wanted, parse_filter

__all__ = [
    "MESSAGE_EXPIRY_MARK",
    "MQTT_3_1",
    "MQTT_3_1_1",
    "MQTT_5",
    "NO_PROPERTIES",
    "Acknowledgement",
    "Auth",
    "ConnAck",
    "Connect",
    "Decoder",
    "Disconnect",
    "EncodeError",
    "Packet",
    "PacketType",
    "PingReq",
    "PingResp",
    "Properties",
    "ProtocolError",
    "PubAck",
    "PubComp",
    "PubRec",
    "PubRel",
    "Publish",
    "PublishFrame",
    "ReasonCode",
    "Sender",
    "SubAck",
    "Subscribe",
    "TopicFilter",
    "UnsubAck",
    "Unsubscribe",
    "Wanted",
    "Will",
    "encode",
    "encode_within",
    "first_message_expiry",
    "message_expiry",
    "parse_filter",
    "short_user_properties",
    "stripped",
    "subscription_identifiers",
    "success",
    "topic_alias",
    "user_properties",
]
