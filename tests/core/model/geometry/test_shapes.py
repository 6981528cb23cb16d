import math
from itertools import pairwise

import numpy as np
import pytest
import shapely
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nearcast.core.model import (
    Box,
    Circle,
    MovingCircle,
    MovingPolygons,
    MultiPolygon,
    Polygon,
    Position,
    moving_box,
    polygon,
)
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.geodesy import distance_m, local_metres
from nearcast.core.model.geometry.shapes import encode, shape_holds
from tests.support.plain.model_strategies import (
    boxes,
    longitudes,
    moving_shapes,
    polar_caps,
    positions,
    stars,
    wrapped,
)


def rotated(area: Polygon, degrees: float) -> Polygon:
    return Polygon(
        tuple(tuple((wrapped(lon + degrees), lat) for lon, lat in ring) for ring in area.rings)
    )


def edge_distance(area: Polygon, position: Position) -> float:
    """How far in degrees a position is from the nearest edge, by shapely, on three sheets."""
    nearest = math.inf
    for ring in area.rings:
        first = ring[0][0]
        line = [(0.0, ring[0][1])]
        for (lon, _), (next_lon, lat) in pairwise(ring):
            line.append((line[-1][0] + math.remainder(next_lon - lon, 360.0), lat))
        for sheet in (-360.0, 0.0, 360.0):
            x = math.remainder(position.lon - first, 360.0) + sheet
            nearest = min(
                nearest, shapely.LineString(line).distance(shapely.Point(x, position.lat))
            )
    return nearest


@settings(max_examples=300, deadline=None)
@given(stars(), st.floats(-1.2, 1.2), st.floats(-1.2, 1.2))
def test_ordinary_polygons_hold_what_shapely_says(area: Polygon, east: float, north: float) -> None:
    (ring,) = area.rings
    lon0 = ring[0][0]
    flat = shapely.Polygon([(math.remainder(lon - lon0, 360.0), lat) for lon, lat in ring])
    west, south, far_east, far_north = flat.bounds
    x = (west + far_east) / 2 + east * (far_east - west) / 2
    y = max(-90.0, min(90.0, (south + far_north) / 2 + north * (far_north - south) / 2))
    point = shapely.Point(x, y)
    assume(flat.exterior.distance(point) > 1e-9)
    assert holds(area, Position(y, wrapped(lon0 + x))) == bool(flat.contains(point))


@settings(max_examples=300, deadline=None)
@given(st.one_of(stars(), polar_caps()), positions, longitudes)
def test_turning_the_globe_changes_nothing(
    area: Polygon, position: Position, degrees: float
) -> None:
    assume(edge_distance(area, position) > 1e-9)
    turned = Position(position.lat, wrapped(position.lon + degrees))
    assert holds(area, position) == holds(rotated(area, degrees), turned)


@settings(max_examples=200, deadline=None)
@given(polar_caps(), longitudes)
def test_a_ring_round_a_pole_holds_it_and_not_the_other(cap: Polygon, lon: float) -> None:
    north = cap.rings[0][0][1] > 0
    assert holds(cap, Position(90.0, lon)) == north
    assert holds(cap, Position(-90.0, lon)) == (not north)
    reversed_ring = cap.rings[0][::-1]
    assert holds(Polygon((reversed_ring,)), Position(90.0, lon)) == north


@settings(max_examples=200, deadline=None)
@given(st.one_of(stars(), polar_caps()), st.integers(0, 8), st.floats(0, 1))
def test_boundaries_are_inside(area: Polygon, edge: int, share: float) -> None:
    (ring,) = area.rings
    at = edge % (len(ring) - 1)
    (lon, lat), (next_lon, next_lat) = ring[at], ring[at + 1]
    east = math.remainder(next_lon - lon, 360.0)
    assert holds(area, Position(lat + share * (next_lat - lat), wrapped(lon + share * east)))
    assert holds(area, Position(lat, lon))


def test_a_hole_is_outside_and_its_edge_inside() -> None:
    outer = [(0, 0), (10, 0), (10, 10), (0, 10)]
    area = polygon(outer, [(4, 4), (6, 4), (6, 6), (4, 6)])
    assert holds(area, Position(2, 2))
    assert not holds(area, Position(5, 5))
    assert holds(area, Position(5, 4))
    assert holds(area, Position(10, 10))
    assert not holds(area, Position(10.000001, 10))


def test_a_multipolygon_holds_what_any_part_holds() -> None:
    left = polygon([(0, 0), (1, 0), (1, 1), (0, 1)])
    # Overlap is not a hole: parts are alternatives.
    right = polygon([(0.5, 0), (3, 0), (3, 1), (0.5, 1)])
    area = MultiPolygon((left, right))
    assert [holds(area, Position(0.5, lon)) for lon in (0.2, 0.7, 2.0, 4.0)] == [
        True,
        True,
        True,
        False,
    ]


def test_a_polygon_over_the_antimeridian_is_in_one_piece() -> None:
    area = polygon([(170, -10), (-170, -10), (-170, 10), (170, 10)])
    for lon in (175.0, 180.0, -180.0, -175.0, 170.0, -170.0):
        assert holds(area, Position(0.0, lon))
    assert not holds(area, Position(0.0, 0.0))
    assert not holds(area, Position(0.0, 169.9))


