"""Options of a client: its CONNECT, and its own limits."""

from msgspec import Struct

from nearcast.client.errors import OptionsError
from nearcast.wire.mqtt import MQTT_5, Will
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET, PROTOCOL_NAMES

LONGEST_SESSION_S = 0xFFFF_FFFF
"""A session with this expiry never ends."""
_SIXTEEN_BITS = 0xFFFF


class ClientOptions(Struct, frozen=True, kw_only=True):
    """The identity of a client, its session, and its limits.

    `session_expiry_s` belongs to MQTT 5. With MQTT 3 a session outlives the connection if
    `clean_start` is false, and never otherwise.
    """

    client_id: str = ""
    version: int = MQTT_5
    clean_start: bool = True
    """Discard an older session; with MQTT 5 only on the first connection."""
    session_expiry_s: int = 0
    ends_session: bool = False
    """Whether a normal disconnection ends the session, which then outlives only lost
    connections."""
    keep_alive_s: int = 60
    username: str | None = None
    password: bytes | None = None
    will: Will | None = None
    receive_maximum: int = 1_000
    """How many messages of QoS 1 and 2 a server may send before the first is acknowledged."""
    maximum_packet_size: int | None = None
    topic_alias_maximum: int = 64
    user_properties: tuple[tuple[str, str], ...] = ()
    accepts_encoded: bool = False
    """Whether the server may encode payloads (MQTT 5), which are decoded on arrival."""
    resubscribe: bool = True
    """Subscribe again if a server has lost the session."""
    answer_within_s: float = 10.0
    """How long a server may take to answer a CONNECT or a PINGREQ."""
    queued_messages: int = 10_000
    """The limit of messages and requests that wait to be sent or acknowledged."""
    queued_bytes: int = 64 << 20
    first_packet_id: int = 1
    """The first packet identifier; a program that continues an older session chooses at random, as
    the server may remember unfinished messages of that session."""

    def __post_init__(self) -> None:
        if self.version not in PROTOCOL_NAMES:
            raise OptionsError(f"{self.version} is no version of MQTT; it is 3, 4 or 5")
        if self.version != MQTT_5 and (self.session_expiry_s or self.user_properties):
            raise OptionsError("MQTT 3 has no session expiry and no user properties; use MQTT 5")
        _check("session_expiry_s", self.session_expiry_s, 0, LONGEST_SESSION_S)
        _check("keep_alive_s", self.keep_alive_s, 0, _SIXTEEN_BITS)
        _check("receive_maximum", self.receive_maximum, 1, _SIXTEEN_BITS)
        _check("topic_alias_maximum", self.topic_alias_maximum, 0, _SIXTEEN_BITS)
        _check("first_packet_id", self.first_packet_id, 1, _SIXTEEN_BITS)
        if self.maximum_packet_size is not None:
            _check("maximum_packet_size", self.maximum_packet_size, 1, LARGEST_PACKET)


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise OptionsError(f"{name} is {value}; it must be from {least} to {most}")
