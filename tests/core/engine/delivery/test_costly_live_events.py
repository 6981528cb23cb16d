"""Filters that are evaluated one by one decide live events in portions, however many there are."""

import random

import pytest
from msgspec.structs import replace

from nearcast.core.engine.delivery.live_delivery import EVALUATED_AT_ONCE
from nearcast.core.engine.engine import Engine, EngineSettings, Outcome
from nearcast.core.language import parse
from nearcast.core.model.context import Value
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Input,
    Moved,
    Presence,
    Published,
    QueueDrained,
    Restarted,
    Resumed,
    Subscribed,
    Suspended,
)

WORDS = 12
ACCENTS = [f"ACCENTI(text) LIKE ACCENTI('%{word}%')" for word in range(WORDS)]
COSTLY = parse(f"n >= 0 AND ({' OR '.join(ACCENTS)})")
EVENTS = 1_500


def event(number: int, rng: random.Random, *, retain: bool, subject: str | None = None) -> Event:
    attributes: dict[str, Value] = {"n": number, "text": f"é{rng.choice('0189xyz')}"}
    return Event(
        subject=subject or f"a/{number}", publisher="pub", time=0.0, id=f"e{number}",
        attributes=attributes, position=Position(53.35, -6.26),
        retain=retain, valid_s=None if retain else 900.0,
    )  # fmt: skip


def played(engine: Engine, inputs: list[Input], most: int | None = None) -> list[str]:
    """The ids that are delivered, also by what the host asks for because a session is behind."""
    found: list[str] = []
    pending = list(inputs)
    while pending:
        before = evaluated(engine)
        outcome: Outcome = engine.step([pending.pop(0)], 1.0)
        assert not outcome.refusals
        for deliveries in outcome.sent:
            found += [deliveries.events[place].id for _, place, _ in deliveries.copies()]
        if most is not None:
            assert evaluated(engine) - before <= most
        if outcome.behind and not any(isinstance(each, QueueDrained) for each in pending):
            pending.append(QueueDrained("me"))
    return found


def evaluated(engine: Engine) -> int:
    return engine.matcher._evaluated


def engine_with(events: list[Event], at_once: int) -> Engine:
    engine = Engine(EngineSettings(live_at_once=at_once))
    engine.step([Moved("me", Position(53.35, -6.26)), Presence("me", True)], 0.5)
    engine.step([Published(each) for each in events], 0.5)
    return engine


def subscription() -> Subscription:
    return Subscription(id="s", node="me", subject="a/#", where=COSTLY)


@pytest.mark.parametrize("retain", [False, True])
def test_a_costly_filter_gets_all_that_it_matches_in_order_and_in_portions(retain: bool) -> None:
    rng = random.Random(7)
    events = [event(number, rng, retain=retain) for number in range(EVENTS)]
    wanted: list[Input] = [Subscribed(subscription())]
    at_once = played(engine_with(events, 0), wanted)
    assert len(at_once) > 100
    # A portion may be exceeded by the events that were decided together.
    in_portions = played(engine_with(events, 500), wanted, most=9 * EVALUATED_AT_ONCE)
    assert in_portions == at_once


def test_a_suspended_filter_that_is_resumed_decides_in_portions_too() -> None:
    rng = random.Random(8)
    events = [event(number, rng, retain=False) for number in range(EVENTS)]
    engine = engine_with([], 500)
    played(engine, [Subscribed(subscription()), Suspended("s")])
    engine.step([Published(each) for each in events], 0.7)
    found = played(engine, [Resumed("s")], most=9 * EVALUATED_AT_ONCE)
    assert found == played(engine_with(events, 0), [Subscribed(subscription())])


def test_who_comes_back_gets_what_is_left_once() -> None:
    rng = random.Random(9)
    events = [event(number, rng, retain=False) for number in range(EVENTS)]
    engine = engine_with(events, 500)
    outcome = engine.step([Subscribed(subscription())], 1.0)
    first = [
        deliveries.events[place].id
        for deliveries in outcome.sent
        for _, place, _ in deliveries.copies()
    ]
    assert outcome.behind
    rest = played(engine, [Presence("me", False), Presence("me", True)])
    assert first + rest == played(engine_with(events, 0), [Subscribed(subscription())])


def test_retained_messages_that_are_not_wanted_are_passed_over_undecided() -> None:
    rng = random.Random(10)
    events = [event(number, rng, retain=True) for number in range(EVENTS)]
    engine = engine_with(events, 500)
    assert played(engine, [Subscribed(subscription(), replay=False)]) == []
    assert played(engine, [Moved("me", Position(53.36, -6.26))]) == []


@pytest.mark.parametrize("plain_too", [False, True])
def test_who_comes_back_after_a_restart_gets_what_is_left_once_in_portions(
    plain_too: bool,
) -> None:
    rng = random.Random(11)
    events = [event(number, rng, retain=number % 2 == 0) for number in range(EVENTS)]
    engine = engine_with(events, 500)
    plain = [Subscription(id="p", node="me", subject="a/1/#")] if plain_too else []
    outcome = engine.step([*map(Subscribed, plain), Subscribed(subscription())], 1.0)
    first = [
        deliveries.events[place].id
        for deliveries in outcome.sent
        for _, place, _ in deliveries.copies()
    ]
    assert outcome.behind
    restarted = Restarted(("me",), live_at_once=500, replays_go_on=True)
    rest = played(engine, [restarted, Presence("me", True)], most=9 * EVALUATED_AT_ONCE)
    wanted: list[Input] = [*map(Subscribed, plain), Subscribed(subscription())]
    assert sorted({*first, *rest}) == sorted(set(played(engine_with(events, 0), wanted)))
    assert len(rest) == len(set(rest))
    assert not {*first} & {*rest}


def test_a_new_event_waits_for_one_portion_of_older_ones_on_its_topic() -> None:
    rng = random.Random(12)
    events = [event(number, rng, retain=False, subject="a/same") for number in range(EVENTS)]
    engine = engine_with(events, 500)
    engine.step([Subscribed(subscription())], 1.0)
    last = replace(
        event(EVENTS, rng, retain=False, subject="a/same"), attributes={"n": EVENTS, "text": "é0"}
    )
    found = played(engine, [Published(last), QueueDrained("me")], most=9 * EVALUATED_AT_ONCE)
    assert last.id in found
    assert len(found) == len(set(found))
