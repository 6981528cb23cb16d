"""A map with a hundred thousand live events: a walk costs what is near, and nothing comes twice."""

from collections.abc import Iterator
from math import cos, radians

import pytest

from nearcast.core.engine.engine import Engine, EngineInputs, LiveEvent
from nearcast.core.language import parse
from nearcast.core.model import Area, Circle, Event, Position, Subscription, parse_area
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.inputs import Input, Moved, Published, Subscribed

SOUTH, WEST = 53.0, -7.0
STEP_M = 200.0
REACH_M = 500.0
LARGE, SMALL = 100_000, 1_000
LAT_STEP = STEP_M / 111_200
LON_STEP = LAT_STEP / cos(radians(SOUTH))


class Map:
    """Live events on a grid of streets, and somebody who walks through."""

    def __init__(self, count: int, *, targeted: bool) -> None:
        self.side = round(count**0.5)
        self.count = self.side * self.side
        self.engine = Engine()
        self.targeted = targeted
        wanted = [
            Subscription("s", "walker", "holes/#", from_=_area(targeted)),
            # What is everywhere must not be looked at with every step either.
            Subscription("t", "walker", "holes/0/#", where=parse("size > 5")),
        ]
        events = (LiveEvent(self.event(number), 60.0) for number in range(self.count))
        self.engine.resume(0, EngineInputs(subscriptions=wanted, live=events))

    def event(self, number: int, **changes: object) -> Event:
        row, column = divmod(number, self.side)
        at = self.at(row, column)
        details: dict[str, object] = {
            "attributes": {"size": 1},
            "position": at,
            "at_given": True,
            "to": Circle(at, REACH_M) if self.targeted else None,
            "valid_s": 60.0,
            "object": str(number),
            "qos": 1,
            **changes,
        }
        name = f"{number} {sorted(changes)}"
        return Event(name, f"holes/{row % 7}/{number}", "city", 0.0, **details)  # type: ignore[arg-type]

    def at(self, row: float, column: float) -> Position:
        return Position(SOUTH + row * LAT_STEP, WEST + column * LON_STEP)

    def walk(self, rows: int) -> Iterator[Position]:
        """From a corner into the map, in the middle of the streets."""
        for half in range(rows * 2):
            yield self.at(half / 2 + 0.25, 5.5)

    def step(self, value: Input, now: float = 1.0) -> list[str]:
        outcome = self.engine.step([value], now)
        assert outcome.refusals == []
        return [delivery.event.object or "" for delivery in outcome.deliveries]


def _area(targeted: bool) -> Area | None:
    return None if targeted else parse_area(f"circle:me,{REACH_M}")


@pytest.fixture(scope="module", params=[True, False], ids=["by target", "by position"])
def large(request: pytest.FixtureRequest) -> Map:
    return Map(LARGE, targeted=request.param)


def test_a_walk_meets_what_is_near_once_and_looks_at_little_more(large: Map) -> None:
    small = Map(SMALL, targeted=large.targeted)
    costs: list[int] = []
    for map_ in (small, large):
        before = map_.engine.matcher.looked_at
        came: list[str] = []
        near: set[str] = set()
        for at in map_.walk(20):
            came += map_.step(Moved("walker", at))
            near |= _near(map_, at)
        assert len(came) == len(set(came)), "each comes once"
        assert set(came) == near
        costs.append(map_.engine.matcher.looked_at - before)

    assert costs[1] <= costs[0] * 1.5, "a hundred times as many cost no more"
    assert costs[1] < 40 * 500, "of a hundred thousand"


def test_a_map_of_plain_retained_messages_costs_a_walker_nothing() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("s", "walker", "#"))], 0.0)
    events = [Event(str(n), f"t/{n}", "city", 0.0, retain=True) for n in range(1_000)]
    engine.step([Published(event) for event in events], 0.0)
    before = engine.matcher.looked_at

    for n in range(100):
        outcome = engine.step([Moved("walker", Position(n / 10, 0.0))], 1.0)
        assert outcome.deliveries == []

    assert engine.matcher.looked_at == before


def test_nothing_comes_after_it_was_withdrawn_or_has_expired(large: Map) -> None:
    middle = large.side // 2
    gone = middle * large.side + middle
    later = gone + 1
    large.step(Published(large.event(gone, valid_s=0.0)))
    large.step(Published(large.event(later, valid_s=5.0)), 2.0)

    came = large.step(Moved("walker", large.at(middle, middle)), 8.0)

    assert str(gone) not in came
    assert str(later) not in came
    assert str(gone - 1) in came
    at_the_end = large.step(Moved("walker", large.at(middle + 50, middle)), 61.5)
    assert at_the_end == []
    assert len(large.engine.matcher.live) == 0


def _near(map_: Map, at: Position) -> set[str]:
    """Everything within reach, by looking at all that could be."""
    reach = int(REACH_M / STEP_M) + 2
    row, column = round((at.lat - SOUTH) / LAT_STEP), round((at.lon - WEST) / LON_STEP)
    found = set()
    for r in range(max(0, row - reach), min(map_.side, row + reach + 1)):
        for c in range(max(0, column - reach), min(map_.side, column + reach + 1)):
            there = map_.at(r, c)
            if distance_m(at.lat, at.lon, there.lat, there.lon) <= REACH_M:
                found.add(str(r * map_.side + c))
    return found
