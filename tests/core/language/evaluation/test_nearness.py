"""Functions of place, evaluated in a scope with positions, counts and friends."""

import pytest

from nearcast.core.language import PropertiesScope, Scope, Value, parse
from nearcast.core.model.geometry.geodesy import distance_m
from tests.core.language.situation import DUBLIN, NORTH, Situation

FAR_NORTH = (53.3698, -6.2603)


def holds(text: str, scope: Scope) -> bool | None:
    return parse(text).evaluate_in(scope)


def test_distance_is_in_metres_along_the_ground() -> None:
    scope = Situation(now={"me": DUBLIN, "event": NORTH})
    metres = distance_m(*DUBLIN, *NORTH)
    assert holds(f"distance(me, event) = {metres!r}", scope) is True
    assert holds(f"distance(event.position, me.position) = {metres!r}", scope) is True
    assert holds("distance(me, POINT(-6.2603 53.3498)) = 0", scope) is True


@pytest.mark.parametrize(
    "position",
    [
        {"type": "Point", "coordinates": [-6.2603, 53.3498]},
        [-6.2603, 53.3498],
        {"lat": 53.3498, "lon": -6.2603},
    ],
)
def test_a_position_may_be_written_in_three_ways(position: Value) -> None:
    scope = PropertiesScope({"me": {"position": position}, "goal": {"position": position}})
    assert holds("distance(me, POINT(-6.2603 53.3498)) = 0", scope) is True
    assert holds("distance(me, goal.position) = 0", scope) is True
    assert holds("S_INTERSECTS(me.position, POINT(-6.2603 53.3498))", scope) is True
    assert holds("me.position IS NULL", scope) is False


@pytest.mark.parametrize(
    "position",
    [[200, 0], [0, 91], [0], "here", [True, 0], {"lat": 1}, [float("nan"), 0], [10**400, 0]],
)
def test_a_position_that_cannot_be_is_unknown(position: Value) -> None:
    scope = PropertiesScope({"me": {"position": position}})
    assert holds("distance(me, POINT(0 0)) < 5", scope) is None


def test_a_missing_position_makes_the_distance_unknown() -> None:
    assert holds("distance(me, publisher) < 5", Situation(now={"me": DUBLIN})) is None
    assert holds("distance(me, publisher) IS NULL", Situation(now={"me": DUBLIN})) is True


def test_approaching_compares_the_last_two_fixes() -> None:
    towards = Situation(now={"me": NORTH, "event": FAR_NORTH}, before={"me": DUBLIN})
    away = Situation(now={"me": DUBLIN, "event": FAR_NORTH}, before={"me": NORTH})
    assert holds("approaching(event)", towards) is True
    assert holds("approaching(event)", away) is False
    assert holds("approaching(POINT(-6.2603 53.3698))", towards) is True


def test_approaching_someone_who_moves_uses_both_previous_places() -> None:
    fleeing = Situation(
        now={"me": NORTH, "publisher": (53.3898, -6.2603)},
        before={"me": DUBLIN, "publisher": FAR_NORTH},
    )
    assert holds("approaching(publisher)", fleeing) is False
    fleeing.before.pop("publisher")
    assert holds("approaching(publisher)", fleeing) is True


def test_who_has_one_fix_only_stands_still() -> None:
    """I wait at a stop, and the bus comes: it is what moves."""
    coming = Situation(now={"me": DUBLIN, "publisher": NORTH}, before={"publisher": FAR_NORTH})
    assert holds("approaching(publisher)", coming) is True
    going = Situation(now={"me": DUBLIN, "publisher": FAR_NORTH}, before={"publisher": NORTH})
    assert holds("approaching(publisher)", going) is False


def test_approaching_is_unknown_where_neither_has_two_fixes_or_one_has_none() -> None:
    still = Situation(now={"me": NORTH, "event": DUBLIN, "publisher": DUBLIN})
    for text in ("event", "publisher", "me", "POINT(-6.2603 53.3698)"):
        assert holds(f"approaching({text})", still) is None
    alone = Situation(now={"me": NORTH}, before={"me": DUBLIN})
    assert holds("approaching(event)", alone) is None
    assert holds("approaching(publisher)", alone) is None
    lost = Situation(now={"publisher": NORTH}, before={"publisher": DUBLIN})
    assert holds("approaching(publisher)", lost) is None


def test_count_asks_the_scope_with_the_filter_it_was_given() -> None:
    scope = Situation(counts=3, counted=[])
    assert holds("count('traffic/#', 'kind = ''car''', 500) >= 3", scope) is True
    assert holds("count('traffic/#', '') >= 4", scope) is False
    assert scope.counted == [
        ("traffic/#", "kind = 'car'", 500.0, "me"),
        ("traffic/#", None, None, "me"),
    ]
    assert holds("count('traffic/#', 'a') >= 3", Situation()) is None


def test_friendship_is_what_the_scope_says() -> None:
    assert holds("friend(publisher)", Situation(friends=True)) is True
    assert holds("NOT friend(publisher)", Situation()) is None
    listed: dict[str, Value] = {"me": {"node": "n1"}, "publisher": {"friends": ["n2"]}}
    assert parse("friend(publisher)").evaluate(listed) is False
    assert parse("friend(publisher)").evaluate({"publisher": {"friends": ["n2"]}}) is None
