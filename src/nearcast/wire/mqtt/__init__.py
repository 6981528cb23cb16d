"""MQTT 3.1, 3.1.1 and 5: a decoder and an encoder without I/O."""

from nearcast.wire.mqtt.decoder import Decoder as Decoder
from nearcast.wire.mqtt.decoder import clear_topic_cache as clear_topic_cache
from nearcast.wire.mqtt.encoder import encode as encode
from nearcast.wire.mqtt.encoder import encode_within as encode_within
from nearcast.wire.mqtt.encoder import success as success
from nearcast.wire.mqtt.errors import EncodeError as EncodeError
from nearcast.wire.mqtt.errors import ProtocolError as ProtocolError
from nearcast.wire.mqtt.packet_types import MQTT_3_1 as MQTT_3_1
from nearcast.wire.mqtt.packet_types import MQTT_3_1_1 as MQTT_3_1_1
from nearcast.wire.mqtt.packet_types import MQTT_5 as MQTT_5
from nearcast.wire.mqtt.packet_types import PacketType as PacketType
from nearcast.wire.mqtt.packet_types import Sender as Sender
from nearcast.wire.mqtt.packets import Acknowledgement as Acknowledgement
from nearcast.wire.mqtt.packets import Auth as Auth
from nearcast.wire.mqtt.packets import ConnAck as ConnAck
from nearcast.wire.mqtt.packets import Connect as Connect
from nearcast.wire.mqtt.packets import Disconnect as Disconnect
from nearcast.wire.mqtt.packets import Packet as Packet
from nearcast.wire.mqtt.packets import PingReq as PingReq
from nearcast.wire.mqtt.packets import PingResp as PingResp
from nearcast.wire.mqtt.packets import PubAck as PubAck
from nearcast.wire.mqtt.packets import PubComp as PubComp
from nearcast.wire.mqtt.packets import Publish as Publish
from nearcast.wire.mqtt.packets import PubRec as PubRec
from nearcast.wire.mqtt.packets import PubRel as PubRel
from nearcast.wire.mqtt.packets import SubAck as SubAck
from nearcast.wire.mqtt.packets import Subscribe as Subscribe
from nearcast.wire.mqtt.packets import TopicFilter as TopicFilter
from nearcast.wire.mqtt.packets import UnsubAck as UnsubAck
from nearcast.wire.mqtt.packets import Unsubscribe as Unsubscribe
from nearcast.wire.mqtt.packets import Will as Will
from nearcast.wire.mqtt.properties import NO_PROPERTIES as NO_PROPERTIES
from nearcast.wire.mqtt.properties import Properties as Properties
from nearcast.wire.mqtt.publish_frame import PublishFrame as PublishFrame
from nearcast.wire.mqtt.publish_frame import plain_publish as plain_publish
from nearcast.wire.mqtt.publish_frame import topic_field as topic_field
from nearcast.wire.mqtt.publish_properties import MESSAGE_EXPIRY_MARK as MESSAGE_EXPIRY_MARK
from nearcast.wire.mqtt.publish_properties import first_message_expiry as first_message_expiry
from nearcast.wire.mqtt.publish_properties import message_expiry as message_expiry
from nearcast.wire.mqtt.publish_properties import short_user_properties as short_user_properties
from nearcast.wire.mqtt.publish_properties import stripped as stripped
from nearcast.wire.mqtt.publish_properties import (
    subscription_identifiers as subscription_identifiers,
)
from nearcast.wire.mqtt.publish_properties import topic_alias as topic_alias
from nearcast.wire.mqtt.publish_properties import user_properties as user_properties
from nearcast.wire.mqtt.reason_codes import ReasonCode as ReasonCode
from nearcast.wire.mqtt.topics import CheckedFilter as CheckedFilter
from nearcast.wire.mqtt.topics import is_shared as is_shared
from nearcast.wire.mqtt.topics import parse_filter as parse_filter
