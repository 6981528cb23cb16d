"""Needs that depend on both contexts, beside a plain look at all that waits after each input."""

import json
import random
from math import ceil

import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import ContextPatched, Input, Moved, Published, Subscribed

FRIENDS = {"case": [["friend(publisher)", "volume 1"]], "else": "people 3"}
DISTANCE = {"volume": "distance(me, publisher) / 1000", "wait": 1000.0}
MOOD = {
    "case": [
        ["me.busy = TRUE", "volume 6 or people 4"],
        ["x > 3 AND publisher.busy = TRUE", "time 9"],
    ]
}
TEXTS: tuple[object, ...] = (FRIENDS, DISTANCE, MOOD, json.dumps(MOOD), "volume 3")
NODES = ("ann", "bob", "cat", "dan")
Waiting = list[tuple[Event, float]]


def is_met(
    text: object, event: Event, me: str, nodes: dict[str, NodeState], all_of: Waiting
) -> bool:
    people = {each.publisher for each, _ in all_of}
    times = [each.time for each, _ in all_of]
    own, other = nodes.get(me), nodes.get(event.publisher)
    context = {} if own is None else own.attributes
    others = {} if other is None else other.attributes
    if text == "volume 3":
        return len(all_of) >= 3
    if text is FRIENDS:
        friends = others.get("friends")
        return (isinstance(friends, list) and me in friends) or len(people) >= 3
    if text is DISTANCE:
        if own is None or other is None or own.position is None or other.position is None:
            return True
        a, b = own.position, other.position
        return len(all_of) >= max(1, ceil(distance_m(a.lat, a.lon, b.lat, b.lon) / 1000))
    if context.get("busy") is True:
        return len(all_of) >= 6 or len(people) >= 4
    if json.loads(event.payload)["x"] > 3 and others.get("busy") is True:
        return max(times) - min(times) >= 9
    return True


class PlainCases:
    """What waits for each subscription."""

    def __init__(self) -> None:
        self.wanted: dict[str, Subscription] = {}
        self.waiting: dict[str, Waiting] = {}
        self.left: list[tuple[str, list[str]]] = []

    def take(self, value: Input, now: float, nodes: dict[str, NodeState]) -> None:
        if isinstance(value, Subscribed):
            self.wanted[value.subscription.id] = value.subscription
        elif isinstance(value, Published):
            for id_ in self.wanted:
                self.waiting.setdefault(id_, []).append((value.event, now))
                self.judge(id_, nodes)
        else:
            for id_, waiting in self.waiting.items():
                concerned = {self.wanted[id_].node, *(each.publisher for each, _ in waiting)}
                if value.node in concerned:  # type: ignore[union-attr]
                    self.judge(id_, nodes)

    def judge(self, id_: str, nodes: dict[str, NodeState]) -> None:
        wanted, waiting = self.wanted[id_], self.waiting[id_]
        text = (
            MOOD
            if isinstance(wanted.aggregate, str) and "{" in wanted.aggregate
            else wanted.aggregate
        )
        met = [is_met(text, each, wanted.node, nodes, waiting) for each, _ in waiting]
        together = [each.id for (each, _), leaves in zip(waiting, met, strict=True) if leaves]
        self.waiting[id_] = [each for each, leaves in zip(waiting, met, strict=True) if not leaves]
        if together:
            self.left.append((id_, together))


def an_input(draw: random.Random, number: int, now: float) -> Input:
    node, kind = draw.choice(NODES), draw.random()
    if kind < 0.5:
        payload = json.dumps({"x": draw.randrange(7)}).encode()
        return Published(Event(f"{number}", "s", node, now - draw.randrange(20), payload=payload))
    if kind < 0.7:
        return Moved(node, Position(53.0 + draw.randrange(5) * 0.01, -6.0))
    if draw.random() < 0.5:
        return ContextPatched(node, {"friends": draw.sample(NODES, 2)})
    return ContextPatched(node, {"busy": draw.choice((True, False, None))})


def parts_of(delivery: Delivery) -> tuple[str, list[str]]:
    event = delivery.event
    (id_,) = delivery.subscriptions
    if not event.gathered:
        return id_, [event.id]
    return id_, [each["id"] for each in json.loads(event.payload)["events"]]


@pytest.mark.parametrize("seed", range(40))
def test_those_whose_own_need_is_met_leave_together(seed: int) -> None:
    draw = random.Random(seed)
    engine, plain = Engine(), PlainCases()
    found: list[tuple[str, list[str]]] = []
    first: list[Input] = [
        Subscribed(Subscription(f"{node} {place}", node, "s", aggregate=text))
        for node in NODES[:3]
        for place, text in enumerate(draw.sample(TEXTS, 2))
    ]
    for number in range(150):
        now = number * 1.5
        value = first[number] if number < len(first) else an_input(draw, number, now)
        outcome = engine.step([value], now)
        assert not outcome.refusals
        found += map(parts_of, outcome.deliveries)
        plain.take(value, now, dict(engine.nodes))
        if draw.random() < 0.05:
            other = Engine()
            other.restore(engine.seq, engine.in_force())
            engine = other
    assert sorted(found) == sorted(plain.left)


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_gathers_as_many_steps_do(seed: int) -> None:
    draw = random.Random(seed)
    inputs: list[Input] = [
        Subscribed(Subscription(f"w{place}", NODES[place % 3], "s", aggregate=text))
        for place, text in enumerate(TEXTS)
    ]
    inputs += [an_input(draw, number, number * 1.5) for number in range(150)]
    times = [draw.choice((0.0, 1.0)) + number for number in range(len(inputs))]
    times.sort()
    slow, fast = Engine(), Engine()
    expected = [
        parts_of(each)
        for value, at in zip(inputs, times, strict=True)
        for each in slow.step([value], at).deliveries
    ]
    found = [parts_of(each) for each in fast.play(inputs, times).deliveries]
    assert sorted(found) == sorted(expected)
