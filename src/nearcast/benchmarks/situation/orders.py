"""What the load generator of the situation benchmark is told to do, and what it answers."""

from msgspec import Struct

from nearcast.benchmarks.situation.city import Scenario

NEARCAST, GRID, REDIS = "nearcast", "grid", "redis"
"""Ways of keeping movers informed."""


class Order(Struct, frozen=True):
    """A scenario to be played to a server."""

    way: str
    port: int
    pid: int
    scenario: Scenario
    settle_s: float = 0.0
    """How long to wait for what the server does after everything was delivered."""
    cell_m: float = 1_000.0
    kind_in_topic: bool = False
    paced: bool = False
    """At the pace of life, which shows latency; else as fast as it goes."""


class SituationPlayed(Struct, frozen=True, tag=True):
    """What came of it, without the first round."""

    moves: int
    events: int
    useful: int
    """Deliveries to those who are concerned, by the truth of the city."""
    arrived: int
    """Deliveries of all sorts."""
    server_cpu_s: float
    client_cpu_s: float
    wall_s: float
    bytes_moved: int
    """To and from the server."""
    move_messages: int
    """Packets because of moves, both ways."""
    p50_us: float | None = None
    p99_us: float | None = None


class SituationFailed(Struct, frozen=True, tag=True):
    """Why there is no figure."""

    reason: str


SituationOutcome = SituationPlayed | SituationFailed
