"""The types of control packets, their senders, and the versions of the protocol."""

from enum import Enum, IntEnum

MQTT_3_1 = 3
MQTT_3_1_1 = 4
MQTT_5 = 5
PROTOCOL_NAMES = {MQTT_3_1: "MQIsdp", MQTT_3_1_1: "MQTT", MQTT_5: "MQTT"}

LARGEST_VARIABLE_INTEGER = 268_435_455
LARGEST_PACKET = LARGEST_VARIABLE_INTEGER + 5


class PacketType(IntEnum):
    """Control packets by the number in their first byte; WILL is for the properties of a will."""

    WILL = 0
    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Sender(Enum):
    """The side that sent a packet: some types are allowed from one side only."""

    CLIENT = "client"
    SERVER = "server"
