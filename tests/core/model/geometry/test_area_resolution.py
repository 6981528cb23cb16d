import pytest

from nearcast.core.model import (
    Area,
    Circle,
    FixedArea,
    MovingCircle,
    PlaceError,
    Position,
    box,
    circle,
    place,
)
from nearcast.core.model.geometry.area_resolution import Anchored, check, holds, resolve
from nearcast.core.model.geometry.places import Places

DUBLIN = Position(53.35, -6.26)
CITY = box(53.2, -6.5, 53.5, -6.0)


@pytest.fixture
def places() -> Places:
    registry = Places()
    registry.add("city", "Dublin", CITY)
    return registry


def meaning(
    area: Area, places: Places, caller: Position | None = None
) -> FixedArea | Anchored | None:
    nodes = {"bus-7": DUBLIN}
    return resolve(area, caller=caller, position_of=nodes.get, places=places)


def test_a_fixed_area_is_itself(places: Places) -> None:
    area = Circle(DUBLIN, 5.0)
    assert meaning(area, places) is area


def test_a_circle_round_a_node_is_where_the_node_is(places: Places) -> None:
    assert meaning(circle("bus-7", 500), places) == Anchored(DUBLIN, MovingCircle(500.0))


def test_a_circle_round_nobody_holds_nobody(places: Places) -> None:
    for area in (circle("ghost", 500), circle("me", 500), place("here", "city")):
        now = meaning(area, places)
        assert now is None
        assert not holds(now, DUBLIN)


def test_me_is_the_caller(places: Places) -> None:
    assert meaning(circle("me", 5), places, DUBLIN) == Anchored(DUBLIN, MovingCircle(5.0))


def test_here_is_the_place_round_the_caller(places: Places) -> None:
    assert meaning(place("here", "city"), places, DUBLIN) == CITY
    assert meaning(place("here", "city"), places, Position(0, 0)) is None
    assert meaning(place("here", "pub"), places, DUBLIN) is None


def test_a_place_that_was_removed_holds_nobody(places: Places) -> None:
    area = place("Dublin", "city")
    check(area, places)
    assert meaning(area, places) == CITY
    assert places.remove("city", "Dublin")
    assert meaning(area, places) is None


def test_a_place_that_never_was_is_an_error_when_it_is_named(places: Places) -> None:
    with pytest.raises(PlaceError, match="did you mean Dublin"):
        check(place("Dubln"), places)
    check(circle("ghost", 5), places)
    check(place("here", "pub"), places)
