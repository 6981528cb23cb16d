"""The map: proportions are kept, blocks are alike, and what does not fit is left out."""

import pytest

from nearcast.simulation.movement.city import CENTRE, City
from nearcast.simulation.movement.city_map import CityMap

CITY = City()


@pytest.mark.parametrize(("width", "height"), [(47, 14), (90, 24), (200, 30)])
def test_all_blocks_are_alike(width: int, height: int) -> None:
    drawn = CityMap(CITY, width, height)
    across = {
        drawn.cell(CITY.position((column + 1, 0)))[0] - drawn.cell(CITY.position((column, 0)))[0]
        for column in range(CITY.columns - 1)
    }
    down = {
        drawn.cell(CITY.position((0, row)))[1] - drawn.cell(CITY.position((0, row + 1)))[1]
        for row in range(CITY.rows - 1)
    }
    assert across == {2 * next(iter(down))}
    assert len(down) == 1


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 40), (40, 2), (47, 14)])
def test_a_map_of_any_size_has_that_size(width: int, height: int) -> None:
    drawn = CityMap(CITY, width, height)
    drawn.lay_streets()
    for place in CITY.places:
        drawn.lay_place(place)
    drawn.ring(CENTRE, 500.0, "ring")
    drawn.put(CITY.position((0, 0)), "mark")
    assert [len(row) for row in drawn.rows] == [width] * height


def test_streets_cross_and_places_carry_their_names() -> None:
    drawn = CityMap(CITY, 47, 14)
    drawn.lay_streets()
    assert sum(row.count("crossing") for row in drawn.rows) == CITY.columns * CITY.rows
    drawn.lay_place(CITY.places[0])
    text = "".join(look[-1] for row in drawn.rows for look in row if look.startswith("text:"))
    assert text == CITY.places[0].name


def test_a_ring_is_twice_as_wide_in_cells_as_it_is_high_and_spares_names() -> None:
    drawn = CityMap(CITY, 47, 14)
    drawn.lay_place(CITY.places[0])
    names = sum(look.startswith("text:") for row in drawn.rows for look in row)
    drawn.ring(CITY.position((4, 3)), 400.0, "ring")
    rows = [y for y, row in enumerate(drawn.rows) if "ring" in row]
    columns = [x for row in drawn.rows for x, look in enumerate(row) if look == "ring"]
    assert max(columns) - min(columns) == 2 * (max(rows) - min(rows)) == 16
    assert sum(look.startswith("text:") for row in drawn.rows for look in row) == names
