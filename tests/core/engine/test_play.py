"""Inputs that are played as one batch, each at its time, give what step by step gives."""

import random

import pytest

from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.language import parse
from nearcast.core.model.event import Announcement, Delivery, Event, Subscription
from nearcast.core.model.geometry.forms.area_text import parse_area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    ContextPatched,
    Input,
    Left,
    Moved,
    Presence,
    Published,
    QueueDrained,
    Restarted,
    Resumed,
    Subscribed,
    Suspended,
    Unsubscribed,
)

NODES = ("a", "b", "c", "d")
SUBJECTS = ("s", "t", "s/u")
WHERE = (
    None,
    "x > 3",
    "count('s', 'x > 2', 3000) >= 1",
    "count('t', 'x > 1') < 2",
    "approaching(publisher)",
    "me.role = 'nurse'",
)
NEEDS = ("volume 2", "volume 4 wait 20", "people 2 or time 40", "volume 3 per attribute x wait 8")
AREAS = (None, "circle:me,2000", "circle:a,1500", "circle:53.35,-6.26,1000")


def place(draw: random.Random) -> Position:
    return Position(53.34 + draw.randrange(4) * 0.01, -6.26)


def an_input(draw: random.Random, number: int) -> Input:
    node = draw.choice(NODES)
    kind = draw.randrange(14)
    if kind < 4:
        return Moved(node, place(draw) if draw.random() < 0.95 else None)
    if kind < 8:
        return Published(
            Event(
                f"e{number}",
                draw.choice(SUBJECTS),
                node,
                number,
                {"x": draw.randrange(6)},
                place(draw) if draw.random() < 0.3 else None,
                to=parse_area(draw.choice(AREAS[1:])) if draw.random() < 0.3 else None,
                valid_s=draw.choice((None, None, None, 20.0, 0.0)),
                object=draw.choice((None, None, "o")),
                qos=draw.randrange(2),
            )
        )
    if kind < 11:
        where, area = draw.choice(WHERE), draw.choice(AREAS)
        group = "g" if draw.random() < 0.1 else None
        gathers = group is None and draw.random() < 0.3
        wanted = Subscription(
            f"{node} {draw.randrange(3)}",
            node,
            draw.choice((*SUBJECTS, "#", "s/#")),
            None if where is None else parse(where),
            None if area is None else parse_area(area),
            qos=draw.randrange(2),
            no_local=draw.random() < 0.3,
            group=group,
            aggregate=draw.choice(NEEDS) if gathers else None,
        )
        return Subscribed(wanted)
    if kind == 11:
        return ContextPatched(node, {"role": draw.choice(("nurse", "cook", None))})
    others: tuple[Input, ...] = (
        Unsubscribed(f"{node} {draw.randrange(3)}"),
        Suspended(f"{node} {draw.randrange(3)}"),
        Resumed(f"{node} {draw.randrange(3)}"),
        Presence(node, draw.random() < 0.5),
        QueueDrained(node),
        Left(node),
        Announced(Announcement(node, "s", parse_area(draw.choice(AREAS[1:])))),
        Restarted(
            ("a", "b"),
            position_ttl_s=30.0,
            recent_s=40.0,
            live_at_once=draw.choice((0, 1, 3)),
            replays_go_on=draw.random() < 0.5,
        ),
    )
    return draw.choice(others)


def told(deliveries: list[Delivery]) -> list[tuple[str, str, tuple[str, ...], int, bool]]:
    return sorted(
        (d.event.id, d.owner, tuple(sorted(d.subscriptions)), d.priority, d.replayed)
        for d in deliveries
    )


