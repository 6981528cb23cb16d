"""A world of nodes that move and keep silent in pairs, in virtual time over a bad network.

Each node is related to its neighbours by number. What both members of a pair know is compared with
what a raw stream of all fixes shows, and how long after it they came to know it.
"""

from collections.abc import Callable, Iterator
from random import Random

from msgspec import Struct

from nearcast.core.relationships.silence.pair_member import PairSettings, Transition
from nearcast.core.relationships.silence.regions.region import (
    Point,
    distance,
    position_limit,
    position_point,
)
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.simulation.movement.fixes import Fix, FixQuality, clock_error_s, fixes_of
from nearcast.simulation.movement.population import MovingNode
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.silent_node import SilentNode
from nearcast.simulation.virtual_clock import VirtualClock


class PairWorldSettings(Struct, frozen=True):
    """What happens in a world."""

    seed: int
    seconds: float
    within_m: float
    strategy: SilenceStrategy
    peers: int
    """How many others each node is related to, half of them on each side by number."""
    fixes: FixQuality
    link: LinkQuality
    crashes_per_hour: float = 0.0
    """Of each node; it is back after half a minute on average, without its memory."""
    partitions_per_hour: float = 0.0
    """Of each node, from all its peers; over after half a minute on average."""


class PairWorldResult(Struct, frozen=True):
    """What was sent, and what both knew when."""

    nodes: int
    pairs: int
    raw: int
    """Fixes, each told to every peer of the node."""
    messages: int
    acks: int
    bytes: int
    crashes: int
    partitions: int
    changes: int
    """Times at which near or apart began, by all fixes."""
    detected: int
    """Changes that a member of the pair came to know, before the next change of the pair."""
    mean_delay_s: float
    longest_delay_s: float


class _Pair(Struct):
    members: tuple[str, str]
    near: bool | None = None
    changed_at: float = 0.0
    is_known: bool = True


class PairWorld:
    """The nodes, the network, and what is true."""

    def __init__(self, nodes: list[MovingNode], settings: PairWorldSettings) -> None:
        self._settings = settings
        self._clock = VirtualClock(settings.seed)
        self._network = VirtualNetwork(self._clock, settings.link)
        self._chance = Random(f"{settings.seed}/crashes")
        self._within = position_limit(settings.within_m)
        self._moving = {node.name: node for node in nodes}
        self._up: dict[str, SilentNode] = {}
        self._starts = dict.fromkeys(self._moving, 0)
        self._points: dict[str, Point] = {}
        self._pairs = _pairs(list(self._moving), settings.peers)
        self._of: dict[str, list[_Pair]] = {name: [] for name in self._moving}
        for pair in self._pairs.values():
            for member in pair.members:
                self._of[member].append(pair)
        self._parting = Random(f"{settings.seed}/partitions")
        self._raw = self._messages = self._acks = self._bytes = 0
        self._crashes = self._partitions = self._changes = 0
        self._delays: list[float] = []

    def run(self, progress: Callable[[float], object] = lambda elapsed_s: None) -> PairWorldResult:
        """Let the time of the settings pass."""
        settings = self._settings
        for name, node in self._moving.items():
            self._start(name)
            self._next_fix(name, fixes_of(node, settings.fixes, settings.seconds, settings.seed))
            if settings.crashes_per_hour:
                self._plan_crash(name)
            if settings.partitions_per_hour:
                self._plan_partition(name)
        elapsed_s = 0.0
        while elapsed_s < settings.seconds:
            elapsed_s = min(elapsed_s + max(settings.seconds / 100.0, 1.0), settings.seconds)
            self._clock.run_until(self._start_at + elapsed_s)
            progress(elapsed_s)
        for running in self._up.values():
            self._count(running)
        delays = self._delays
        return PairWorldResult(
            len(self._moving), len(self._pairs), self._raw, self._messages, self._acks,
            self._bytes, self._crashes, self._partitions, self._changes, len(delays),
            sum(delays) / len(delays) if delays else 0.0, max(delays, default=0.0),
        )  # fmt: skip

    @property
    def _start_at(self) -> float:
        return self._clock.now() - self._clock.elapsed_s

    def _at(self, time_s: float, call: Callable[[], object]) -> None:
        self._clock.at(self._start_at + time_s, call)

    def _next_fix(self, name: str, fixes: Iterator[Fix]) -> None:
        fix = next(fixes, None)
        if fix is None:
            return
        found = fix

        def take() -> None:
            self._fix(name, found)
            self._next_fix(name, fixes)

        self._at(found.time_s, take)

    def _start(self, name: str) -> None:
        settings = self._settings
        peers = {
            each: PairSettings(self._within, settings.strategy)
            for pair in self._of[name]
            for each in pair.members
            if each != name
        }
        self._starts[name] += 1
        self._up[name] = SilentNode(
            self._network.datagrams.open(name), self._clock, peers,
            incarnation=self._starts[name],
            clock_error_s=clock_error_s(self._moving[name], settings.fixes, settings.seed),
            notify=self._notify,
        )  # fmt: skip

    def _plan_crash(self, name: str) -> None:
        self._clock.after(
            self._chance.expovariate(self._settings.crashes_per_hour / 3600.0),
            lambda: self._crash(name),
        )

    def _crash(self, name: str) -> None:
        node = self._up.pop(name)
        self._count(node)
        node.crash()
        self._crashes += 1

        def come_back() -> None:
            self._start(name)
            self._plan_crash(name)

        self._clock.after(self._chance.expovariate(1.0 / 30.0), come_back)

    def _plan_partition(self, name: str) -> None:
        self._clock.after(
            self._parting.expovariate(self._settings.partitions_per_hour / 3600.0),
            lambda: self._part(name),
        )

    def _part(self, name: str) -> None:
        pairs = [pair.members for pair in self._of[name]]
        for members in pairs:
            self._network.part(*members)
        self._partitions += 1

        def join() -> None:
            for members in pairs:
                self._network.heal(*members)
            self._plan_partition(name)

        self._clock.after(self._parting.expovariate(1.0 / 30.0), join)

    def _count(self, node: SilentNode) -> None:
        self._messages += node.crossings
        self._acks += node.acks
        self._bytes += node.statistics().sent_bytes

    def _fix(self, name: str, fix: Fix) -> None:
        node = self._up.get(name)
        if node is None:
            # Nobody knows where it is: the raw stream would not either.
            return
        point = self._points[name] = position_point(fix.position)
        for pair in self._of[name]:
            a, b = pair.members
            if a not in self._points or b not in self._points:
                continue
            near = distance(self._points[a], self._points[b]) <= self._within
            if near is not pair.near:
                self._changes += pair.near is not None
                pair.is_known = pair.near is None
                pair.near, pair.changed_at = near, self._clock.now()
        self._raw += len(node.members)
        node.fix(point)

    def _notify(self, name: str, peer: str, transition: Transition) -> None:
        pair = self._pairs[_key(name, peer)]
        if not pair.is_known and transition.near is pair.near:
            pair.is_known = True
            self._delays.append(self._clock.now() - pair.changed_at)


def _key(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def _pairs(names: list[str], peers: int) -> dict[tuple[str, str], _Pair]:
    """Relate each node to the next ones by number, round and round."""
    found: dict[tuple[str, str], _Pair] = {}
    for number, name in enumerate(names):
        for step in range(1, max(peers // 2, 1) + 1):
            other = names[(number + step) % len(names)]
            if other != name:
                found[_key(name, other)] = _Pair(_key(name, other))
    return found
