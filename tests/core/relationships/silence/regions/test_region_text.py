"""Regions in words name the places and directions that are meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.model.geometry.geodesy import distance_m, ecef
from nearcast.core.model.geometry.position import Position
from nearcast.core.relationships.silence.regions.region import (
    Ball,
    HalfSpace,
    OutsideBall,
    position_point,
)
from nearcast.core.relationships.silence.regions.region_text import bearing, place, region_text


@given(st.floats(-89.9, 89.9), st.floats(-180, 180))
def test_the_place_of_a_point_on_the_ground_is_its_position(lat: float, lon: float) -> None:
    found = place(ecef(lat, lon))
    assert distance_m(*found, lat, lon) < 1e-3


def test_balls_are_circles() -> None:
    centre = position_point(Position(53.35, -6.26))
    assert region_text(Ball(centre, 61.25), centre) == "circle:53.35,-6.26,61.2"
    assert region_text(OutsideBall(centre, 200.0), centre) == "outside circle:53.35,-6.26,200.0"


@pytest.mark.parametrize(
    ("north", "east", "towards"),
    [(1, 0, "N"), (1, 1, "NE"), (0, 1, "E"), (-1, 1, "SE"), (-1, 0, "S"), (0, -1, "W")],
)
def test_a_half_space_is_told_by_its_border(north: int, east: int, towards: str) -> None:
    here, there = Position(53.35, -6.26), Position(53.35 + north / 1e3, -6.26 + east / 597.0)
    a, b = position_point(here), position_point(there)
    length = sum((y - x) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5
    normal = tuple((y - x) / length for x, y in zip(a, b, strict=True))
    x, y, z = normal
    limit = sum(n * p for n, p in zip(normal, b, strict=True))
    told = region_text(HalfSpace((x, y, z), limit), a)
    assert told.endswith(f" to the {towards}")
    lat, lon = map(float, told.split(" ")[5].split(","))
    assert distance_m(lat, lon, there.lat, there.lon) < 0.5
    assert bearing(here.lat, here.lon, (x, y, z)) == pytest.approx(
        {"N": 0, "NE": 45, "E": 90, "SE": 135, "S": 180, "W": 270}[towards], abs=1.5
    )
