"""What an operator may choose: every setting of a broker, with the default that works.

The sections are those of the configuration file. Sizes are bytes and times seconds, as the names
say; a section that is left out is as it stands here. The text under a field is what users read of
it, in `nearcast config default` and in the reference; the types say what `configuration` accepts.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

Port = Annotated[int, Meta(ge=-1, le=0xFFFF)]
Count = Annotated[int, Meta(ge=1)]
CountOrNone = Annotated[int, Meta(ge=0)]
Word = Annotated[int, Meta(ge=1, le=0xFFFF)]
WordOrNone = Annotated[int, Meta(ge=0, le=0xFFFF)]
Bytes = Annotated[int, Meta(ge=1)]
BytesOrNone = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
SecondsOrNone = Annotated[float, Meta(ge=0)]
PerSecond = Annotated[float, Meta(gt=0)]
PerSecondOrNone = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]
# `path`: in a file, relative to it. `private`: not shown to those who only watch the broker.
# `form`: how a pattern is told to people. `subject`: a pattern of subjects.
FilePath = Annotated[str, Meta(extra={"path": True})]
PrivatePath = Annotated[str, Meta(extra={"path": True, "private": True})]
Host = Annotated[str, Meta(min_length=1, extra={"form": "an address or the name of a host"})]
WebHost = Annotated[
    str,
    Meta(pattern=r"^(\*|[A-Za-z0-9._-]+)\Z", extra={"form": "the name of a host, without a port"}),
]
WebOrigin = Annotated[
    str,
    Meta(
        pattern=r"^(\*|null|https?://[^/\s]+/?)\Z",
        extra={"form": "http://HOST or https://HOST, with :PORT if it is another than usual, or *"},
    ),
]
BrokerName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\Z",
        extra={"form": "up to 100 letters, digits, '.', '-' and '_', no dot in front"},
    ),
]
Address = Annotated[str, Meta(pattern=r"^(\S+:[0-9]{1,5})?\Z", extra={"form": "HOST:PORT"})]
TableName = Literal[
    "events", "rejects", "contexts", "deliveries", "aggregates", "encounters", "traffic"
]
SubjectPattern = Annotated[str, Meta(extra={"subject": True})]
PlainPattern = Annotated[
    str,
    Meta(
        pattern=r"^[^$]",
        extra={"subject": True, "form": "a pattern of subjects that does not begin with $"},
    ),
]
AggregateRule = Annotated[
    str, Meta(extra={"form": 'a threshold such as "people 10 per cell 500" or "volume 5"'})
]
Url = Annotated[
    str,
    Meta(
        pattern=r"^((mqtts?|wss?)://\S+)?\Z",
        # It may hold a password.
        extra={"private": True, "form": "mqtt://HOST:PORT, or the same with mqtts, ws or wss"},
    ),
]
Location = Annotated[
    str,
    Meta(
        pattern=r"^([a-z0-9]+://\S+)?\Z",
        extra={"form": "a URL such as s3://BUCKET/FOLDER or file:///DIRECTORY"},
    ),
]
BridgeName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9._-]{0,50}\Z",
        extra={"form": "up to 50 letters, digits, '.', '-' and '_'"},
    ),
]
Algorithm = Literal[
    "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    "ES256", "ES384", "ES512", "EdDSA",
]  # fmt: skip


class NodeSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Which broker this is and where it keeps its things."""

    name: BrokerName = "local"
    """Its name among brokers, and of its directory in `data`."""
    data: FilePath = "nearcast-data"
    """The data directory; it is made if there is none."""


class ListenSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Where it listens; a port of 0 takes a free one, of -1 leaves the listener out."""

    host: Host = "127.0.0.1"
    """The address to listen on; `0.0.0.0` is every one of this machine."""
    mqtt_port: Port = 1883
    """MQTT over TCP."""
    ws_port: Port = 8083
    """MQTT over WebSocket."""
    http_port: Port = 8080
    """HTTP: a page that says what this is, `/api`, `/metrics` and `/healthz`."""
    http_host: str = "127.0.0.1"
    """Where it listens for these; `/metrics` and `/healthz` ask nobody for a password."""
    hosts: tuple[WebHost, ...] = ()
    """Names under which browsers reach it, besides addresses and `localhost`; `*`: any."""
    origins: tuple[WebOrigin, ...] = ()
    """Pages that may connect, as in `https://app.example.org`, besides those of its own host."""
    mqtts_port: Port = -1
    """MQTT over TLS; needs `certificate` and `key`."""
    wss_port: Port = -1
    """MQTT over WebSocket and TLS; needs `certificate` and `key`."""
    certificate: FilePath = ""
    """A file with the broker's certificate and those that lead to its authority (PEM)."""
    key: PrivatePath = ""
    """A file with the certificate's private key (PEM)."""
    client_authority: FilePath = ""
    """Certificates of clients are asked for and checked against this one."""
    client_certificate: Literal["optional", "required"] = "optional"
    """`optional` or `required`, once there is a `client_authority`."""


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What one client, and all of them together, may ask for."""

    connections: Count = 20_000
    """Connections at once; one more is refused."""
    connects_per_s: PerSecond = 500.0
    """New connections a second from one address; more wait in the system's queue."""
    connect_within_s: Seconds = 10.0
    """A connection that has not said who it is by then is closed."""
    packet_bytes: Annotated[int, Meta(ge=64, le=268_435_460)] = 1 << 20
    """The largest packet that is accepted; clients of MQTT 5 are told."""
    keep_alive_s: WordOrNone = 0
    """The longest keep-alive; a client that wants a longer one or none is told this. 0: any."""
    session_expiry_s: Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)] = 0xFFFF_FFFF
    """The longest that a session outlives its connection; 4294967295: for ever."""
    receive_maximum: Word = 1_000
    """How many messages of QoS 1 and 2 a client may have unacknowledged towards the broker."""
    topic_aliases: WordOrNone = 64
    """Topic aliases that a client may use, and that are used towards a client which allows it."""
    sessions: Count = 100_000
    """Sessions that outlive their connections; one more is refused."""
    subscriptions: Count = 10_000
    """Subscriptions of one session."""
    filters_per_packet: Count = 1_000
    """Topic filters in one SUBSCRIBE or UNSUBSCRIBE."""
    user_properties: CountOrNone = 256
    """User properties of one packet."""
    topic_bytes: Word = 4_096
    """The longest topic or topic filter."""
    topic_levels: Word = 128
    """The most levels of a topic or topic filter."""
    in_flight: Word = 1_000
    """Messages of QoS 1 and 2 on the way to one client at once, at most what it allows itself."""
    queued: Count = 10_000
    """Messages that wait for one session; then the oldest of the lowest priority is dropped."""
    queued_bytes: Bytes = 64 << 20
    """The same in bytes; whichever comes first."""
    unsent_bytes: Bytes = 1 << 20
    """Bytes that a client has not read: from then on messages wait in its queue."""
    stalled_s: Seconds = 60.0
    """A client that has read nothing for so long while that much is unsent is disconnected."""
    retained: CountOrNone = 1_000_000
    """Retained messages and live events of all clients together."""
    retained_bytes: Bytes = 2 << 30
    """The same in bytes, about as much memory as they take."""
    user_share: Share = 0.8
    """What one user may have of everything that is bounded for all clients together.

    Anonymous clients of one address are one user.
    """
    all_subscriptions: Count = 2_000_000
    """Subscriptions of all sessions together."""
    filter_bytes: Bytes = 4 << 20
    """Bytes of topic filters, `nc-where` and `nc-from` of one session."""
    all_filter_bytes: Bytes = 1 << 30
    """The same of all sessions together."""
    filter_atoms: Count = 50_000
    """Conditions in the filters of one session, such as `speed > 50`."""
    all_filter_atoms: Count = 5_000_000
    """The same of all sessions together."""
    vertices: Count = 250_000
    """Vertices in the areas of one session: in subscriptions, announcements, watched areas."""
    all_vertices: Count = 5_000_000
    """The same of all sessions together."""
    all_queued_bytes: Bytes = 4 << 30
    """Bytes of messages that wait for all sessions together; then a session drops as if full."""
    all_packet_ids: Count = 5_000_000
    """Messages of QoS 2 that clients have not released yet, of all sessions together."""
    all_will_bytes: Bytes = 256 << 20
    """Bytes of the wills of all sessions together."""
    announcements: Count = 1_000
    """Announcements of one session."""
    all_announcements: Count = 500_000
    """Announcements of all sessions together."""
    areas: Count = 1_000
    """Watched areas of one node."""
    all_areas: Count = 100_000
    """Watched areas of all nodes together."""
    relationships: Count = 100_000
    """Relationships that one node defined."""
    all_relationships: Count = 500_000
    """Relationships of all nodes together."""
    relationship_members: Count = 500_000
    """Members in the relationships that one node defined."""
    all_relationship_members: Count = 2_500_000
    """The same of all nodes together."""
    places: Count = 200_000
    """Places."""
    place_vertices: Count = 10_000_000
    """Vertices of all places together."""
    nodes: Count = 500_000
    """Nodes with a position or a context; beyond that the one idle for longest is dropped."""
    context_bytes: Annotated[int, Meta(ge=2, le=65_536)] = 65_536
    """The largest context of a node, as JSON."""
    all_context_bytes: Bytes = 1 << 30
    """Bytes of the contexts of all nodes together."""
    scripts: Count = 1_000
    """Scripts that one session may have placed."""
    all_scripts: Count = 10_000
    """Scripts of all sessions together."""
    script_bytes: Bytes = 16 << 20
    """Bytes of sources and states of the scripts of one session."""
    all_script_bytes: Bytes = 256 << 20
    """Bytes of sources and states of all scripts."""
    input_bytes: Bytes = 1 << 30
    """Bytes of input of all clients that is not processed, also of packets that are half read.

    Beyond that, connections with most of it are closed.
    """
    all_unsent_bytes: Bytes = 2 << 30
    """Bytes that all clients together have not read.

    Beyond that, connections with most of it are closed.
    """
    memory: CountOrNone = 0
    """Bytes of memory of the broker's process; 0: 70 % of what the system allows it.

    Before that much is used, load is shed in steps, see the reference of limits.
    """
    messages_per_s: PerSecondOrNone = 0.0
    """Messages a second from one client, on average; faster ones are read later. 0: any."""
    filter_cost_per_s: PerSecondOrNone = 250_000.0
    """Microseconds a second that filters of one user may cost; others are suspended. 0: any."""


class AuthSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may come in and what they may do."""

    anonymous: Literal["loopback", "everywhere", "nowhere"] = "loopback"
    """Without a name and password: `loopback` (from this machine), `everywhere` or `nowhere`."""
    users: PrivatePath = ""
    """The file of `nearcast user`."""
    rules: FilePath = ""
    """The file of rules; without one everyone who is in may do everything."""
    jwt_key: PrivatePath = ""
    """A file with the secret or the public key; a token is then given as the password."""
    jwt_algorithms: tuple[Algorithm, ...] = ("HS256", "RS256", "ES256")
    """How tokens may be signed."""
    jwt_audience: str = ""
    """The audience that a token must be for; empty: any."""
    jwt_issuer: str = ""
    """The issuer that a token must be from; empty: any."""
    failures_per_minute: Count = 30
    """Wrong passwords from one address; then it is refused for the rest of the minute."""


class LogSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The event log: when a segment is rolled, when merged, and when it goes."""

    roll_s: Seconds = 1.0
    """A segment is written after so long."""
    followed_roll_s: Seconds = 0.2
    """The same while somebody follows the log."""
    roll_bytes: Bytes = 8 << 20
    """A segment is written once it holds so much."""
    merge_after: Annotated[int, Meta(ge=2)] = 3_600
    """So many segments are merged into one."""
    keep_s: SecondsOrNone = 7 * 86_400.0
    """How long segments are kept, or longer while a pipeline needs them; 0: for ever."""


class RecordSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept out of the log."""

    exclude: tuple[SubjectPattern, ...] = ()
    """Patterns of subjects whose events are delivered and not recorded."""
    deliveries: bool = False
    """Record to whom each event went, for `nearcast pipeline audit`; costs speed."""


class DataSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Who may read the data directory, and where else its content is."""

    group: str = ""
    """A group of this machine that may read segments of the log and tables; empty: none."""
    storage: Location = ""
    """A store that a cluster reads, such as `s3://BUCKET/nearcast`; empty: only the data directory.

    Brokers copy their logs there; the pipeline reads them there, and keeps tables and snapshots.
    """


class DiskSection(Struct, frozen=True, forbid_unknown_fields=True):
    """When the disk fills up: each at most 10, 6, 4 and 2 % of the disk; 0 leaves a stage out."""

    warn_free_bytes: BytesOrNone = 2 << 30
    """With less free space than this, the broker warns."""
    reclaim_free_bytes: BytesOrNone = 1 << 30
    """With less, segments of the log that no pipeline needs go before `log.keep_s`."""
    low_free_bytes: BytesOrNone = 512 << 20
    """With less, events of QoS 0 are not recorded, and those decided in Spark are refused."""
    critical_free_bytes: BytesOrNone = 128 << 20
    """With less, messages of QoS 1 and 2 are refused, and all that would have to be stored."""


class SituationSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of what is known."""

    position_ttl_s: Seconds = 600.0
    """A position older than this counts as none."""
    ahead_s: SecondsOrNone = 60.0
    """A time further ahead of the broker's than this is replaced."""
    recent_s: Seconds = 300.0
    """How far back `count` in filters looks."""
    node_ttl_s: Seconds = 86_400.0
    """What is known of a node is dropped so long after its last input, if nothing needs it.

    It has no session then, no announcement, no live event and no watched area.
    """


class Objects(Struct, frozen=True, forbid_unknown_fields=True):
    """Events with an `nc-object`, of which a later one replaces an earlier one."""

    shared: tuple[SubjectPattern, ...] = ()
    """Patterns of subjects whose objects have one key whoever publishes; else each has its own."""


class BridgeSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Another MQTT broker whose messages come here, and to which those of here go."""

    url: Url = ""
    """Where it is, as in `mqtt://HOST:1883`; also `mqtts`, `ws` and `wss`. Empty: no bridge."""
    name: BridgeName = ""
    """Its messages are published here by node `bridge-NAME`; empty: the name of its host."""
    incoming: tuple[PlainPattern, ...] = ("#",)
    """Patterns of what comes in."""
    outgoing: tuple[PlainPattern, ...] = ("#",)
    """Patterns of what goes out."""
    qos: Annotated[int, Meta(ge=0, le=2)] = 2
    """The highest QoS, both ways; what was published with a lower one keeps it."""
    user: str = ""
    """Who this broker is there."""
    password_file: PrivatePath = ""
    """A file whose first line is the password there."""
    ca_file: FilePath = ""
    """Certificates to trust, for `mqtts` and `wss`; empty: those of the system."""


class ShutdownSection(Struct, frozen=True, forbid_unknown_fields=True):
    """How the broker stops: what clients are told, and how long it takes."""

    redirect: Address = ""
    """`HOST:PORT` of another broker, told to MQTT 5 clients."""
    within_s: SecondsOrNone = 5.0
    """It ends within this time and two seconds; clients have 0.7 of it to read what is left."""


class PipelineSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The data pipeline on Spark that `nearcast up` runs beside the broker."""

    master: str = "local[*]"
    """Where Spark runs: this machine, or a cluster such as `spark://HOST:7077`."""
    shuffle_partitions: CountOrNone = 0
    """Into how many parts state is divided; 0: as many as cores when it begins, 8 at most."""
    memory: Annotated[str, Meta(pattern=r"^[0-9]+[mg]\Z", extra={"form": "such as 2g"})] = "2g"
    """Memory of Spark's driver, which on one machine does all the work."""
    max_rows: Count = 100_000
    """So many rows of the log are one batch at most."""
    decide_shards: Count = 1
    """Into how many shards sessions are divided to decide, each in a process of its own."""
    lateness_s: SecondsOrNone = 900.0
    """Events that are later than this are in tables, and in nothing that is gathered."""
    encounters_m: Annotated[float, Meta(ge=0)] = 100.0
    """Nodes within this distance meet; 0: nobody looks."""
    encounters_fresh_s: Seconds = 120.0
    """Where a node was longer ago than this does not count."""
    traffic_cell_m: Annotated[float, Meta(ge=10)] = 200.0
    """The size of the cells that traffic is counted in."""
    traffic_window_s: Seconds = 300.0
    """Over how long."""
    hazards: SubjectPattern = "hazard/#"
    """Events on these subjects are hazards, and counted with the traffic."""
    backlog_mb: Count = 1024
    """So much may wait on disk for each broker that takes nothing."""
    backlog_full: Literal["wait", "drop-oldest"] = "wait"
    """Beyond that queries `wait` for the broker, or the oldest rows for it are dropped."""
    tables: str = ""
    """Where the tables are: a path or a URL such as `s3://BUCKET/tables`; empty: in `data`."""


class LoggingSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What the broker says."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is said: `debug`, `info`, `warning` or `error`."""
    form: Literal["text", "json"] = "text"
    """`text` or `json`: one object a line."""


