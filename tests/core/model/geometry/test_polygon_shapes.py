"""Polygons of many points hold what the plain scan of all edges says."""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest
import shapely

from nearcast.core.model import MovingPolygons, MultiPolygon, Polygon, Position
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.ellipsoid import MEAN_RADIUS_M
from nearcast.core.model.geometry.geodesy import local_metres
from nearcast.core.model.geometry.margins import is_beyond
from nearcast.core.model.geometry.polygon_shapes import COLUMNS_AT
from nearcast.core.model.geometry.rings import Ring, held_pole
from nearcast.core.model.geometry.shapes import encode
from tests.support.plain.model_strategies import wrapped

EDGE_DEGREES, EDGE_M = 1e-11, 1e-6


def plainly_holds(polygons: list[tuple[Ring, ...]], lat: float, lon: float) -> bool:
    """Every edge is looked at: how many lie north, and whether the point is on one."""
    for rings in polygons:
        inside = False
        for ring in rings:
            inside ^= held_pole(ring) == 1
            for (lon0, lat0), (lon1, lat1) in pairwise(ring):
                off0, off1, step = east(lon, lon0), east(lon, lon1), east(lon0, lon1)
                if abs(lat) >= 90.0 - EDGE_DEGREES:
                    if abs(lat - lat1) <= EDGE_DEGREES:
                        return True
                elif is_on(off0, lat0 - lat, step, lat1 - lat0, EDGE_DEGREES):
                    return True
                if (off0 >= 0.0) != (off1 >= 0.0) and abs(off0 - off1) < 180.0:
                    inside ^= lat0 + (lat1 - lat0) * (off0 / (off0 - off1)) > lat
        if inside:
            return True
    return False


def plainly_holds_moving(polygons: list[tuple[Ring, ...]], x: float, y: float) -> bool:
    for rings in polygons:
        inside = False
        for ring in rings:
            for (x0, y0), (x1, y1) in pairwise(ring):
                if is_on(x0 - x, y0 - y, x1 - x0, y1 - y0, EDGE_M):
                    return True
                if (x0 >= x) != (x1 >= x):
                    inside ^= y0 - y + (y1 - y0) * ((x0 - x) / (x0 - x1)) > 0.0
        if inside:
            return True
    return False


def is_on(x0: float, y0: float, dx: float, dy: float, tolerance: float) -> bool:
    if min(x0, x0 + dx) > tolerance or max(x0, x0 + dx) < -tolerance:
        return False
    if min(y0, y0 + dy) > tolerance or max(y0, y0 + dy) < -tolerance:
        return False
    return abs(dx * y0 - dy * x0) <= tolerance * math.hypot(dx, dy)


def east(lon: float, other: float) -> float:
    off = other - lon
    return off - 360.0 if off >= 180.0 else off + 360.0 if off < -180.0 else off


def star(chance: Random, x: float, y: float, size: float, points: int) -> list[tuple[float, float]]:
    """A ring round a point, ragged like a coast."""
    angles = [2.0 * math.pi * i / points for i in range(points)]
    reaches = [size * chance.uniform(0.5, 1.0) for _ in angles]
    return [
        (x + reach * math.cos(angle), y + reach * math.sin(angle))
        for angle, reach in zip(angles, reaches, strict=True)
    ]


def scribble(
    chance: Random, x: float, y: float, size: float, points: int
) -> list[tuple[float, float]]:
    """A ring that crosses itself again and again, with points in rows and columns."""
    return [
        (x + size * chance.randint(-9, 9) / 10, y + size * chance.uniform(-1, 1))
        for _ in range(points)
    ]


def zigzag(
    chance: Random, x: float, y: float, size: float, points: int
) -> list[tuple[float, float]]:
    """A ring that goes from side to side, and back along its left."""
    line = [
        (x + (size if i % 2 else -size / 2), y - size + 2 * size * i / points)
        for i in range(points - 2)
    ]
    return [*line, (x - size, y + size), (x - size, y - size)]


def cap(chance: Random, points: int) -> list[tuple[float, float]]:
    """A ring that winds round a pole."""
    sign, turn, first = chance.choice((1, -1)), chance.choice((1, -1)), chance.uniform(-180, 180)
    return [
        (first + turn * 360.0 * i / points, sign * chance.uniform(40, 89)) for i in range(points)
    ]


Draw = Callable[[Random, float, float, float, int], list[tuple[float, float]]]
DRAWN: tuple[Draw, ...] = (star, scribble, zigzag)


def on_globe(points: list[tuple[float, float]]) -> Ring:
    ring = [(wrapped(x), max(-90.0, min(90.0, y))) for x, y in points]
    return (*ring, ring[0])


def rings_of(chance: Random) -> tuple[Ring, ...]:
    if chance.random() < 0.25:
        return (on_globe(cap(chance, chance.randint(40, 200))),)
    draw, points = chance.choice(DRAWN), chance.randint(40, 300)
    x, y = chance.choice((0.0, 179.9, -180.0, chance.uniform(-180, 180))), chance.uniform(-80, 80)
    size = chance.choice((1e-6, 1e-4, 0.01, 1.0, 9.0, 80.0))
    outer = on_globe(draw(chance, x, y, size, points))
    holes = [
        on_globe(star(chance, x, y, size / 5, chance.randint(4, 60)))
        for _ in range(chance.randint(0, 2))
    ]
    return (outer, *holes)


