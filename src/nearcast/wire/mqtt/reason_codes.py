"""Reason codes of MQTT 5, the packets that may carry them, and the return codes of MQTT 3."""

from enum import IntEnum


class ReasonCode(IntEnum):
    """A reason code: success below 0x80, failure from there on."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def text(self) -> str:
        """The code in words, as in `Not authorized`."""
        return _TEXTS[self]

    @property
    def failed(self) -> bool:
        """True if the code reports a failure."""
        return self >= 0x80


_TEXTS = {
    code: code.name.replace("_", " ").capitalize().replace("qos", "QoS").replace("Qos", "QoS")
    for code in ReasonCode
}
# Texts that cannot be derived from the identifiers.
_TEXTS[ReasonCode.DISCONNECT_WITH_WILL_MESSAGE] = "Disconnect with Will Message"
_TEXTS[ReasonCode.RE_AUTHENTICATE] = "Re-authenticate"
_TEXTS[ReasonCode.BAD_USER_NAME_OR_PASSWORD] = "Bad user name or password"


def _codes(*codes: int) -> dict[int, ReasonCode]:
    return {code: ReasonCode(code) for code in codes}


# The meaning of a byte in a packet; other bytes are not allowed [MQTT-3.x.2-1].
CONNACK_CODES = _codes(
    0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F
)  # fmt: skip
PUBACK_CODES = _codes(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
PUBREC_CODES = PUBACK_CODES
PUBREL_CODES = _codes(0x00, 0x92)
PUBCOMP_CODES = PUBREL_CODES
SUBACK_CODES = _codes(
    0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2
)  # fmt: skip
UNSUBACK_CODES = _codes(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)
DISCONNECT_CODES = _codes(
    0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, *range(0x93, 0xA3)
)  # fmt: skip
AUTH_CODES = _codes(0x00, 0x18, 0x19)

# MQTT 3: the return codes of CONNACK, and the reason codes of MQTT 5 for them.
RETURN_CODES = {
    0: ReasonCode.SUCCESS,
    1: ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    2: ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    3: ReasonCode.SERVER_UNAVAILABLE,
    4: ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    5: ReasonCode.NOT_AUTHORIZED,
}
SUBACK_RETURN_CODES = _codes(0x00, 0x01, 0x02, 0x80)
_RETURN_CODE_OF = {reason: code for code, reason in RETURN_CODES.items()} | {
    ReasonCode.BANNED: 5,
    ReasonCode.BAD_AUTHENTICATION_METHOD: 5,
    ReasonCode.TOPIC_NAME_INVALID: 5,
}


def return_code(reason: ReasonCode) -> int:
    """Return the MQTT 3 return code of a CONNACK for a reason, by default 3 (unavailable)."""
    return _RETURN_CODE_OF.get(reason, 3)
