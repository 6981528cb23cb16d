"""Where subjects alone decide who waits, nobody is matched, and the same leaves."""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.language import parse
from nearcast.core.model.event import Announcement, Delivery, Event, Subscription
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    Input,
    Left,
    Moved,
    Published,
    Restarted,
    Resumed,
    Subscribed,
    Suspended,
    Unsubscribed,
)

NODES = ("ann", "bob", "cat", "dan", "eve", "fay")
HERE = Position(53.0, -6.0)
TEXTS = ("volume 3", "volume 3", "volume 3", "people 2 wait 20", None)


def an_input(draw: random.Random, number: int, now: float) -> Input:
    node, kind = draw.choice(NODES), draw.random()
    if kind < 0.7:
        event = Event(f"{number}", draw.choice(("s", "t")), node, now, payload=b"{}", qos=1)
        special = draw.random()
        if special < 0.05:
            event = replace(event, to=Circle(HERE, 500.0))
        elif special < 0.1:
            event = replace(event, valid_s=draw.choice((0.0, 20.0)), object="o")
        elif special < 0.15:
            event = replace(event, retain=True)
        return Published(event)
    id_ = f"{node} {draw.randrange(2)}"
    if kind < 0.9:
        where = parse("n > 3") if draw.random() < 0.1 else None
        return Subscribed(
            Subscription(
                id_, node, draw.choice(("s", "s", "#")), where, aggregate=draw.choice(TEXTS),
                no_local=draw.random() < 0.5, qos=draw.randrange(2),
            )
        )  # fmt: skip
    others: tuple[Input, ...] = (
        Unsubscribed(id_), Left(node), Moved(node, HERE), Restarted(NODES), Suspended(id_),
        Resumed(id_), Announced(Announcement(node, "s", Circle(HERE, 500.0))),
    )  # fmt: skip
    return draw.choice(others)


def told(delivery: Delivery) -> object:
    event = delivery.event
    return event.id, event.payload, delivery.node, delivery.subscriptions, delivery.priority


@pytest.mark.parametrize("seed", range(30))
def test_with_routes_and_without_the_same_leaves(seed: int) -> None:
    draw = random.Random(seed)
    routed, matched = Engine(), Engine(EngineSettings(routes=False))
    for node in NODES[1:]:
        for engine in (routed, matched):
            engine.step([Subscribed(Subscription(f"{node} 0", node, "s", aggregate=TEXTS[0]))], 0.0)
    now = 0.0
    for number in range(120):
        now += draw.choice((0.0, 1.0, 7.0))
        inputs = [an_input(draw, 3 * number + n, now) for n in range(draw.randrange(1, 4))]
        found, expected = routed.step(inputs, now), matched.step(inputs, now)
        assert Counter(map(told, found.deliveries)) == Counter(map(told, expected.deliveries))
        assert len(found.refusals) == len(expected.refusals)


def test_a_route_is_used_where_all_wait_alike() -> None:
    engine = Engine()
    for node in NODES:
        engine.step([Subscribed(Subscription(f"{node} 0", node, "s", aggregate="volume 2"))], 0.0)
    engine.step([Published(Event("1", "s", "p", 1.0))], 1.0)
    (pool,) = engine.waiting()
    assert len(pool.subscriptions) == len(NODES)
    outcome = engine.step([Published(Event("2", "s", "p", 1.0))], 1.0)
    assert {each.node for each in outcome.deliveries} == set(NODES)
