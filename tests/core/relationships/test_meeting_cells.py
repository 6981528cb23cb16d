"""A fix is sent to every cell in which someone could be near it."""

import math
from random import Random

import numpy as np
import pytest

from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.relationships.meeting_cells import cells_of, centre_of, grid_class, sent

PLACES = [(53.35, -6.26), (0.0, 180.0), (65.0, -180.0), (89.999, 12.0), (-90.0, 0.0)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("within_m", [5.0, 100.0, 5000.0])
def test_whoever_is_within_the_distance_is_in_a_cell_that_knows(
    place: tuple[float, float], within_m: float
) -> None:
    random = Random(f"{place} {within_m}")
    grid = grid_class(within_m, 1.0)
    nowhere = np.array([math.nan])
    reach = within_m / 111_000.0
    found = 0
    for _ in range(400):
        lat = max(-90.0, min(90.0, place[0] + random.uniform(-reach, reach)))
        wide = min(180.0, reach / max(math.cos(math.radians(place[0])), 1e-9))
        lon = (place[1] + random.uniform(-wide, wide) + 180.0) % 360.0 - 180.0
        if distance_m(*place, lat, lon) > within_m:
            continue
        found += 1
        _, cells = sent(
            grid, within_m, np.array([place[0]]), np.array([place[1]]), nowhere, nowhere
        )
        assert int(cells_of(grid, np.array([lat]), np.array([lon]))[0]) in cells.tolist()
    assert found > 50


def test_the_cells_of_the_place_before_come_once_and_after_the_new_ones() -> None:
    here, there = np.array([53.35]), np.array([53.3502])
    lon = np.array([-6.26])
    grid = grid_class(100.0, 1000.0)
    which, cells = sent(grid, 100.0, here, lon, there, lon)
    assert len(set(cells.tolist())) == len(cells)
    assert which.tolist() == [0] * len(cells)
    far = np.array([40.0])
    moved = sent(grid, 100.0, here, lon, far, lon)[1].tolist()
    alone = sent(grid, 100.0, here, lon, np.array([math.nan]), lon)[1].tolist()
    assert moved[: len(alone)] == alone
    assert len(moved) > len(alone)


def test_the_middle_of_a_cell_is_in_it() -> None:
    random = Random(3)
    for grid in (0, 1, 5, 12):
        for _ in range(50):
            lat, lon = random.uniform(-90, 90), random.uniform(-180, 180)
            cell = int(cells_of(grid, np.array([lat]), np.array([lon]))[0])
            middle = centre_of(grid, cell)
            assert int(cells_of(grid, np.array([middle[0]]), np.array([middle[1]]))[0]) == cell