@pytest.mark.parametrize("seed", range(80))
def test_a_batch_is_as_many_steps(seed: int) -> None:
    draw = random.Random(seed)
    chosen = EngineSettings(position_ttl_s=30.0, recent_s=40.0, live_at_once=draw.choice((0, 1, 3)))
    inputs = [an_input(draw, number) for number in range(150)]
    now, times = 0.0, []
    for _ in inputs:
        now += draw.choice((0.0, 0.0, 0.5, 3.0, 25.0))
        times.append(now)
    slow, fast = Engine(chosen), Engine(chosen)
    expected: list[Delivery] = []
    for value, at in zip(inputs, times, strict=True):
        expected += slow.step([value], at).deliveries
    found: list[Delivery] = []
    start = 0
    while start < len(inputs):
        end = start + draw.randrange(1, 40)
        found += fast.play(inputs[start:end], times[start:end]).deliveries
        start = end
    assert told(found) == told(expected)
    assert fast.nodes == slow.nodes
    assert fast.subscriptions == slow.subscriptions
    assert fast.suspended == slow.suspended


@pytest.mark.parametrize("seed", range(20))
def test_who_only_applies_decides_the_same_later(seed: int) -> None:
    draw = random.Random(seed)
    inputs = [an_input(draw, number) for number in range(120)]
    times = [3.0 * number for number in range(120)]
    chosen = EngineSettings(live_at_once=draw.choice((0, 1, 3)))
    whole, quiet = Engine(chosen), Engine(chosen)
    whole.play(inputs[:80], times[:80])
    quiet.play(inputs[:80], times[:80], quietly=True)
    expected = whole.play(inputs[80:], times[80:]).deliveries
    assert told(quiet.play(inputs[80:], times[80:]).deliveries) == told(expected)


def test_who_only_applies_knows_whose_turn_it_is() -> None:
    whole, quiet = Engine(), Engine()
    members: list[Input] = [Subscribed(Subscription(name, name, "s", group="g")) for name in "abc"]
    events = [Published(Event(f"e{i}", "s", "d", 0.0)) for i in range(3)]
    inputs = [*members, *events[:2]]
    whole.play(inputs, [0.0] * 5)
    quiet.play(inputs, [0.0] * 5, quietly=True)
    assert told(quiet.step(events[2:], 1.0).deliveries) == told(
        whole.step(events[2:], 1.0).deliveries
    )


def test_who_only_applies_asks_nobody() -> None:
    engine = Engine()
    inputs: list[Input] = [
        Subscribed(Subscription("w", "a", "#")),
        Published(Event("e", "s", "b", 0.0)),
    ]
    assert not engine.play(inputs, [0.0, 0.0], quietly=True).deliveries


def test_what_is_decided_elsewhere_is_recorded_and_goes_to_nobody() -> None:
    here = Engine(EngineSettings(elsewhere=(("s/u", False), ("s/#", True)), unrecorded=("#",)))
    here.step([Subscribed(Subscription("w", "a", "#"))], 0.0)
    inputs = [Published(Event(f"e{i}", subject, "b", 0.0)) for i, subject in enumerate(SUBJECTS)]
    outcome = here.step(inputs, 1.0)
    assert [each.event.subject for each in outcome.deliveries] == ["t", "s/u"]
    recorded = [each.input for each in outcome.records]
    assert [each.event.subject for each in recorded if isinstance(each, Published)] == ["s"]
    assert here.route("b", "s") is None
    assert here.route("b", "t") is not None


@pytest.mark.parametrize("seed", range(40))
def test_a_restored_engine_decides_as_the_first_would_have(seed: int) -> None:
    draw = random.Random(seed)
    inputs = [an_input(draw, number) for number in range(160)]
    times = [1.0 * number for number in range(160)]
    chosen = EngineSettings(live_at_once=draw.choice((0, 1, 3)))
    first, restored = Engine(chosen), Engine(chosen)
    first.play(inputs[:100], times[:100])
    restored.restore(first.seq, first.in_force())
    assert restored.subscriptions == first.subscriptions
    assert restored.suspended == first.suspended
    expected = first.play(inputs[100:], times[100:]).deliveries
    assert told(restored.play(inputs[100:], times[100:]).deliveries) == told(expected)
