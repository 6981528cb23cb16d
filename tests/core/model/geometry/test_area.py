from collections.abc import Callable

import pytest
from hypothesis import given

from nearcast.core.model import (
    Area,
    Around,
    Box,
    Circle,
    ModelError,
    MovingCircle,
    PlaceArea,
    PlaceHere,
    Position,
    box,
    circle,
    moving_box,
    place,
    polygon,
)
from tests.support.plain.model_strategies import areas


@given(areas)
def test_areas_are_values_that_can_be_keys(area: Area) -> None:
    assert {area: 1}[area] == 1


def test_a_circle_takes_whatever_can_be_its_centre() -> None:
    assert circle((53.0, -6.0), 500) == Circle(Position(53.0, -6.0), 500.0)
    assert circle(Position(53.0, -6.0), 500) == Circle(Position(53.0, -6.0), 500.0)
    assert circle("me", 500) == Around("me", MovingCircle(500.0))
    assert circle("bus-7", 500, offset=(10, 20)) == Around("bus-7", MovingCircle(500.0, 10.0, 20.0))


def test_a_part_of_a_node_is_where_its_node_is() -> None:
    assert circle("ambulance-7~siren", 10) == circle("ambulance-7", 10)


def test_places_and_boxes_are_made_by_name() -> None:
    assert place("Dublin", "city") == PlaceArea("Dublin", "city")
    assert place("here", "city") == PlaceHere("city")
    assert box(1, 2, 3, 4) == Box(1, 2, 3, 4)


def test_an_open_ring_is_closed_by_the_constructor() -> None:
    assert polygon([(0, 0), (1, 0), (1, 1)]).rings[0][-1] == (0.0, 0.0)


def test_a_ring_may_close_on_the_other_name_of_the_antimeridian() -> None:
    ring = ((180.0, 0.0), (-170.0, 0.0), (-170.0, 10.0), (-180.0, 0.0))
    assert polygon(ring[:-1]).rings[0][:3] == ring[:3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: circle("me", -1), "radius -1 is negative"),
        (lambda: circle("me", float("nan")), "not a finite"),
        (lambda: circle("me", 3e7), "half-way round the Earth"),
        (lambda: circle((91, 0), 1), "latitude 91 is beyond 90"),
        (lambda: circle("here", 1), "'me' or the id of a node"),
        (lambda: circle("", 1), "'me' or the id of a node"),
        (lambda: circle((1, 2), 3, offset=(4, 5)), "offset goes with a moving centre"),
        (lambda: Box(2, 0, 1, 0), "south .* is above its north"),
        (lambda: polygon([(0, 0), (1, 1)]), "3 points; a ring needs at least 4"),
        (lambda: polygon([(0, 0), (1, 1), (2, 2)]), "encloses nothing"),
        (lambda: polygon([(0, 0), (180, 0), (90, 10)]), "half-way round.*add a point between"),
        (
            lambda: polygon([(-180, -90), (180, -90), (180, 90), (-180, 90)]),
            "encloses nothing; edges go the shorter way round",
        ),
        (lambda: polygon([(0, 0), (1, 0), (1, 95)]), "point 3 of ring 1: latitude 95"),
        (lambda: polygon([(0, 0), (1, 0, 7), (1, 1)]), "point 2 of ring 1 is not two numbers"),
        (lambda: moving_box(0, 10), "width 0 is not above 0"),
        (lambda: PlaceArea("here"), "reserved"),
        (lambda: PlaceHere(""), "needs a kind"),
    ],
)
def test_what_cannot_be_an_area_says_what_would_be_right(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        make()
