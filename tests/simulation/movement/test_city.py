"""The city: its grid is as large as it says, and places hold what lies between their corners."""

import pytest

from nearcast.core.model.geometry.area_resolution import holds
from nearcast.simulation.movement.city import City, NamedPlace, metres, spot

CITY = City()


def test_a_block_is_as_long_as_it_says_in_both_directions() -> None:
    middle = CITY.position((5, 3))
    for other in ((6, 3), (5, 4)):
        assert middle.distance_m(CITY.position(other)) == pytest.approx(CITY.block_m, rel=1e-3)


def test_a_position_leads_back_to_its_metres() -> None:
    assert metres(spot(120.0, -340.0)) == pytest.approx((120.0, -340.0))


def test_the_way_between_two_crossings_goes_from_crossing_to_crossing() -> None:
    assert list(CITY.route((3, 1), (1, 2))) == [(2, 1), (1, 1), (1, 2)]
    assert list(CITY.route((3, 1), (3, 1))) == []


@pytest.mark.parametrize("place", CITY.places, ids=lambda place: place.name)
def test_a_place_holds_its_corners_and_not_the_crossings_beside_it(place: NamedPlace) -> None:
    ground = CITY.ground(place)
    west, south = place.south_west
    assert holds(ground, CITY.position(place.south_west))
    assert holds(ground, CITY.position(place.north_east))
    assert not holds(ground, CITY.position((west - 1, south)))
    assert not holds(ground, CITY.position((west, south - 1)))
