"""What an operator may choose: every setting of a broker, with the default that works.

The sections are those of the configuration file. Sizes are bytes and times seconds, as the names
say; a section that is left out is as it stands here.
"""

from msgspec import Struct, field


class Node(Struct, frozen=True, forbid_unknown_fields=True):
    """Which broker this is and where it keeps its things."""

    name: str = "local"
    data: str = "nearcast-data"


class Listen(Struct, frozen=True, forbid_unknown_fields=True):
    """Where it listens; a port of 0 takes a free one, of -1 leaves the listener out."""

    host: str = "127.0.0.1"
    mqtt_port: int = 1883
    ws_port: int = 8083
    http_port: int = 8080
    mqtts_port: int = -1
    wss_port: int = -1
    certificate: str = ""
    key: str = ""
    client_authority: str = ""
    """Certificates of clients are asked for and checked against this one."""
    client_certificate: str = "optional"
    """`optional` or `required`, once there is a `client_authority`."""


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What one client, and all of them together, may ask for."""

    connections: int = 20_000
    connects_per_s: float = 500.0
    """New connections a second from one address; more wait in the system's queue."""
    connect_within_s: float = 10.0
    packet_bytes: int = 1 << 20
    keep_alive_s: int = 0
    """The longest keep-alive; a client that wants a longer one or none is told this. 0: any."""
    session_expiry_s: int = 0xFFFF_FFFF
    receive_maximum: int = 1_000
    """How many messages of QoS 1 and 2 a client may have unacknowledged towards the broker."""
    topic_aliases: int = 64
    """Topic aliases that a client may use, and that are used towards a client which allows it."""
    subscriptions: int = 10_000
    """Per session."""
    filters_per_packet: int = 1_000
    user_properties: int = 256
    """Per packet."""
    topic_bytes: int = 4_096
    topic_levels: int = 128
    in_flight: int = 1_000
    """Messages of QoS 1 and 2 on the way to one client at once, at most what it allows itself."""
    queued: int = 10_000
    """Messages that wait for one session; then the newest is dropped, and counted."""
    queued_bytes: int = 64 << 20
    unsent_bytes: int = 1 << 20
    """Bytes that a client has not read: from then on messages wait in its queue."""
    stalled_s: float = 60.0
    """A client that has read nothing for so long while that much is unsent is disconnected."""
    retained: int = 1_000_000
    messages_per_s: float = 0.0
    """Messages a second from one client, on average; faster ones are read later. 0: any."""


class Doors(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may come in and what they may do."""

    anonymous: str = "loopback"
    """Without a name and password: `loopback` (from this machine), `everywhere` or `nowhere`."""
    users: str = ""
    """The file of `nearcast user`."""
    rules: str = ""
    """The file of rules; without one everyone who is in may do everything."""
    jwt_key: str = ""
    """A file with the secret or the public key; a token is then given as the password."""
    jwt_algorithms: tuple[str, ...] = ("HS256", "RS256", "ES256")
    jwt_audience: str = ""
    jwt_issuer: str = ""
    failures_per_minute: int = 30
    """Wrong passwords from one address; then it is refused for the rest of the minute."""


class LogSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The event log: when a segment is rolled, when merged, and when it goes."""

    roll_s: float = 1.0
    followed_roll_s: float = 0.2
    roll_bytes: int = 8 << 20
    merge_after: int = 3_600
    keep_s: float = 7 * 86_400.0
    """How long segments are kept; 0: for ever."""


class RecordSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept out of the log."""

    exclude: tuple[str, ...] = ()
    """Patterns of subjects whose events are delivered and not recorded."""


class Situation(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of what is known."""

    position_ttl_s: float = 600.0
    ahead_s: float = 60.0
    recent_s: float = 300.0


class Shutdown(Struct, frozen=True, forbid_unknown_fields=True):
    """What clients are told when the broker stops."""

    redirect: str = ""
    """`HOST:PORT` of another broker, told to MQTT 5 clients."""
    within_s: float = 5.0
    """How long clients may take to read what is left."""


class Logging(Struct, frozen=True, forbid_unknown_fields=True):
    """What the broker says."""

    level: str = "info"
    form: str = "text"
    """`text` or `json`: one object a line."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All of it."""

    node: Node = field(default_factory=Node, name="broker")
    listen: Listen = field(default_factory=Listen)
    limits: Limits = field(default_factory=Limits)
    doors: Doors = field(default_factory=Doors)
    log: LogSection = field(default_factory=LogSection)
    record: RecordSection = field(default_factory=RecordSection)
    situation: Situation = field(default_factory=Situation)
    shutdown: Shutdown = field(default_factory=Shutdown)
    logging: Logging = field(default_factory=Logging)
    decide: dict[str, str] = {}
    """Where events of a subject pattern are decided: `edge` or, later, `spark`."""
