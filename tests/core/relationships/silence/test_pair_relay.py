"""A relay knows when what two members reported holds for both, wherever they are."""

from collections import deque
from random import Random

import pytest

from nearcast.core.relationships.silence.pair_member import PairMember, PairSettings
from nearcast.core.relationships.silence.pair_message import PairMessage
from nearcast.core.relationships.silence.pair_relay import PairRelay
from nearcast.core.relationships.silence.regions.region import Point, distance
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES

WITHIN = 100.0
ORDERED = ("ring", "strip", "exit-hazard")


class RelayedPair:
    """Two members at their nodes or at the relay; what is under way arrives in order, some time."""

    def __init__(self, seed: int, strategy: str) -> None:
        self.chance = Random(seed)
        self.settings = PairSettings(WITHIN, STRATEGIES[strategy])
        self.relay = PairRelay("a", "b", self.settings)
        self.now = 0.0
        self.at: dict[str, Point] = {name: self.anywhere() for name in "ab"}
        self.reported: dict[str, Point] = {}
        """The last report of each that has arrived: what relationships are judged by."""
        self.members: dict[str, PairMember] = {}
        self.starts = 0
        self.up: dict[str, deque[tuple[PairMessage, Point]]] = {name: deque() for name in "ab"}
        self.down: dict[str, deque[PairMessage]] = {name: deque() for name in "ab"}
        self.settled: list[bool] = []
        for name in "ab":
            self.restart(name)

    def anywhere(self) -> Point:
        return (self.chance.uniform(0.0, 600.0), self.chance.uniform(0.0, 50.0), 6.4e6)

    def restart(self, name: str) -> None:
        """Begin anew, at the node or at the relay; what is under way is lost."""
        self.starts += 1
        self.up[name], self.down[name] = deque(), deque()
        if self.chance.random() < 0.6:
            self.relay.hand_over(name, self.starts)
            self.members[name] = PairMember(name, self.settings, self.starts)
            self.send(name, self.members[name].fix(self.at[name], self.now).messages)
        else:
            self.members.pop(name, None)
            self.reported[name] = self.at[name]
            self.pass_on(self.relay.take_over(name, self.starts, self.at[name], self.now))

    def fix(self, name: str) -> None:
        x, y, z = self.at[name]
        self.at[name] = (x + self.chance.gauss(0, 25), y + self.chance.gauss(0, 5), z)
        member = self.members.get(name)
        if member is None:
            self.reported[name] = self.at[name]
            self.pass_on(self.relay.fix(name, self.at[name], self.now))
        else:
            self.send(name, member.fix(self.at[name], self.now).messages)

    def send(self, name: str, messages: tuple[PairMessage, ...]) -> None:
        self.up[name] += [(each, self.at[name]) for each in messages]

    def pass_on(self, passed: list[tuple[str, PairMessage]]) -> None:
        for to, message in passed:
            self.down[to].append(message)
        if self.relay.take_news():
            self.settled.append(distance(self.reported["a"], self.reported["b"]) <= WITHIN)

    def deliver(self, name: str) -> None:
        """Let one message arrive, in one direction or the other."""
        if self.up[name] and self.chance.random() < 0.5:
            message, at = self.up[name].popleft()
            self.reported[name] = at
            self.pass_on(self.relay.receive(name, message, self.now))
        elif self.down[name]:
            message = self.down[name].popleft()
            self.send(name, self.members[name].receive(message, self.now).messages)

    def settle(self) -> None:
        for _ in range(400):
            self.now += 1.0
            for name in "ab":
                for _ in range(4):
                    self.deliver(name)
                if name in self.members:
                    self.send(name, self.members[name].elapse(self.now).messages)
            self.pass_on(self.relay.elapse(self.now))


@pytest.mark.parametrize("strategy", ORDERED)
@pytest.mark.parametrize("seed", range(8))
def test_when_nothing_is_under_way_the_reports_tell_the_true_state(
    strategy: str, seed: int
) -> None:
    pair = RelayedPair(seed, strategy)
    for _ in range(40):
        for _ in range(pair.chance.randrange(12)):
            pair.now += pair.chance.expovariate(1.0)
            name = pair.chance.choice("ab")
            what = pair.chance.random()
            if what < 0.02:
                pair.restart(name)
            elif what < 0.5:
                pair.fix(name)
            else:
                pair.deliver(name)
        pair.settle()
        assert not any(each for each in (*pair.up.values(), *pair.down.values()))
        assert pair.relay.known
        near = distance(pair.at["a"], pair.at["b"]) <= WITHIN
        assert (distance(pair.reported["a"], pair.reported["b"]) <= WITHIN) is near
        assert pair.settled[-1] is near


def test_a_message_of_an_earlier_start_is_ignored() -> None:
    relay = PairRelay("a", "b", PairSettings(WITHIN, STRATEGIES["strip"]))
    relay.take_over("b", 1, (0.0, 0.0, 0.0), 0.0)
    relay.hand_over("a", 2)
    (message,) = PairMember("a", relay.settings, 2).fix((500.0, 0.0, 0.0), 0.0).messages
    relay.hand_over("a", 3)
    assert relay.receive("a", message, 1.0) == []
    assert not relay.known
