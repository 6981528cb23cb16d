"""Verdicts with numbers, and none that tell where somebody hidden is."""

import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.queries.explanation import FilterStep, explain
from nearcast.core.language import parse
from nearcast.core.model import Event, Position, Subscription, parse_area
from nearcast.core.model.inputs import Moved, RulesSet
from nearcast.core.model.sight_rule import NodeCondition, SightRule

HERE = Position(53.35, -6.26)


def world(*rules: SightRule) -> Engine:
    engine = Engine()
    engine.step([RulesSet(rules)], 0.0)
    engine.step([Moved("me", HERE), Moved("bus", Position(53.36, -6.26))], 0.0)
    return engine


def why(engine: Engine, event: Event, **wanted: object) -> dict[str, str]:
    subscription = Subscription("s", "me", "#", **wanted)  # type: ignore[arg-type]
    steps = explain(event, subscription, engine.matcher.world).steps
    return {step.step: step.why for step in steps}


def event(**more: object) -> Event:
    at = Position(53.36, -6.26)
    return Event("e", "bus/7", "bus", 1.7e9, {"delay": 1}, at, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("area", "expected"),
    [
        ("circle:me,800", "1,113 m from me, area 800 m"),
        ("circle:bus,800", "0 m from bus, area 800 m"),
        ("circle:53.35,-6.26,2000", "1,113 m from the centre, area 2,000 m"),
        ("bbox:53,-7,53.1,-6", "the event is outside the area"),
        ("circle:nobody,5", "the area holds nobody now"),
    ],
)
def test_areas_say_how_far(area: str, expected: str) -> None:
    assert why(world(), event(), from_=parse_area(area))["from"] == expected


def test_targets_say_how_far() -> None:
    around = event(to=parse_area("circle:me,500"))
    assert why(world(), around)["to"] == "1,113 m from bus, target 500 m"
    fixed = event(to=parse_area("circle:53.35,-6.27,5000"))
    assert why(world(), fixed)["to"].endswith("m from the centre, target 5,000 m")


def test_who_is_hidden_is_at_no_distance() -> None:
    hidden = world(SightRule(NodeCondition(("me",)), NodeCondition(("bus",)), 0))
    around = event(to=parse_area("circle:me,500"))
    assert why(hidden, around)["to"] == "me is outside the target"
    near = why(hidden, event(), from_=parse_area("circle:me,5000"))
    assert near["from"] == "the event's position is unknown or hidden"
    publisher = why(hidden, event(), where=parse("publisher.node = 'bus'"))
    assert publisher["where"] == ("the filter is unknown: publisher.node is unknown, wants = 'bus'")


def test_a_radius_and_a_distance_that_are_close_are_told_apart() -> None:
    engine = world()
    engine.step([Moved("bus", Position(53.350_9, -6.26))], 0.0)
    close = Event("e", "bus/7", "bus", 1.7e9, {}, Position(53.350_9, -6.26))
    told = why(engine, close, from_=parse_area("circle:me,100"))["from"]
    away, _, radius = told.removesuffix(" m").partition(" m from me, area ")
    assert float(away) != float(radius)


def test_a_filter_tells_of_its_atoms() -> None:
    where = parse("delay > 2 AND distance(me, event) < 5000")
    subscription = Subscription("s", "me", "#", where=where)
    step = explain(event(), subscription, world().matcher.world).steps[-1]
    assert isinstance(step, FilterStep)
    assert step.why == "the filter is false: delay is 1, wants > 2"
    assert [each.holds for each in step.atoms] == [False, True]
    assert step.atoms[1].why == "distance(me, event) is 1,113 m, wants < 5000"