def tried(chance: Random, polygons: list[tuple[Ring, ...]]) -> Iterator[tuple[float, float]]:
    """Points in and near the polygons, on their corners and edges, and in awkward places."""
    rings = [ring for polygon in polygons for ring in polygon]
    for _ in range(60):
        ring = chance.choice(rings)
        at = chance.randrange(len(ring) - 1)
        (x, y), (next_x, next_y) = ring[at], ring[at + 1]
        share = chance.random()
        yield x, y
        yield x + share * east(x, next_x), y + share * (next_y - y)
        yield next_x, y
        other_x, other_y = chance.choice(chance.choice(rings))
        yield x + share * east(x, other_x), y + chance.random() * (other_y - y)
    yield from ((0.0, 90.0), (-180.0, -90.0), (180.0, 0.0), (-180.0, 0.0), (0.0, 89.9999999999999))


@pytest.mark.parametrize("seed", range(80))
def test_many_points_are_decided_as_by_looking_at_every_edge(seed: int) -> None:
    chance = Random(seed)
    polygons = [rings_of(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    area = MultiPolygon(tuple(map(Polygon, polygons))) if seed % 2 else Polygon(polygons[0])
    shown = polygons if seed % 2 else polygons[:1]
    held = 0
    for x, y in tried(chance, shown):
        at = Position(max(-90.0, min(90.0, y)), wrapped(x))
        expected = plainly_holds(shown, at.lat, at.lon)
        assert holds(area, at) == expected, f"seed {seed}: {at}"
        held += expected
    assert held > 60


@pytest.mark.parametrize("seed", range(40))
def test_many_points_that_move_are_decided_as_by_looking_at_every_edge(seed: int) -> None:
    chance = Random(seed)
    size = chance.choice((0.01, 100.0, 1e5))
    polygons: list[tuple[Ring, ...]] = []
    for _ in range(chance.choice((1, 1, 2))):
        x, y = chance.uniform(-size, size), chance.uniform(-size, size)
        points = chance.choice(DRAWN)(chance, x, y, size, chance.randint(40, 300))
        polygons.append(((*points, points[0]),))
    shape, anchor = MovingPolygons(tuple(polygons)), Position(53.35, -6.26)
    degree_m = 111_300.0
    for _ in range(200):
        x, y = chance.choice(chance.choice(polygons)[0])
        x, y = x + chance.uniform(-size, size) / 4, y + chance.uniform(-size, size) / 4
        lon = anchor.lon + x / degree_m / math.cos(math.radians(anchor.lat))
        at = Position(anchor.lat + y / degree_m, lon)
        here = local_metres(anchor.lat, anchor.lon, at.lat, at.lon)
        assert holds(Anchored(anchor, shape), at) == plainly_holds_moving(polygons, *here)


def plain_margin_m(polygons: list[tuple[Ring, ...]], at: Position) -> float:
    """How far the nearest edge is, in the plane round a position."""
    up = math.radians(1.0) * MEAN_RADIUS_M
    across = up * math.cos(math.radians(at.lat))
    nearest = math.inf
    for ring in (ring for rings in polygons for ring in rings):
        for (lon0, lat0), (lon1, lat1) in pairwise(ring):
            x, y = east(at.lon, lon0) * across, (lat0 - at.lat) * up
            edge = shapely.LineString(
                [(x, y), (x + east(lon0, lon1) * across, y + (lat1 - lat0) * up)]
            )
            nearest = min(nearest, edge.distance(shapely.Point(0.0, 0.0)))
    return nearest


@pytest.mark.parametrize("seed", range(30))
def test_the_margin_round_many_points_is_that_of_the_nearest_edge(seed: int) -> None:
    chance = Random(seed)
    polygons = [rings_of(chance) for _ in range(chance.choice((1, 2)))]
    area = MultiPolygon(tuple(map(Polygon, polygons)))
    for _ in range(12):
        lon, lat = chance.choice(chance.choice(chance.choice(polygons)))
        off = chance.choice((1e-6, 1e-4, 0.02, 3.0))
        lon, lat = lon + chance.uniform(-off, off), lat + chance.uniform(-off, off)
        at = Position(max(-89.9, min(89.9, lat)), wrapped(lon))
        far_m = plain_margin_m(polygons, at)
        for margin_m in (far_m * 0.99, far_m * 1.01):
            expected = far_m > margin_m and not holds(area, at)
            assert is_beyond(area, at, margin_m) == expected, f"seed {seed}: {at}"


def edges_looked_at(polygon: Polygon) -> tuple[int, float]:
    """The entries of the edge columns of a polygon, and how many a column has on average."""
    code = encode(polygon)
    at = int(code[COLUMNS_AT])
    assert at
    columns = int(code[at + 2])
    entries = int(code[at + 3 + columns])
    return entries, entries / columns


def coast(points: int) -> Ring:
    """An island with bays, drawn ever finer."""
    chance = Random(1)
    bays = [(chance.randint(2, 9), chance.uniform(0.0, 0.08), chance.random()) for _ in range(9)]
    line = []
    for i in range(points):
        angle = 2.0 * math.pi * i / points
        reach = 1.0 + sum(size * math.sin(often * angle + at) for often, size, at in bays)
        line.append((reach * math.cos(angle), reach * math.sin(angle)))
    return on_globe(line)


@pytest.mark.parametrize("points", [300, 3_000, 9_000])
def test_a_point_is_compared_with_a_few_edges_of_a_coast_however_fine_it_is(points: int) -> None:
    entries, each = edges_looked_at(Polygon((coast(points),)))
    assert entries <= 4 * points
    assert each <= 8.0


@pytest.mark.parametrize("draw", DRAWN)
@pytest.mark.parametrize("size", [1.0, 1e-6])
def test_the_code_of_any_ring_stays_in_proportion_to_its_points(draw: Draw, size: float) -> None:
    code = encode(Polygon((on_globe(draw(Random(1), 0.0, 0.0, size, 9_000)),)))
    assert len(code) < 8 * 9_000