def test_a_wedge_that_ends_in_the_pole_holds_it_whatever_its_longitude() -> None:
    wedge = polygon([(0, 80), (60, 80), (60, 90), (0, 90)])
    assert holds(wedge, Position(90.0, -123.0))
    assert holds(wedge, Position(85.0, 30.0))
    assert not holds(wedge, Position(85.0, -30.0))
    assert not holds(wedge, Position(-90.0, 30.0))


def test_a_cap_drawn_down_to_the_pole_as_map_files_do_is_whole() -> None:
    ring = [(-180, -70), (-90, -75), (0, -70), (90, -75), (180, -70), (180, -90), (-180, -90)]
    area = polygon(ring)
    for lon in (-180.0, -90.0, 0.0, 123.0, 180.0):
        assert holds(area, Position(-89.0, lon))
        assert holds(area, Position(-90.0, lon))
        assert not holds(area, Position(-60.0, lon))


@settings(max_examples=200, deadline=None)
@given(boxes, positions)
def test_a_box_holds_what_its_polygon_holds(area: Box, position: Position) -> None:
    width = (area.east - area.west) % 360.0
    assume(0.001 < width < 359.0 and area.north - area.south > 0.001)
    assume(all(abs(edge) == 90.0 or abs(edge) < 90.0 - 1e-9 for edge in (area.south, area.north)))
    middle = [wrapped(area.west + width * share) for share in (0.25, 0.5, 0.75)]
    lons = [area.west, *middle, area.east]
    ring = [(lon, area.south) for lon in lons] + [(lon, area.north) for lon in lons[::-1]]
    same = polygon(ring)
    # A polygon's edge is a micrometre wide, at the poles too.
    at_pole = abs(position.lat) == 90.0
    assume(at_pole or (edge_distance(same, position) > 1e-9 and abs(position.lat) < 90.0 - 1e-9))
    assert holds(area, position) == holds(same, position)


def test_boxes_know_the_antimeridian_and_the_poles() -> None:
    crossing = Box(-10, 170, 10, -170)
    assert all(holds(crossing, Position(0, lon)) for lon in (170, 175, 180, -180, -175, -170))
    assert not holds(crossing, Position(0, 0))
    assert holds(Box(-10, 170, 10, 180), Position(0, -180))
    assert holds(Box(-10, -180, 10, -170), Position(0, 180))
    assert holds(Box(80, 10, 90, 20), Position(90, 100))
    assert holds(Box(-90, 10, -80, 20), Position(-90, -100))
    assert not holds(Box(80, 10, 89, 20), Position(90, 15))


@settings(max_examples=100, deadline=None)
@given(positions, positions, st.floats(0, 2e7))
def test_circles_hold_what_is_near_enough(
    center: Position, position: Position, radius_m: float
) -> None:
    distance = distance_m(center.lat, center.lon, position.lat, position.lon)
    assume(abs(distance - radius_m) > 1e-7)
    assert holds(Circle(center, radius_m), position) == (distance <= radius_m)
    moving = Anchored(center, MovingCircle(radius_m))
    assert holds(moving, position) == holds(Circle(center, radius_m), position)


def test_a_moving_box_lies_where_its_offset_says() -> None:
    ahead = moving_box(20, 100, offset=(0, 60))
    anchor = Position(53.35, -6.26)
    degree_m = distance_m(53.35, -6.26, 54.35, -6.26)

    def north(metres: float) -> Position:
        return Position(53.35 + metres / degree_m, -6.26)

    verdicts = [holds(Anchored(anchor, ahead), north(metres)) for metres in (0, 5, 15, 105, 115)]
    assert verdicts == [False, False, True, True, False]


@settings(max_examples=200, deadline=None)
@given(moving_shapes, positions, st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_moving_shapes_are_plane_shapes_in_metres_round_the_anchor(
    shape: MovingCircle | MovingPolygons, anchor: Position, north: float, east: float
) -> None:
    position = Position(max(-90.0, min(90.0, anchor.lat + north)), wrapped(anchor.lon + east))
    point = shapely.Point(local_metres(anchor.lat, anchor.lon, position.lat, position.lon))
    if isinstance(shape, MovingCircle):
        off = point.distance(shapely.Point(shape.east_m, shape.north_m)) - shape.radius_m
        assume(abs(off) > 1e-3)
        inside = off < 0
    else:
        flat = shapely.Polygon(shape.polygons[0][0])
        assume(flat.exterior.distance(point) > 1e-3)
        inside = bool(flat.contains(point))
    assert holds(Anchored(anchor, shape), position) == inside


@pytest.mark.parametrize("start", [0, 7])
def test_a_code_is_read_from_where_it_starts(start: int) -> None:
    code = encode(polygon([(0, 0), (1, 0), (1, 1), (0, 1)]))
    shifted = np.concatenate([np.full(start, np.nan), code])
    assert shape_holds(shifted, start, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0)
    assert not shape_holds(shifted, start, 1.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0)
