"""Batches hold what events carry, whichever way they were put together."""

import random

import pytest

from nearcast.core.language import parse
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import event_batch
from nearcast.core.model.context import Value
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.event_batch import MANY, EventBatch, carried, flat
from tests.core.model.attribute_columns import told

VALUES: tuple[Value, ...] = (1, 2.5, -0.0, 10**400, -(10**400), True, None, "a", "b", "", [1], "é")
NAMES = ("x", "y", "z.w", "far")


def attributes(draw: random.Random, nested: bool) -> dict[str, Value]:
    found = {name: draw.choice(VALUES) for name in NAMES if draw.random() < 0.8}
    if nested and draw.random() < 0.05:
        found["far"] = {"away": draw.choice(VALUES), "d": {"e": 1}}
    return found


@pytest.mark.parametrize("seed", range(20))
def test_name_by_name_is_event_by_event(seed: int) -> None:
    draw = random.Random(seed)
    many = [attributes(draw, nested=seed % 2 == 0) for _ in range(MANY + draw.randrange(40))]
    together, apart = carried(many), event_batch.event_by_event(many)
    for i, each in enumerate(many):
        assert told(together, i) == told(apart, i)
        assert told(apart, i).keys() == {n for n, value in flat(each) if value is not None}
    alike = event_batch._name_by_name(many, list(NAMES))
    assert (alike is None) == any(isinstance(each.get("far"), dict) for each in many)


def test_events_that_carry_nothing_make_a_batch() -> None:
    batch = EventBatch.of([Event(f"e{i}", "s", "p", 0.0) for i in range(MANY)])
    assert batch.first.tolist() == [0] * (MANY + 1)
    assert batch.names == []


@pytest.mark.parametrize("count", [1, MANY])
def test_a_number_beyond_all_others_is_greater_than_them(count: int) -> None:
    matcher = Matcher()
    matcher.add(Subscription("more", "a", "s", parse("x > 1e300")))
    less = matcher.add(Subscription("less", "b", "s", parse("x < -1e300")))
    events = [Event(f"e{i}", "s", "p", 0.0, {"x": -(10**400)}) for i in range(count)]
    found = matcher.match(EventBatch.of(events))
    assert found.subscription.tolist() == [less] * count
