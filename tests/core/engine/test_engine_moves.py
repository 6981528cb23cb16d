"""Moves that come together are made together: what comes of it is the same."""

import random

import pytest

from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.language import parse
from nearcast.core.model import parse_area
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import AreaWatched, Input, Moved, Published, Subscribed

NODES = [f"n{i}" for i in range(12)]
STEPS = 12


def inputs(dice: random.Random, step: int) -> list[Input]:
    """Moves, some of them twice, into nothing or impossible, and events among them."""
    found: list[Input] = []
    for i in range(dice.randrange(1, 30)):
        node = dice.choice(NODES)
        kind = dice.random()
        if kind < 0.75:
            found.append(Moved(node, Position(53.0 + dice.random() / 50, -6.0)))
        elif kind < 0.8:
            found.append(Moved(node, None))
        elif kind < 0.85:
            found.append(Moved(node, Position(153.0, -6.0)))
        else:
            found.append(Published(Event(f"{step}-{i}", "a/b", node, float(step))))
    return found


def settled(live: bool, watched: bool) -> Engine:
    engine = Engine()
    wanted: list[Input] = [
        Subscribed(Subscription(f"{node}-s", node, "a/#", from_=parse_area("circle:me,500")))
        for node in NODES
    ]
    closer = parse("approaching(event)")
    wanted += [
        Subscribed(Subscription(f"{node}-w", node, "a/b", where=closer)) for node in NODES[:4]
    ]
    if live:
        at = Position(53.005, -6.0)
        stays = Event("stays", "a/c", "n0", 0.0, position=at, at_given=True, valid_s=1e6)
        wanted.append(Published(stays))
    if watched:
        wanted.append(AreaWatched("here", "n1", parse_area("circle:53.01,-6,300")))
    engine.step(wanted, 0.0)
    return engine


def told(outcome: Outcome) -> tuple[list[object], ...]:
    """What a step says to the world, in its order."""
    return (
        [(each.event.id, each.event.position, each.owner, each.priority, each.replayed)
         for each in outcome.deliveries],
        [(each.node, each.state) for each in outcome.node_changes],
        [(each.key, each.event) for each in outcome.live_changes],
        [(each.seq, each.input) for each in outcome.records],
        [each.reason for each in outcome.refusals],
        list(outcome.notices),
    )  # fmt: skip


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_moves_in_one_step_are_as_moves_in_steps_of_their_own(
    seed: int, watched: bool, live: bool
) -> None:
    dice = random.Random(seed)
    together, apart = settled(live, watched), settled(live, watched)
    for step in range(1, STEPS):
        some = inputs(dice, step)
        at_once = told(together.step(some, float(step)))
        one_by_one = [told(apart.step([each], float(step))) for each in some]
        assert at_once[1:] == tuple(
            [item for part in one_by_one for item in part[i]] for i in range(1, 6)
        )
        assert sorted(map(repr, at_once[0])) == sorted(
            repr(item) for part in one_by_one for item in part[0]
        )
    assert together.nodes == apart.nodes
    assert together.next_timer() == apart.next_timer()
