from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.model import (
    Box,
    Circle,
    FixedArea,
    MovingCircle,
    MovingPolygons,
    Polygon,
    Position,
    polygon,
)
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.ellipsoid import HALF_EARTH_M
from nearcast.core.model.geometry.geodesy import distance_m
from tests.support.plain.model_strategies import (
    fixed_areas,
    moving_shapes,
    positions,
    stars,
    wrapped,
)


def reach_of(area: FixedArea, position: Position) -> tuple[float, float]:
    lat, lon, reach_m = bounding_circle(area)
    return distance_m(lat, lon, position.lat, position.lon), reach_m


@settings(max_examples=300, deadline=None)
@given(fixed_areas, st.lists(positions, min_size=10, max_size=40))
def test_whatever_an_area_holds_is_within_reach(
    area: FixedArea, candidates: list[Position]
) -> None:
    for position in candidates:
        if holds(area, position):
            distance, reach_m = reach_of(area, position)
            assert distance <= reach_m


@settings(max_examples=200, deadline=None)
@given(stars(), st.integers(0, 8), st.floats(0, 1))
def test_every_point_of_an_edge_is_within_reach(area: Polygon, edge: int, share: float) -> None:
    (ring,) = area.rings
    at = edge % (len(ring) - 1)
    (lon, lat), (next_lon, next_lat) = ring[at], ring[at + 1]
    east = (next_lon - lon + 540.0) % 360.0 - 180.0
    position = Position(lat + share * (next_lat - lat), wrapped(lon + share * east))
    distance, reach_m = reach_of(area, position)
    assert distance <= reach_m


@pytest.mark.parametrize("seed", range(20))
def test_the_circle_round_very_many_points_is_as_tight_and_holds_every_edge(seed: int) -> None:
    chance = np.random.default_rng(seed)
    count, lat, lon = int(chance.integers(1_500, 5_000)), chance.uniform(-80, 80), 180 * seed
    turn = np.linspace(0.0, 2.0 * np.pi, count, endpoint=False)
    # Now and then an edge that is longer than two samples are apart.
    turn = turn[chance.random(count) < 0.9 - 0.8 * (np.sin(turn) > 0.95)]
    far = chance.uniform(0.001, 4.0) * (1.0 + 0.02 * chance.random(len(turn)))
    points = np.stack(
        [lon + far * np.cos(turn) / np.cos(np.radians(lat)), lat + far * np.sin(turn)]
    )
    points = np.stack([wrapped_all(points[0]), points[1]]).T
    hole = points.mean(axis=0) if seed % 2 else points[0]
    near = [(wrapped(hole[0] + x), hole[1] + y) for x, y in ((0, 0), (1e-4, 0), (0, 1e-4), (0, 0))]
    ring = tuple(map(tuple, points.tolist()))
    area = Polygon(((*ring, ring[0]), tuple(near)))
    centre_lat, centre_lon, reach_m = bounding_circle(area)
    farthest = max(distance_m(centre_lat, centre_lon, y, x) for x, y in ring)
    assert farthest <= reach_m <= 1.1 * farthest + 1.0
    for share in chance.random(5).tolist():
        for (x, y), (next_x, next_y) in pairwise(ring):
            east = (next_x - x + 540.0) % 360.0 - 180.0
            at = y + share * (next_y - y), wrapped(x + share * east)
            assert distance_m(centre_lat, centre_lon, *at) <= reach_m


def wrapped_all(lon: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return (lon + 180.0) % 360.0 - 180.0


@settings(max_examples=200, deadline=None)
@given(moving_shapes, positions, st.floats(-5, 5), st.floats(-5, 5))
def test_whatever_a_moving_shape_holds_is_within_reach_of_its_anchor(
    shape: MovingCircle | MovingPolygons, anchor: Position, north: float, east: float
) -> None:
    position = Position(max(-90.0, min(90.0, anchor.lat + north)), wrapped(anchor.lon + east))
    if holds(Anchored(anchor, shape), position):
        _, _, reach_m = bounding_circle(shape)
        assert distance_m(anchor.lat, anchor.lon, position.lat, position.lon) <= reach_m


@settings(max_examples=100, deadline=None)
@given(stars(largest_degrees=5.0))
def test_the_reach_of_an_ordinary_polygon_is_tight(area: Polygon) -> None:
    lat, lon, reach_m = bounding_circle(area)
    corners = area.rings[0]
    farthest = max(distance_m(lat, lon, y, x) for x, y in corners)
    assert farthest <= reach_m <= 1.1 * farthest + 1.0
    width = max(distance_m(a[1], a[0], b[1], b[0]) for a in corners for b in corners)
    assert reach_m <= 0.75 * width


@pytest.mark.parametrize(
    ("area", "most_m"),
    [
        (Box(53.2, -6.4, 53.4, -6.1), 15_200),
        (Box(-1, 179, 1, -179), 160_000),
        (Box(80, -180, 90, 180), 1_160_000),
        (Box(70, -100, 71, 100), 2_400_000),
        (Box(-90, -180, 90, 180), HALF_EARTH_M),
        (Box(10, 20, 10, 20), 1),
        (Circle(Position(1, 2), 500), 501),
        (polygon([(0, 80), (120, 80), (-120, 80)]), 1_160_000),
    ],
)
def test_reaches_are_no_larger_than_they_must_be(area: FixedArea, most_m: float) -> None:
    assert bounding_circle(area)[2] <= most_m
