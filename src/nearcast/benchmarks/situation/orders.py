"""The order for the load generator of the situation benchmark, and its outcome."""

from msgspec import Struct

from nearcast.benchmarks.situation.city import Scenario

NEARCAST, GRID, REDIS = "nearcast", "grid", "redis"
"""Approaches of the clients: a Nearcast subscription, a grid of topics, a Redis geo set."""


class Order(Struct, frozen=True):
    """A scenario to run against a server."""

    way: str
    port: int
    pid: int
    scenario: Scenario
    settle_s: float = 0.0
    """Seconds to wait for work that the server does after all deliveries."""
    cell_m: float = 1_000.0
    kind_in_topic: bool = False
    paced: bool = False
    """True to run in real time and measure latency; otherwise as fast as possible."""


class SituationPlayed(Struct, frozen=True, tag=True):
    """Figures of a run, without the first round."""

    moves: int
    events: int
    useful: int
    """Expected deliveries; if paced, deliveries that receivers kept."""
    arrived: int
    """All deliveries, useful or not."""
    server_cpu_s: float
    client_cpu_s: float
    wall_s: float
    bytes_moved: int
    """Bytes to and from the server."""
    move_messages: int
    """Packets caused by moves, in both directions."""
    p50_us: float | None = None
    p99_us: float | None = None


class SituationFailed(Struct, frozen=True, tag=True):
    """The reason for which there are no figures."""

    reason: str


SituationOutcome = SituationPlayed | SituationFailed
