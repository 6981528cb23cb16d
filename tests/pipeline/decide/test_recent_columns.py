"""Recent events that came as columns count as those that came one by one."""

import random

import pytest

from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.language import parse
from nearcast.core.model import Box
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Forgot,
    Input,
    Moved,
    Published,
    RulesSet,
    Subscribed,
    Unsubscribed,
)
from nearcast.core.model.record import Record
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.visibility import SEE_NOTHING
from nearcast.pipeline.decide.plain_events import PlainEvents
from nearcast.store import batch_of, record_row

NODES = ("a", "b", "c")
HERE = Position(53.35, -6.26)
HIDDEN = RulesSet(
    (SightRule(other=NodeCondition(inside=Box(53.0, -7.0, 54.0, -6.0)), see=SEE_NOTHING),)
)
COUNTING = Subscription("w", "a", "none", parse("count('#', '', 50) > 0"))


def happened(draw: random.Random, number: int, now: float) -> Event:
    size = 70_000 if draw.random() < 0.02 else draw.randrange(40)
    at = HERE if draw.random() < 0.7 else None
    name = f"e{number}"
    return Event(name, "s", draw.choice(NODES), now, position=at, payload=b"1" * size)


def columns(events: list[Event], times: list[float]) -> PlainEvents:
    rows = [
        record_row(Record(number, now, Published(event)), "broker")
        for number, (event, now) in enumerate(zip(events, times, strict=True), 1)
    ]
    return PlainEvents(batch_of(rows))


def counted(engine: Engine, now: float) -> list[tuple[str, Position | None, bytes]]:
    """What somebody would count who asks now."""
    engine.step([Subscribed(COUNTING)], now)
    found = sorted(
        (event.id, event.position, event.payload)
        for event in engine.matcher.world.recent.about("s")
    )
    engine.step([Unsubscribed("w")], now)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_they_are_remembered_alike(seed: int) -> None:
    draw = random.Random(seed)
    settings = EngineSettings(
        position_ttl_s=1e6, recent_s=20.0, recent_most=25, recent_most_bytes=500
    )
    plain, other = Engine(settings), Engine(settings)
    now, made = 100.0, 0
    looked = []
    for _ in range(60):
        now += draw.choice((0.0, 1.0, 5.0, 30.0, -1.0))
        kind = draw.randrange(12)
        if kind < 8:
            events, times = [], []
            for _ in range(draw.randrange(1, 12)):
                now += draw.choice((0.0, 0.5, 3.0, 25.0, -0.5))
                made += 1
                events.append(happened(draw, made, now))
                times.append(now)
            for event, at in zip(events, times, strict=True):
                plain.play([Published(event)], [at], again=True)
            many, _, _ = other.play_columns(columns(events, times)) or (0, None, None)
            assert many == len(events)
            continue
        if kind < 10:
            looked.append(counted(other, now))
            assert looked[-1] == counted(plain, now)
            continue
        value: Input = draw.choice((Forgot("a"), HIDDEN, HIDDEN, RulesSet(), Moved("b", HERE)))
        for engine in (plain, other):
            engine.step([value], now)
    assert any(looked)


def test_what_is_too_old_is_not_counted_though_it_was_decided_on_just_now() -> None:
    wanted = Subscription("w", "n", "s", parse("count('s', '') >= 1"))
    inputs: list[Input] = [
        Published(Event("old", "s", "p", 0.0)),
        Published(Event("new", "t", "p", 301.0)),
        Subscribed(wanted),
        Published(Event("e", "s", "p", 301.0)),
    ]
    times = [0.0, 301.0, 301.0, 301.0]
    steps, batch = Engine(), Engine()
    one_by_one = [
        each.event.id
        for value, now in zip(inputs, times, strict=True)
        for each in steps.step([value], now).deliveries
    ]
    together = [each.event.id for each in batch.play(inputs, times).deliveries]
    assert together == one_by_one == []
