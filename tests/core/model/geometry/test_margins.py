"""Whether anything of an area lies within a margin: the same as trying many points."""

import random
from itertools import pairwise
from math import cos, pi, radians, sin, sqrt

import pytest

from nearcast.core.model.geometry.area import (
    Box,
    Circle,
    FixedArea,
    MovingCircle,
    MovingPolygons,
    MultiPolygon,
    Polygon,
)
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.margins import is_beyond
from nearcast.core.model.geometry.position import Position

METRE = 1 / 111_200
MARGIN_M = 10.0
TRIED = 800


def off(at: Position, east_m: float, north_m: float) -> Position:
    lon = at.lon + east_m * METRE / cos(radians(at.lat))
    return Position(at.lat + north_m * METRE, (lon + 180.0) % 360.0 - 180.0)


def some_area(draw: random.Random, near: Position) -> FixedArea | Anchored:
    def point(reach_m: float = 30.0) -> Position:
        return off(near, draw.uniform(-reach_m, reach_m), draw.uniform(-reach_m, reach_m))

    def ring(size_m: float) -> list[tuple[float, float]]:
        middle, count = point(), draw.randrange(3, 7)
        turns = sorted(draw.random() for _ in range(count))
        corners = [off(middle, size_m * cos(2 * pi * t), size_m * sin(2 * pi * t)) for t in turns]
        return [(each.lon, each.lat) for each in (*corners, corners[0])]

    kind = draw.randrange(6)
    size_m = draw.choice((2.0, 5.0, 25.0))
    if kind == 0:
        return Circle(point(), size_m)
    if kind == 1:
        one, two = point(), point()
        west, east = (one.lon, two.lon) if draw.random() < 0.5 else (two.lon, one.lon)
        if abs(east - west) < 180.0 and west > east:
            west, east = east, west
        return Box(min(one.lat, two.lat), west, max(one.lat, two.lat), east)
    if kind == 2:
        return Polygon((tuple(ring(size_m)),))
    if kind == 3:
        return MultiPolygon(tuple(Polygon((tuple(ring(size_m)),)) for _ in range(2)))
    anchor = off(near, draw.uniform(-50, 50), draw.uniform(-50, 50))
    east_m, north_m = draw.uniform(-50, 50), draw.uniform(-50, 50)
    if kind == 4:
        return Anchored(anchor, MovingCircle(size_m, east_m, north_m))
    corners = ((0.0, 0.0), (size_m, 0.0), (size_m, size_m / 3), (0.0, 0.0))
    moved = tuple((east_m + x, north_m + y) for x, y in corners)
    return Anchored(anchor, MovingPolygons(((moved,),)))


@pytest.mark.parametrize("seed", range(120))
def test_beyond_is_where_no_point_within_the_margin_is_held(seed: int) -> None:
    draw = random.Random(seed)
    lat, lon = draw.choice(((53.35, -6.26), (-33.9, 151.2), (0.0, 180.0), (64.1, -179.999_99)))
    here = Position(lat, lon)
    area = some_area(draw, here)

    def held(margin_m: float) -> bool:
        for _ in range(TRIED):
            far_m, turn = margin_m * sqrt(draw.random()), 2 * pi * draw.random()
            if holds(area, off(here, far_m * cos(turn), far_m * sin(turn))):
                return True
        return holds(area, here)

    # What is just at the margin may be either.
    if held(MARGIN_M * 0.97):
        assert not is_beyond(area, here, MARGIN_M)
    if is_beyond(area, here, MARGIN_M * 1.03):
        assert not held(MARGIN_M)
    if not held(MARGIN_M * 1.3):
        assert is_beyond(area, here, MARGIN_M)


def test_a_box_round_the_whole_earth_is_beyond_only_in_latitude() -> None:
    band = Box(-10.0, -180.0, 10.0, 180.0)
    assert not is_beyond(band, Position(10.0, 33.0), MARGIN_M)
    above = Position(10.0 + 12 * METRE, 33.0)
    assert distance_m(10.0, 33.0, above.lat, 33.0) > MARGIN_M
    assert is_beyond(band, above, MARGIN_M)
    assert not is_beyond(band, Position(10.0 + 8 * METRE, -180.0), MARGIN_M)


def test_the_edge_of_a_cap_is_near_wherever_its_ring_begins() -> None:
    ring = ((-180.0, 60.0), (-90.0, 60.0), (0.0, 60.0), (90.0, 60.0), (180.0, 60.0))
    for turn in (ring, ring[::-1]):
        cap = Polygon((turn,))
        for lon in (-170.0, -80.0, 10.0, 100.0, 170.0):
            assert not is_beyond(cap, Position(60.0 - 5 * METRE, lon), MARGIN_M)
            assert is_beyond(cap, Position(60.0 - 15 * METRE, lon), MARGIN_M)


def test_many_points_have_the_same_margin_as_few() -> None:
    """A square, and the same square with a thousand points on each side."""
    corners = ((0.0, 0.0), (0.01, 0.0), (0.01, 0.01), (0.0, 0.01), (0.0, 0.0))
    fine = [
        (x + (next_x - x) * i / 1000, y + (next_y - y) * i / 1000)
        for (x, y), (next_x, next_y) in pairwise(corners)
        for i in range(1000)
    ]
    here, in_metres = Position(0.0, 0.0), []
    square, finer = Polygon((corners,)), Polygon(((*fine, fine[0]),))
    for ring in (corners, (*fine, fine[0])):
        metres = tuple((x / METRE, y / METRE) for x, y in ring)
        in_metres.append(Anchored(here, MovingPolygons(((metres,),))))
    draw = random.Random(1)
    for _ in range(300):
        at = Position(draw.uniform(-0.0002, 0.0102), draw.uniform(-0.0002, 0.0102))
        assert is_beyond(finer, at, MARGIN_M) == is_beyond(square, at, MARGIN_M)
        few, many = (is_beyond(each, at, MARGIN_M) for each in in_metres)
        assert few == many
