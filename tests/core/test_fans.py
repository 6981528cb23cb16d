"""What goes out together is what would go out one by one: random wishes, random events."""

import random

import pytest
from msgspec.structs import replace

from nearcast.core.engine import Engine
from nearcast.core.fan import Fan
from nearcast.core.language import parse
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.inputs import Published, Subscribed, Unsubscribed

SUBJECTS = ("a/b", "a/c", "d")
PATTERNS = (*SUBJECTS, "a/+", "#")
LEVELS = ("x > 8", "x > 4")
Row = tuple[str, tuple[str, ...], int]
"""A session, its subscriptions that fit, and the priority."""


def wish(draw: random.Random, number: int) -> Subscription:
    node = f"n{draw.randrange(6)}"
    return Subscription(
        f"s{number}",
        node,
        draw.choice(PATTERNS),
        where=parse("x > 2") if draw.random() < 0.3 else None,
        levels=tuple(map(parse, LEVELS)) if draw.random() < 0.4 else (),
        no_local=draw.random() < 0.4,
        session=draw.choice(("", f"{node}~1")),
        group="g" if draw.random() < 0.1 else None,
    )


def happening(draw: random.Random, number: int) -> Event:
    node = f"n{draw.randrange(6)}"
    return Event(
        f"e{number}",
        draw.choice(SUBJECTS),
        node,
        0.0,
        {"x": draw.randrange(10)},
        valid_s=10.0 if draw.random() < 0.2 else None,
        session=draw.choice(("", f"{node}~1")),
    )


def one_by_one(engine: Engine, events: list[Event]) -> list[Delivery]:
    matches = engine.matcher.match(EventBatch.of(events))
    rows = sorted(zip(*(column.tolist() for column in matches), strict=True))
    found = [(events[place], number, priority) for place, number, priority in rows]
    return engine._wishes.copies(found)


def told(deliveries: list[Delivery]) -> set[tuple[str, str, tuple[str, ...], int]]:
    found = {(d.event.id, d.owner, tuple(sorted(d.subscriptions)), d.priority) for d in deliveries}
    assert len(found) == len(deliveries)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_together_is_the_same_as_one_by_one(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    fans = 0
    for round_ in range(8):
        for _ in range(draw.randrange(8)):
            engine.step([Subscribed(wish(draw, draw.randrange(12)))], round_)
            if draw.random() < 0.3:
                engine.step([Unsubscribed(f"s{draw.randrange(12)}")], round_)
        events = [happening(draw, 100 * round_ + i) for i in range(draw.randrange(1, 6))]
        turns = dict(engine._wishes._turns)
        expected = told(one_by_one(engine, events))
        engine._wishes._turns = turns
        outcome = engine.step(list(map(Published, events)), round_)
        assert told(outcome.deliveries) == expected
        places = [events.index(each.event) for each in outcome.sent]
        assert places == sorted(places)
        fans += sum(isinstance(each, Fan) for each in outcome.sent)
    assert fans or seed % 10


def plainly(draw: random.Random, number: int) -> Event:
    return replace(happening(draw, number), valid_s=None, session="")


def in_columns(engine: Engine, events: list[Event]) -> list[tuple[str, list[Row]]]:
    """What goes out as columns: each row's event, and its recipients."""
    batch = EventBatch.of(events)
    copies = engine._wishes.sent_columns(batch, engine.matcher.match(batch))
    filed = [engine._wishes._filed[number] for number in copies.numbers.tolist()]
    wishes, found = copies.wishes.tolist(), []
    for i, place in enumerate(copies.event.tolist()):
        to: list[Row] = []
        for j in range(copies.recipients[i], copies.recipients[i + 1]):
            own = [each for each in filed[wishes[j] : wishes[j + 1]] if each is not None]
            assert {each.owner for each in own} == {own[0].owner}
            to.append((own[0].owner, tuple(each.id for each in own), int(copies.priority[i])))
        found.append((events[place].id, to))
    return found


def in_values(engine: Engine, events: list[Event]) -> list[tuple[str, list[Row]]]:
    sent = engine._wishes.sent(events, engine.matcher.match(EventBatch.of(events)))
    return [
        (
            each.event.id,
            [(one.owner, one.subscriptions, one.priority) for one in each.deliveries()]
            if isinstance(each, Fan)
            else [(each.owner, each.subscriptions, each.priority)],
        )
        for each in sent
    ]


@pytest.mark.parametrize("seed", range(60))
def test_columns_are_the_same_as_fans_and_deliveries(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    for round_ in range(8):
        for _ in range(draw.randrange(8)):
            engine.step([Subscribed(wish(draw, draw.randrange(12)))], round_)
            if draw.random() < 0.3:
                engine.step([Unsubscribed(f"s{draw.randrange(12)}")], round_)
        events = [plainly(draw, 100 * round_ + i) for i in range(draw.randrange(1, 6))]
        turns = dict(engine._wishes._turns)
        expected = in_values(engine, events)
        after, engine._wishes._turns = engine._wishes._turns, turns
        assert in_columns(engine, events) == expected
        assert engine._wishes._turns == after


def test_a_session_gets_no_second_copy_at_another_priority() -> None:
    engine = Engine()
    high = Subscription("high", "n", "a", levels=(parse("x > 1"),))
    both = [Subscribed(high), Subscribed(Subscription("any", "n", "#"))]
    engine.step([*both, Subscribed(Subscription("other", "m", "a"))], 0.0)
    outcome = engine.step([Published(Event("e", "a", "p", 0.0, {"x": 2}))], 0.0)
    assert told(outcome.deliveries) == {("e", "n", ("any", "high"), 1), ("e", "m", ("other",), 1)}
