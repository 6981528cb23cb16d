"""A pair that keeps silent over a bad network, from one seed, with what must hold of it."""

from itertools import pairwise
from random import Random

from nearcast.core.relationships.silence.pair_member import PairSettings, Transition
from nearcast.core.relationships.silence.pair_message import PairMessage
from nearcast.core.relationships.silence.regions.region import Point, distance
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.silent_node import SilentNode
from nearcast.simulation.virtual_clock import VirtualClock

WITHIN = 100.0
LONGEST_DELAY_S = 0.4
RETRY_S, RETRY_MOST_S = 1.0, 4.0
BOUND_S = 4 * LONGEST_DELAY_S
"""A change is known to both after at most four messages, if none is lost."""
HEALING_S = RETRY_MOST_S + BOUND_S
"""After communication heals: the longest wait for a repetition comes first."""
STATIC = [name for name in STRATEGIES if name != "predictive-strip"]
"""Regions that move need clocks that agree."""
FAULTS_S, HEALTHY_S, STILL_S = 120.0, 60.0, 20.0
FIX_EVERY_S = 1.0


class SilentPair:
    """Two nodes, their fixes, and the state that a raw stream of all fixes would show."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.clock = VirtualClock(seed)
        self.chance = Random(f"{seed}/pair")
        bad = LinkQuality(
            most_delay_s=LONGEST_DELAY_S, loss=self.chance.choice((0.0, 0.1, 0.4)),
            duplication=self.chance.choice((0.0, 0.3)),
            reordering=self.chance.choice((0.0, 0.3)), reordering_s=5.0,
        )  # fmt: skip
        self.network = VirtualNetwork(self.clock, bad)
        strategy = STRATEGIES[self.chance.choice(STATIC)]
        self.settings = PairSettings(WITHIN, strategy, RETRY_S, RETRY_MOST_S)
        self.starts = {"a": 0, "b": 0}
        self.errors_s = {name: self.chance.choice((0.0, 3.0, -30.0)) for name in "ab"}
        self.nodes: dict[str, SilentNode | None] = {"a": None, "b": None}
        self.fixes: dict[str, list[tuple[float, Point]]] = {"a": [], "b": []}
        self.speeds = {"a": [0.0, 0.0], "b": [0.0, 0.0]}
        self.at = {"a": [0.0, 0.0], "b": [self.chance.uniform(0.0, 600.0), 0.0]}
        self.told: dict[tuple[str, int], list[Transition]] = {}
        self.chart: list[str] = []
        self.moves = True
        for name in "ab":
            self.start(name)
            self.clock.after(self.chance.uniform(0.0, 1.0), self._walker(name))

    # What happens

    def start(self, name: str) -> None:
        """Start a node, as at first or after a crash."""
        self.starts[name] += 1
        start = self.starts[name]
        peer = "b" if name == "a" else "a"
        told = self.told.setdefault((name, start), [])
        self.nodes[name] = SilentNode(
            self.network.datagrams.open(name), self.clock, {peer: self.settings},
            incarnation=start, clock_error_s=self.errors_s[name],
            notify=lambda node, other, transition: told.append(transition), trace=self._trace,
        )  # fmt: skip

    def crash(self, name: str, lasts_s: float) -> None:
        """Stop a node, and start it again later without its memory."""
        node = self.nodes[name]
        if node is not None:
            node.crash()
            self.nodes[name] = None
            self.chart.append(f"{self.clock.elapsed_s:9.3f} {name} crashes")
            self.clock.after(lasts_s, lambda: self.start(name))

    def part(self, lasts_s: float) -> None:
        """Let nothing through for a while; the nodes may learn that it is over."""
        self.network.part("a", "b")
        self.clock.after(lasts_s, self.join)

    def join(self) -> None:
        """End a partition."""
        self.network.heal("a", "b")
        if self.chance.random() < 0.5:
            for node in self.nodes.values():
                if node is not None:
                    node.reconnect()

    def _walker(self, name: str) -> "_Walk":
        return _Walk(self, name)

    def _trace(self, node: str, peer: str, message: PairMessage) -> None:
        self.chart.append(f"{self.clock.elapsed_s:9.3f} {node} -> {peer}: {message}")

    # What must hold

    def run(self) -> None:
        """Run all phases, and check."""
        for _ in range(self.chance.randrange(4)):
            at_s, lasts_s = (
                self.chance.uniform(0.0, FAULTS_S - 30.0),
                self.chance.uniform(1.0, 25.0),
            )
            kind, name = self.chance.choice(("crash", "part")), self.chance.choice("ab")
            if kind == "crash":
                self.clock.after(at_s, lambda n=name, s=lasts_s: self.crash(n, s))  # type: ignore[misc]
            else:
                self.clock.after(at_s, lambda s=lasts_s: self.part(s))  # type: ignore[misc]
        self.clock.run(FAULTS_S)
        self.network.heal("a", "b")
        self.network.set_usual(LinkQuality(most_delay_s=LONGEST_DELAY_S))
        # What was sent before is still late.
        self.clock.run(5.0 + HEALING_S)
        end = self.clock.now() + HEALTHY_S
        while self.clock.now() < end:
            self.clock.run(0.1)
            self._check_state()
        self.moves = False
        self.clock.run(STILL_S)
        self._check_agreement()

    def truths(self) -> set[bool]:
        """Return what a raw stream shows now, with messages that are late by up to the bound."""
        since = self.clock.now() - BOUND_S
        recent = []
        for fixes in self.fixes.values():
            while len(fixes) > 1 and fixes[1][0] <= since:
                del fixes[0]
            recent.append([point for _, point in fixes])
        return {distance(a, b) <= WITHIN for a in recent[0] for b in recent[1]}

    def _check_state(self) -> None:
        truths = self.truths()
        for node in self.nodes.values():
            assert node is not None
            for member in node.members.values():
                assert member.near in truths, self._explain(f"{node.name} says {member.near}")

    def _check_agreement(self) -> None:
        self._check_state()
        a, b = (member for node in self.nodes.values() if node for member in node.members.values())
        for node in self.nodes.values():
            assert node is not None
            for member in node.members.values():
                now = self.clock.now() + self.errors_s[node.name]
                assert member.is_settled, self._explain(f"{node.name} waits")
                assert member.margin(now) >= 0.0, self._explain(f"{node.name} is outside")
        assert a.regions == b.regions, self._explain("regions differ")
        assert a.told_by_me is not b.told_by_me, self._explain("both told the regions")
        for told in self.told.values():
            states = [each.near for each in told]
            assert all(x is not y for x, y in pairwise(states))

    def _explain(self, what: str) -> str:
        last = "\n".join(self.chart[-30:])
        return f"seed {self.seed}, {self.clock.elapsed_s:.3f} s: {what}\n{last}"


class _Walk:
    """The fixes of one node, while it is up."""

    def __init__(self, pair: SilentPair, name: str) -> None:
        self.pair = pair
        self.name = name

    def __call__(self) -> None:
        pair, name = self.pair, self.name
        if not pair.moves:
            return
        pair.clock.after(pair.chance.uniform(0.5, 1.5) * FIX_EVERY_S, self)
        node = pair.nodes[name]
        if node is None:
            return
        speed, at = pair.speeds[name], pair.at[name]
        for axis in (0, 1):
            speed[axis] = 0.9 * speed[axis] + pair.chance.gauss(0.0, 4.0)
            at[axis] = 0.98 * at[axis] + speed[axis]
        point = (at[0], at[1], 6.4e6)
        pair.fixes[name].append((pair.clock.now(), point))
        node.fix(point)
