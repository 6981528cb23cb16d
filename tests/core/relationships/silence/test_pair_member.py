"""Two members over a link without delay see what a raw stream of fixes would show, fix by fix."""

from random import Random

import pytest

from nearcast.core.relationships.silence.pair_member import (
    PairMember,
    PairSettings,
    PairStep,
    Transition,
)
from nearcast.core.relationships.silence.pair_message import Ack, Crossing, PairMessage
from nearcast.core.relationships.silence.regions.region import Point, distance
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy

strategies = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


class InstantPair:
    """Two members whose messages arrive at once."""

    def __init__(self, settings: PairSettings) -> None:
        self.members = {name: PairMember(name, settings) for name in "ab"}
        self.sent: list[PairMessage] = []
        self.transitions: dict[str, list[Transition]] = {"a": [], "b": []}

    def fix(self, name: str, point: Point, time: float) -> None:
        peer = "b" if name == "a" else "a"
        self._exchange(name, self.members[name].fix(point, time), time)
        # A region that moves may leave behind who has no fix.
        self._exchange(peer, self.members[peer].elapse(time), time)

    def _exchange(self, name: str, step: PairStep, time: float) -> None:
        steps = [(name, step)]
        while steps:
            who, step = steps.pop(0)
            if step.transition is not None:
                self.transitions[who].append(step.transition)
            peer = "b" if who == "a" else "a"
            for message in step.messages:
                self.sent.append(message)
                steps.append((peer, self.members[peer].receive(message, time)))

    def crossings(self) -> int:
        return sum(isinstance(each, Crossing) for each in self.sent)


@strategies
@pytest.mark.parametrize("seed", range(4))
def test_both_see_each_near_and_apart_at_the_fix_that_makes_it(
    strategy: SilenceStrategy, seed: int
) -> None:
    chance = Random(seed)
    pair = InstantPair(PairSettings(100.0, strategy))
    at = {"a": [0.0, 0.0], "b": [chance.uniform(0.0, 800.0), 0.0]}
    speed = {name: [chance.gauss(0.0, 8.0), chance.gauss(0.0, 8.0)] for name in at}
    states: list[bool] = []
    time, known = 0.0, set[str]()
    for _ in range(1_500):
        time += chance.expovariate(0.2)
        name = chance.choice("ab")
        for axis in (0, 1):
            speed[name][axis] = 0.9 * speed[name][axis] + chance.gauss(0.0, 1.5)
            at[name][axis] = 0.9 * at[name][axis] + 5.0 * speed[name][axis]
        pair.fix(name, (at[name][0], at[name][1], 6.4e6), time)
        known.add(name)
        if len(known) == 2:
            points: list[Point] = [(x, y, 6.4e6) for x, y in at.values()]
            near = distance(*points) <= 100.0
            assert [member.near for member in pair.members.values()] == [near, near]
            if not states or states[-1] is not near:
                states.append(near)
    assert len(states) > 5
    for told in pair.transitions.values():
        assert [each.near for each in told] == states
    assert pair.members["a"].regions == pair.members["b"].regions
    assert pair.members["a"].told_by_me is not pair.members["b"].told_by_me
    if strategy.name != "predictive-strip":
        assert pair.crossings() < 1_500


def test_standing_still_costs_the_set_up_and_nothing_more() -> None:
    pair = InstantPair(PairSettings(10.0, STRATEGIES["ring"]))
    for second in range(60):
        pair.fix("a", (0.0, 0.0, 0.0), float(second))
        pair.fix("b", (20.0, 0.0, 0.0), float(second))
    assert [type(each) for each in pair.sent] == [Crossing, Crossing, Ack]


def test_an_answer_of_a_member_without_a_fix_waits_for_its_first() -> None:
    settings = PairSettings(10.0, STRATEGIES["ring"])
    a, b = PairMember("a", settings), PairMember("b", settings)
    (hello,) = a.fix((0.0, 0.0, 0.0), 0.0).messages
    assert b.receive(hello, 0.0).messages == ()
    (answer,) = b.fix((20.0, 0.0, 0.0), 1.0).messages
    assert isinstance(answer, Crossing)
    assert answer.regions is not None
    step = a.receive(answer, 1.0)
    assert step.transition == Transition(False, 1.0)
