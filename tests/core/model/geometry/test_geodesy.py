import math

import pytest
from geographiclib.geodesic import Geodesic
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nearcast.core.model.geometry.ellipsoid import SHORT_M
from nearcast.core.model.geometry.geodesy import (
    chord_limit_m,
    distance_bounds_m,
    distance_m,
    ecef,
    local_metres,
    within,
)
from nearcast.core.model.geometry.position import Position
from tests.support.plain.model_strategies import latitudes, longitudes, positions, wrapped

WGS84 = Geodesic.WGS84


def exact_m(a: Position, b: Position) -> float:
    return float(WGS84.Inverse(a.lat, a.lon, b.lat, b.lon, Geodesic.DISTANCE)["s12"])


def is_within(a: Position, b: Position, radius_m: float) -> bool:
    points = (*ecef(a.lat, a.lon), b.lat, b.lon, *ecef(b.lat, b.lon))
    return within(a.lat, a.lon, *points, radius_m)


def assert_exact(a: Position, b: Position) -> None:
    ours = distance_m(a.lat, a.lon, b.lat, b.lon)
    assert ours == pytest.approx(exact_m(a, b), rel=1e-5, abs=1e-8)


@settings(max_examples=400, deadline=None)
@given(positions, positions)
@example(Position(0.0, 0.0), Position(0.5, 179.7))
@example(Position(0.0, 0.0), Position(0.0, 179.5))
@example(Position(0.0, 0.0), Position(0.0, 180.0))
@example(Position(90.0, 10.0), Position(-90.0, 77.0))
@example(Position(41.0, -71.0), Position(-41.0, 109.0))
@example(Position(10.0, 180.0), Position(10.0, -180.0))
def test_distances_are_those_of_exact_geodesics(a: Position, b: Position) -> None:
    assert_exact(a, b)


@settings(max_examples=300, deadline=None)
@given(positions, st.floats(-3, 0), st.floats(-1, 1), st.floats(-1, 1))
def test_near_antipodes_are_no_exception(
    a: Position, exponent: float, north: float, east: float
) -> None:
    size = 10.0**exponent
    lat = max(-90.0, min(90.0, -a.lat + size * north))
    assert_exact(a, Position(lat, wrapped(a.lon + 180.0 + size * east)))


@settings(max_examples=300, deadline=None)
@given(positions, st.floats(-3, 5.8), st.floats(0, 360))
def test_short_distances_are_exact_at_every_size(
    a: Position, exponent: float, azimuth: float
) -> None:
    end = WGS84.Direct(a.lat, a.lon, azimuth, 10.0**exponent)
    assert_exact(a, Position(end["lat2"], end["lon2"]))


@settings(max_examples=200, deadline=None)
@given(positions, positions)
def test_a_distance_is_the_same_both_ways(a: Position, b: Position) -> None:
    there = distance_m(a.lat, a.lon, b.lat, b.lon)
    assert there == distance_m(b.lat, b.lon, a.lat, a.lon)


@settings(max_examples=400, deadline=None)
@given(positions, positions)
@example(Position(0.0, 0.0), Position(0.5, 179.7))
@example(Position(0.0, 0.0), Position(90.0, 180.0))
@example(Position(90.0, 10.0), Position(-90.0, 77.0))
@example(Position(10.0, 180.0), Position(10.0, -180.0))
def test_a_distance_is_between_its_bounds(a: Position, b: Position) -> None:
    low_m, high_m = distance_bounds_m(a.lat, a.lon, b.lat, b.lon)
    assert low_m < distance_m(a.lat, a.lon, b.lat, b.lon) < high_m


@settings(max_examples=400, deadline=None)
@given(positions, st.floats(-3, 5.8), st.floats(0, 360))
def test_bounds_of_short_distances_are_within_half_of_them(
    a: Position, exponent: float, azimuth: float
) -> None:
    there = WGS84.Direct(a.lat, a.lon, azimuth, 10.0**exponent)
    b = Position(max(-90.0, min(90.0, there["lat2"])), wrapped(there["lon2"]))
    low_m, high_m = distance_bounds_m(a.lat, a.lon, b.lat, b.lon)
    exact = distance_m(a.lat, a.lon, b.lat, b.lon)
    assert low_m < exact < high_m
    if abs(a.lat) < 80.0 and exact < 100_000.0:
        assert low_m > 0.6 * exact - 0.01
        assert high_m < 1.5 * exact + 0.01


@given(positions)
def test_a_position_is_within_nothing_of_itself(a: Position) -> None:
    assert is_within(a, a, 0.0)
    assert distance_m(a.lat, a.lon, a.lat, a.lon) == 0.0


def test_a_pole_is_one_point_and_the_antimeridian_one_meridian() -> None:
    assert is_within(Position(90.0, 12.0), Position(90.0, -170.0), 0.0)
    assert is_within(Position(-90.0, 12.0), Position(-90.0, 180.0), 0.0)
    assert is_within(Position(33.0, 180.0), Position(33.0, -180.0), 0.0)
    assert not is_within(Position(90.0, 0.0), Position(-90.0, 0.0), 1e6)


@settings(max_examples=300, deadline=None)
@given(positions, st.floats(0, 1.2e6), st.floats(0, 360), st.floats(0.9, 1.1))
def test_within_decides_as_the_distance_does(
    a: Position, radius_m: float, azimuth: float, share: float
) -> None:
    end = WGS84.Direct(a.lat, a.lon, azimuth, radius_m * share)
    b = Position(end["lat2"], end["lon2"])
    distance = distance_m(a.lat, a.lon, b.lat, b.lon)
    if abs(distance - radius_m) > 1e-7:
        assert is_within(a, b, radius_m) == (distance <= radius_m)


def test_what_is_short_and_what_is_long_stay_apart() -> None:
    lats = [4.4 + i * 1e-5 for i in range(20_000)]
    distances = [distance_m(0.0, 0.0, lat, 0.0) for lat in lats]
    assert distances[0] < SHORT_M < distances[-1]
    assert distances == sorted(distances)
    assert chord_limit_m(SHORT_M) < SHORT_M


@settings(max_examples=200, deadline=None)
@given(latitudes, longitudes, st.floats(0.01, 200_000), st.floats(0, 360))
def test_local_metres_have_the_distance_and_the_azimuth(
    lat: float, lon: float, length_m: float, azimuth: float
) -> None:
    if abs(lat) > 89.9:
        lat = math.copysign(89.9, lat)
    end = WGS84.Direct(lat, lon, azimuth, length_m)
    east, north = local_metres(lat, lon, end["lat2"], end["lon2"])
    angle = math.radians(azimuth)
    wanted = (length_m * math.sin(angle), length_m * math.cos(angle))
    assert math.dist((east, north), wanted) <= 1e-4 * length_m + 1e-7


def test_the_antipode_is_half_the_earth_away_in_some_direction() -> None:
    assert math.hypot(*local_metres(90.0, 0.0, -90.0, 0.0)) > 2.0e7
    assert local_metres(12.0, 34.0, 12.0, 34.0) == (0.0, 0.0)
