"""What goes out together is what would go out one by one: random wishes, random events."""

import random

import pytest
from msgspec.structs import replace

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.fan import Fan, Spread
from nearcast.core.engine.outcome import Outcome
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
        sent = list(outcome.event_by_event())
        places = [events.index(each.event) for each in sent]
        assert places == sorted(places)
        fans += sum(isinstance(each, Fan) for each in sent)
    assert fans or seed % 10


@pytest.mark.parametrize("seed", range(60))
def test_session_by_session_is_the_same_as_event_by_event(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    # Two wishes of a session never fit one event.
    wishes = [
        Subscription(f"{node} {subject}", node, subject, no_local=draw.random() < 0.3)
        for node in (f"n{i}" for i in range(8))
        for subject in SUBJECTS
        if draw.random() < 0.5
    ]
    engine.step(list(map(Subscribed, wishes)), 0.0)
    events = [plainly(draw, i) for i in range(draw.randrange(4, 30))]
    # What is dropped in the same step has got what came before.
    outcome = engine.step([*map(Published, events), *(Unsubscribed(w.id) for w in wishes)], 1.0)
    wanted = [
        (event.id, wish.id)
        for event in events
        for wish in wishes
        if wish.subject == event.subject and not (wish.no_local and wish.node == event.publisher)
    ]
    assert sorted((d.event.id, d.subscriptions[0]) for d in outcome.deliveries) == sorted(wanted)
    spreads = [each for each in outcome.sent if isinstance(each, Spread)]
    assert spreads or not wanted
    for spread in spreads:
        got: dict[str, list[tuple[int, str]]] = {}
        for i, filed in enumerate(spread.filed):
            for place in spread.places[spread.starts[i] : spread.starts[i + 1]]:
                got.setdefault(filed.owner, []).append((place, filed.id))
        assert all(copies == sorted(copies) for copies in got.values())
        told_of = [
            (spread.events[place].id, name) for copies in got.values() for place, name in copies
        ]
        assert sorted(told_of) == sorted(wanted)
        assert len(spread.priorities) == len(spread.places)


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
    outcome = Outcome(sent)
    return [
        (
            each.event.id,
            [(one.owner, one.subscriptions, one.priority) for one in each.deliveries()]
            if isinstance(each, Fan)
            else [(each.owner, each.subscriptions, each.priority)],
        )
        for each in outcome.event_by_event()
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
