"""Cells hold what they are said to hold, and are no larger than asked."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.gathering import Cell, cell_of
from nearcast.core.model import Position

SIZES = st.sampled_from((1.0, 50.0, 500.0, 20_000.0, 1_000_000.0))
LATS, LONS = st.floats(-90, 90), st.floats(-180, 180)


@given(LATS, LONS, SIZES)
def test_a_position_is_within_half_a_diagonal_of_its_cells_middle(
    lat: float, lon: float, size_m: float
) -> None:
    middle = cell_of(lat, lon, size_m).centre
    assert middle.distance_m(Position(lat, lon)) <= 0.7072 * size_m * 1.01


@given(LATS, LONS, SIZES)
def test_a_cell_holds_its_own_middle(lat: float, lon: float, size_m: float) -> None:
    cell = cell_of(lat, lon, size_m)
    assert cell_of(cell.centre.lat, cell.centre.lon, size_m) == cell


@given(LATS, SIZES)
def test_both_sides_of_the_antimeridian_are_one_meridian(lat: float, size_m: float) -> None:
    assert cell_of(lat, 180.0, size_m) == cell_of(lat, -180.0, size_m)


def test_cells_are_about_as_large_as_asked() -> None:
    here = cell_of(53.35, -6.26, 500.0)
    east = Cell(500.0, here.row, here.column + 1)
    north = cell_of(here.centre.lat + 500.0 / 111_200.0, here.centre.lon, 500.0)
    assert 480.0 < here.centre.distance_m(east.centre) <= 500.0
    assert north.row == here.row + 1
    assert here.label == "500:31861:23171"
