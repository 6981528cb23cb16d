"""Deliveries are what a plain twin makes of the same matches: random subscriptions and events."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.model.event import Delivery, Event, Relevance, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.inputs import Presence, Published, Subscribed, Unsubscribed

SUBJECTS = ("a/b", "a/c", "d")
PATTERNS = (*SUBJECTS, "a/+", "#")
Copy = tuple[str, str, tuple[str, ...], int]
"""An event, a session, its subscriptions that fit, and the priority."""


def subscription(draw: random.Random, number: int) -> Subscription:
    node = f"n{draw.randrange(6)}"
    weighted, some = draw.random() < 0.4, draw.random() < 0.3
    return Subscription(
        f"s{number}",
        node,
        draw.choice(PATTERNS),
        where=parse("x > 8 OR x > 4") if weighted else parse("x > 2") if some else None,
        relevance=Relevance((3, 1)) if weighted else None,
        no_local=draw.random() < 0.4,
        session=draw.choice(("", f"{node}~1")),
        group="g" if draw.random() < 0.1 else None,
    )


def event(draw: random.Random, number: int) -> Event:
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


def plain_copies(engine: Engine, events: list[Event]) -> list[Copy]:
    """What goes out, by the rules as one would write them down; takes turns of its own."""
    book = engine._state.subscriptions
    matches = engine.matcher.match(EventBatch.of(events))
    columns = (matches.event.tolist(), matches.subscription.tolist(), matches.priority.tolist())
    rows = sorted(zip(*columns, strict=True), key=lambda r: r[0])
    found: list[Copy] = []
    turns = dict(book.turns)
    for place, each in enumerate(events):
        own: dict[str, list[tuple[int, str]]] = {}
        groups: dict[tuple[str, str], list[tuple[str, str, int]]] = {}
        for number, level in [(n, level) for at, n, level in rows if at == place]:
            wanted = book.at(number)
            if wanted.group is not None:
                group = (wanted.group, wanted.subject)
                groups.setdefault(group, []).append((wanted.owner, wanted.id, level))
            elif not (wanted.no_local and wanted.owner == each.origin):
                own.setdefault(wanted.owner, []).append((level, wanted.id))
        for owner, fitting in own.items():
            ids = tuple(sorted(name for _, name in fitting))
            found.append((each.id, owner, ids, min(level for level, _ in fitting)))
        for group, members in groups.items():
            here = [one for one in members if one[0] in book.present] or members
            here.sort(key=lambda one: one[0])
            owner, name, level = here[turns.get(group, 0) % len(here)]
            turns[group] = turns.get(group, 0) + 1
            found.append((each.id, owner, (name,), level))
    return sorted(found)


def copies_of(deliveries: list[Delivery]) -> list[Copy]:
    return sorted(
        (d.event.id, d.owner, tuple(sorted(d.subscriptions)), d.priority) for d in deliveries
    )


def random_world(draw: random.Random, engine: Engine, now: float) -> None:
    for _ in range(draw.randrange(8)):
        wanted = subscription(draw, draw.randrange(12))
        engine.step([Subscribed(wanted)], now)
        if wanted.relevance is not None:
            number = engine._state.subscriptions.number(wanted.id)
            engine.matcher.priorities.set_row([number], draw.choice(((3, 2, 1), (1, 1, 1))))
        if draw.random() < 0.3:
            engine.step([Unsubscribed(f"s{draw.randrange(12)}")], now)
        if draw.random() < 0.3:
            engine.step([Presence(f"n{draw.randrange(6)}", draw.random() < 0.5)], now)


@pytest.mark.parametrize("seed", range(60))
def test_everyone_gets_what_the_plain_twin_says(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    for round_ in range(8):
        random_world(draw, engine, round_)
        events = [event(draw, 100 * round_ + i) for i in range(draw.randrange(1, 6))]
        # What stays is decided on alone, and others may be replayed: no such here.
        events = [replace(each, valid_s=None) for each in events]
        expected = plain_copies(engine, events)
        outcome = engine.step(list(map(Published, events)), round_)
        assert copies_of(outcome.deliveries) == expected
        places = [events.index(each.event) for each in outcome.deliveries]
        assert places == sorted(places)


@pytest.mark.parametrize("seed", range(60))
def test_session_by_session_is_the_same_as_event_by_event(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    random_world(draw, engine, 0.0)
    random_world(draw, engine, 0.0)
    events = [plain_event(draw, i) for i in range(draw.randrange(1, 30))]
    gone = [Unsubscribed(f"s{i}") for i in range(12)]
    # What is dropped in the same step has got what came before.
    outcome = engine.step([*map(Published, events), *gone], 1.0)
    for deliveries in outcome.sent:
        got: list[Copy] = []
        by_owner: dict[str, list[int]] = {}
        runs: list[str] = []
        for recipient, places, priorities in deliveries.by_session():
            assert len({each.owner for each in recipient.subscriptions}) == 1
            by_owner.setdefault(recipient.owner, []).extend(places)
            if not runs or runs[-1] != recipient.owner:
                runs.append(recipient.owner)
            ids = tuple(sorted(each.id for each in recipient.subscriptions))
            for place, priority in zip(places, priorities, strict=True):
                got.append((deliveries.events[place].id, recipient.owner, ids, priority))
        assert sorted(got) == copies_of(list(deliveries))
        assert len(got) == len(deliveries)
        # Each session once, and its copies in the order of the events.
        assert len(runs) == len(set(runs)) or len(deliveries.events) == 1
        assert all(places == sorted(places) for places in by_owner.values())


def plain_event(draw: random.Random, number: int) -> Event:
    return replace(event(draw, number), valid_s=None, session="")


@pytest.mark.parametrize("seed", range(60))
def test_as_columns_it_is_the_same(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    book = engine._state.subscriptions
    for round_ in range(8):
        random_world(draw, engine, round_)
        events = [plain_event(draw, 100 * round_ + i) for i in range(draw.randrange(1, 6))]
        batch, turns = EventBatch.of(events), dict(book.turns)
        expected = book.deliveries(events, engine.matcher.match(batch))
        after, book.turns = book.turns, turns
        found = book.deliveries_of_columns(events, batch)
        for one, other in zip(found.rows, expected.rows, strict=True):
            assert np.asarray(one).tolist() == np.asarray(other).tolist()
        assert book.turns == after


@pytest.mark.parametrize("seed", range(30))
def test_along_a_route_it_is_the_same(seed: int) -> None:
    draw = random.Random(seed)
    engine = Engine()
    for number in range(12):
        wanted = subscription(draw, number)
        if wanted.plain:
            engine.step([Subscribed(wanted)], 0.0)
    events = [replace(plain_event(draw, i), subject="a/b", publisher="n1") for i in range(5)]
    route = engine.route("n1", "a/b")
    assert route is not None
    along = Deliveries.along(route.without("n1"), events)
    outcome = engine.step(list(map(Published, events)), 1.0)
    assert copies_of(list(along)) == copies_of(outcome.deliveries)
    assert len(along) == len(outcome.deliveries)
    assert int(np.count_nonzero(along.rows.starts)) == len(along)
    shares = [(r.owner, len(places)) for r, places, _ in along.by_session()]
    assert sum(count for _, count in shares) == len(along)


def test_a_session_gets_no_second_copy_at_another_priority() -> None:
    engine = Engine()
    high = Subscription("high", "n", "a", parse("x > 1"), relevance=Relevance((3,)))
    both = [Subscribed(high), Subscribed(Subscription("any", "n", "#"))]
    engine.step([*both, Subscribed(Subscription("other", "m", "a"))], 0.0)
    outcome = engine.step([Published(Event("e", "a", "p", 0.0, {"x": 2}))], 0.0)
    assert copies_of(outcome.deliveries) == [
        ("e", "m", ("other",), 1),
        ("e", "n", ("any", "high"), 1),
    ]


def test_some_copies_of_several() -> None:
    engine = Engine()
    for node in "klm":
        engine.step([Subscribed(Subscription(node, node, "#"))], 0.0)
    engine.step([Subscribed(Subscription("l2", "l", "a"))], 0.0)
    (deliveries,) = engine.step([Published(Event("e", "a", "p", 0.0))], 0.0).sent
    owners = [copy.owner for copy in deliveries]
    some = deliveries.only([owner != "k" for owner in owners])
    assert sorted((c.owner, len(c.subscriptions)) for c in some) == [("l", 2), ("m", 1)]