class DiagnosticsSection(Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged of the broker's own slowness."""

    slow_tick_s: Seconds = 0.1
    """A tick, or a stall between two, that takes longer is logged with who and what caused it."""


class AdaptationSection(Struct, frozen=True, forbid_unknown_fields=True):
    """How urgent an event is for a subscriber, by relevance and by the state of its link."""

    levels: Annotated[int, Meta(ge=1, le=16)] = 3
    """Levels of relevance; there are as many classes of context, and priorities."""
    share_bytes: Bytes = 65_536
    """After so many bytes of better priorities, a message of a lower one that waits is next."""
    raising: tuple[str, ...] = field(default=(), name="raise")
    """Patterns of users whose `nc-priority` may raise a priority, not only lower it."""
    uplink_kbps: Annotated[float, Meta(ge=0.0)] = 0.0
    """What may be sent to all clients, in kb/s, divided by the rank of their nodes; 0: no limit."""


class GatheringSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Events with a smallest number of people of their own (`nc-people`), without a rule."""

    every_s: Annotated[float, Meta(ge=0.1, le=86_400.0)] = 60.0
    """At each multiple of this, groups of enough people go out."""
    wait_s: Annotated[float, Meta(gt=0.0, le=604_800.0)] = 3600.0
    """Events that have waited longer are discarded."""


class ScriptsSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Scripts that nodes are sent, and the processes that run them."""

    workers: Annotated[int, Meta(ge=1, le=64)] = 2
    """The most processes; each runs the scripts of one user at a time."""


class PropagationSection(Struct, frozen=True, forbid_unknown_fields=True):
    """Clients that offer to pass messages on to each other (`nc-p2p`)."""

    chains: bool = True
    """Whether messages go along chains of such clients."""
    percent: Annotated[float, Meta(gt=0.0, le=100.0)] = 10.0
    """How many of the clients that get a message are in one chain, in per cent."""
    degree: Annotated[int, Meta(ge=1, le=16)] = 2
    """To how many others each passes a message on; 1: a chain, more: a tree."""
    confirm_within_s: Annotated[float, Meta(ge=0.1, le=60.0)] = 2.0
    """Who has not confirmed a message by then gets it from the broker."""
    confirm_per_hop_s: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.25
    """As much longer for each time that the message is passed on until the last has it."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """All of it."""

    node: NodeSection = field(default_factory=NodeSection, name="broker")
    listen: ListenSection = field(default_factory=ListenSection)
    limits: Limits = field(default_factory=Limits)
    doors: AuthSection = field(default_factory=AuthSection)
    log: LogSection = field(default_factory=LogSection)
    record: RecordSection = field(default_factory=RecordSection)
    data: DataSection = field(default_factory=DataSection)
    disk: DiskSection = field(default_factory=DiskSection)
    situation: SituationSection = field(default_factory=SituationSection)
    objects: Objects = field(default_factory=Objects)
    adaptation: AdaptationSection = field(default_factory=AdaptationSection)
    propagation: PropagationSection = field(default_factory=PropagationSection)
    gathering: GatheringSection = field(default_factory=GatheringSection)
    scripts: ScriptsSection = field(default_factory=ScriptsSection)
    bridge: BridgeSection = field(default_factory=BridgeSection)
    shutdown: ShutdownSection = field(default_factory=ShutdownSection)
    logging: LoggingSection = field(default_factory=LoggingSection)
    diagnostics: DiagnosticsSection = field(default_factory=DiagnosticsSection)
    pipeline: PipelineSection = field(default_factory=PipelineSection)
    decide: dict[SubjectPattern, Literal["edge", "spark"]] = {}
    """Where events are decided: `edge` (the broker) or `spark`; the first that fits counts."""
    aggregates: dict[SubjectPattern, AggregateRule] = {}
    """What the pipeline gathers before it goes out together, by pattern of subjects."""
    keep_days: dict[TableName, Count] = {}
    """For how many days a table of the pipeline keeps its rows, by its name; others keep all."""
    spark: dict[str, str] = {}
    """Settings of Spark's own for the pipeline, by their names."""

    @property
    def logs(self) -> str:
        """Where the pipeline reads the logs: a store with copies of them, or the data directory."""
        return self.data.storage or self.node.data

    @property
    def tables(self) -> str:
        """Where the tables of the pipeline are; empty: in the data directory."""
        storage = self.data.storage.rstrip("/")
        return self.pipeline.tables or (f"{storage}/tables" if storage else "")
