"""Rings checked and measured as columns are what they are point by point."""

import math
from collections.abc import Callable
from random import Random

import pytest
import shapely

from nearcast.core.model import ModelError, MovingPolygons, Polygon
from nearcast.core.model.geometry import rings
from nearcast.core.model.geometry.area_resolution import holds
from nearcast.core.model.geometry.places import area_m2, inner_point

Point = list[object]


def spoiled(chance: Random, ring: list[Point]) -> None:
    """Change a ring in one of the ways that matter to a check, or not at all."""
    at = chance.randrange(len(ring))
    value = chance.choice(
        (math.nan, math.inf, True, "1", None, 10**400, 91.0, 90.0 + 1e-10, -180.0 - 1e-10, 3)
    )
    kind = chance.randrange(6)
    if kind == 0:
        ring[at][chance.randrange(2)] = value
    elif kind == 1:
        ring[at] = [1.0]
    elif kind == 2:
        ring.pop()
    elif kind == 3:
        ring[at][0] = float(ring[at][0]) + 180.0  # type: ignore[arg-type]
    elif kind == 4:
        ring[:] = [[x, 5.0] for x, _ in ring]


def drawn(chance: Random) -> list[Point]:
    count, x, y = chance.randint(64, 120), chance.choice((0.0, 179.9, -90.0)), 40.0
    size = chance.choice((0.1, 30.0))
    ring: list[Point] = []
    for i in range(count):
        angle = 2.0 * math.pi * i / count
        reach = size * chance.uniform(0.9, 1.0)
        lon = math.remainder(x + reach * math.cos(angle), 360.0)
        ring.append([lon, y + reach * math.sin(angle)])
    if chance.random() < 0.2:
        ring = [[round(float(a)), round(float(b))] for a, b in ring]  # type: ignore[arg-type]
    return [*ring, list(ring[0])]


def verdict(make: Callable[[tuple[object, ...]], object], ring: list[Point]) -> object:
    try:
        return make((tuple(map(tuple, ring)),))
    except ModelError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(150))
def test_many_points_are_checked_as_few_are(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    ring = drawn(chance)
    if seed % 3:
        spoiled(chance, ring)
    for make in (
        lambda polygon: Polygon(polygon).rings,
        lambda polygon: MovingPolygons((polygon,)).polygons,
    ):
        with monkeypatch.context() as point_by_point:
            point_by_point.setattr(rings, "_MANY_POINTS", 10**9)
            expected = verdict(make, ring)
        assert verdict(make, ring) == expected
        assert repr(verdict(make, ring)) == repr(expected)


@pytest.mark.parametrize("seed", range(40))
def test_an_inner_point_is_that_of_shapely_and_in_rings_that_cross_themselves_too(
    seed: int,
) -> None:
    chance = Random(seed)
    lon = chance.choice((0.0, 178.0, -179.5))
    points = [(chance.uniform(0, 5), chance.uniform(-2, 2)) for _ in range(chance.randint(4, 60))]
    if seed % 2:
        points.sort(key=lambda point: math.atan2(point[1], point[0] - 2.5))
    ring = tuple((math.remainder(lon + x, 360.0), y) for x, y in (*points, points[0]))
    area = Polygon((ring,))
    found = inner_point(area)
    assert holds(area, found)
    flat = shapely.Polygon(points)
    if shapely.is_valid(flat):
        expected = shapely.point_on_surface(flat)
        assert found.lat == pytest.approx(expected.y)
        assert math.remainder(found.lon - lon - expected.x, 360.0) == pytest.approx(0.0, abs=1e-9)


def test_a_scribble_has_an_inner_point_and_a_size_in_one_pass() -> None:
    """Tens of millions of crossings, which nobody needs to know."""
    chance = Random(1)
    points = [(chance.uniform(0, 5), chance.uniform(0, 5)) for _ in range(10_000)]
    area = Polygon(((*points, points[0]),))
    assert holds(area, inner_point(area))
    assert area_m2(area) > 0.0
