"""The orders of the load generator of the broker benchmark, and its results."""

from msgspec import Struct


class Target(Struct, frozen=True):
    """The measured broker."""

    port: int
    pid: int
    settle_s: float
    """Seconds to wait for work that the broker does after a delivery."""


class Ingest(Struct, frozen=True, tag=True):
    """Several publishers, without subscribers."""

    target: Target
    qos: int
    publishers: int
    chunk: int
    chunks: int


class FanOut(Struct, frozen=True, tag=True):
    """Topics with one publisher and `receivers` receivers each."""

    target: Target
    topics: int
    receivers: int
    chunk: int
    chunks: int
    outstanding: int


class Sparse(Struct, frozen=True, tag=True):
    """Connections with one topic each; one publisher sends to each in every round."""

    target: Target
    connections: int
    chunk: int
    rounds: int
    outstanding: int


class Latency(Struct, frozen=True, tag=True):
    """Messages at a fixed rate to all receivers."""

    target: Target
    receivers: int
    messages: int
    per_s: float


class AcknowledgementLatency(Struct, frozen=True, tag=True):
    """QoS 1 messages, each timed until its acknowledgement."""

    target: Target
    messages: int
    per_s: float | None = None
    """Messages per second; None to send each as soon as the previous one is acknowledged."""


class Idle(Struct, frozen=True, tag=True):
    """Idle connections, first without and then with one subscription each."""

    target: Target
    connections: int


class Flowed(Struct, frozen=True, tag=True):
    """Costs of a load until its last message arrived; the broker's CPU time until it was idle."""

    sent: int
    arrived: int
    """Messages received; for ingest, messages accepted by the broker."""
    expected: int
    broker_cpu_s: float
    load_cpu_s: float
    wall_s: float


class Delayed(Struct, frozen=True, tag=True):
    """Percentiles of latency."""

    messages: int
    p50_us: float
    p99_us: float


class Rested(Struct, frozen=True, tag=True):
    """Memory of a broker per connection."""

    connections: int
    bytes_each: float
    bytes_each_subscribed: float


class Failed(Struct, frozen=True, tag=True):
    """The reason for which there are no figures."""

    reason: str


Order = Ingest | FanOut | Sparse | Latency | AcknowledgementLatency | Idle
LoadResult = Flowed | Delayed | Rested | Failed
