"""What the load generator of the broker benchmark can be told to do, and what it answers."""

from msgspec import Struct


class Target(Struct, frozen=True):
    """The broker that is measured."""

    port: int
    pid: int
    settle_s: float
    """How long to wait for what it does after a message was delivered."""


class Ingest(Struct, frozen=True, tag=True):
    """Several publishers, nobody who listens."""

    target: Target
    qos: int
    publishers: int
    chunk: int
    chunks: int


class FanOut(Struct, frozen=True, tag=True):
    """Topics with one publisher and some receivers each."""

    target: Target
    topics: int
    receivers: int
    chunk: int
    chunks: int
    outstanding: int


class Sparse(Struct, frozen=True, tag=True):
    """Connections with a topic of their own each, and messages that go round."""

    target: Target
    connections: int
    chunk: int
    rounds: int
    outstanding: int


class Latency(Struct, frozen=True, tag=True):
    """One message every so often, to all receivers."""

    target: Target
    receivers: int
    messages: int
    per_s: float


class AcknowledgementLatency(Struct, frozen=True, tag=True):
    """One message of QoS 1 every so often, until it is acknowledged."""

    target: Target
    messages: int
    per_s: float | None = None
    """None: each as soon as the one before is acknowledged."""


class Idle(Struct, frozen=True, tag=True):
    """Connections that do nothing, then with one subscription each."""

    target: Target
    connections: int


class Flowed(Struct, frozen=True, tag=True):
    """What a load used, until its last message had arrived; the broker's CPU until it rested."""

    sent: int
    arrived: int
    """Messages at their receivers; for ingest, messages that were taken."""
    expected: int
    broker_cpu_s: float
    load_cpu_s: float
    wall_s: float


class Delayed(Struct, frozen=True, tag=True):
    """How late messages were."""

    messages: int
    p50_us: float
    p99_us: float


class Rested(Struct, frozen=True, tag=True):
    """Memory of a broker for each connection."""

    connections: int
    bytes_each: float
    bytes_each_subscribed: float


class Failed(Struct, frozen=True, tag=True):
    """Why there is no figure."""

    reason: str


Order = Ingest | FanOut | Sparse | Latency | AcknowledgementLatency | Idle
LoadResult = Flowed | Delayed | Rested | Failed
