"""Rings: the closed lines that bound polygons, on the cylinder of longitude and latitude.

Checks what makes a ring decidable (two finite numbers per point, closed, no edge that spans half a
turn, a non-empty inside), and computes which pole a ring winds around. Rings that move with a node
are in metres east and north of it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.ellipsoid import HALF_EARTH_M
from nearcast.core.model.geometry.position import number, plain, position, shown

# The limit for clients; places that an operator loads may be larger.
LARGEST_VERTEX_COUNT = 10_000

# A ring of this many points is checked as columns first.
_MANY_POINTS = 64

# For an edge this close to half a turn, rounding could change which way is shorter.
_HALF_TURN = 180.0 - 1e-9

Ring = tuple[tuple[float, float], ...]
Points = tuple[Sequence[float], ...]


def checked_rings(rings: Iterable[Iterable[Sequence[float]]]) -> tuple[Ring, ...]:
    """Return the rings of one polygon as tuples of (lon, lat), or raise `ModelError`."""
    checked = tuple(_checked_ring(ring, f"ring {i}") for i, ring in enumerate(rings, 1))
    if not checked:
        raise ModelError("a polygon needs at least one ring")
    return checked


def checked_moving_rings(rings: Iterable[Iterable[Sequence[float]]]) -> tuple[Ring, ...]:
    """Return the rings of one moving polygon as tuples of (east_m, north_m)."""
    checked: list[Ring] = []
    for i, points in enumerate(rings, 1):
        what = f"ring {i}"
        points = tuple(points)
        ring = _in_order(points, _moving_in_order)
        if ring is None:
            ring = tuple(
                offset_m(_pair(point, f"point {at} of {what}", "east_m, north_m"))
                for at, point in enumerate(points, 1)
            )
            _check_closed(ring, what)
        checked.append(ring)
    if not checked:
        raise ModelError("a moving polygon needs at least one ring")
    return tuple(checked)


def offset_m(value: object) -> tuple[float, float]:
    """Return an offset in metres (east, north) from an anchor."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) != 2:
        raise ModelError(f"an offset is two numbers, metres east and north, not {shown(value)}")
    east, north = number(value[0], "offset east"), number(value[1], "offset north")
    if math.hypot(east, north) > HALF_EARTH_M:
        raise ModelError(
            f"offset {plain(east)}, {plain(north)} is more than half-way round the Earth"
        )
    return east, north


def longitude_step(west: float, east: float) -> float:
    """Return the degrees from one meridian to another the shorter way, east positive."""
    step = east - west
    if step > 180.0:
        return step - 360.0
    if step < -180.0:
        return step + 360.0
    return step


def held_pole(ring: Ring) -> int:
    """Return which pole a ring of (lon, lat) winds around: 1 the north, -1 the south, 0 none.

    It is the pole on the side of the ring's mean latitude, whatever its orientation.
    """
    turn = weighted = 0.0
    for (lon, lat), (next_lon, next_lat) in pairwise(ring):
        step = longitude_step(lon, next_lon)
        turn += step
        weighted += step * (lat + next_lat)
    if round(turn / 360.0) % 2 == 0:
        return 0
    return 1 if weighted * turn >= 0.0 else -1


def _checked_ring(points: Iterable[Sequence[float]], what: str) -> Ring:
    points = tuple(points)
    in_order = _in_order(points, _fixed_in_order)
    if in_order is not None:
        return in_order
    ring: list[tuple[float, float]] = []
    for at, point in enumerate(points, 1):
        lon, lat = _pair(point, f"point {at} of {what}", "lon, lat")
        try:
            checked = position(lat, lon)
        except ModelError as error:
            raise ModelError(f"point {at} of {what}: {error}") from None
        ring.append((checked.lon, checked.lat))
    _check_closed(ring, what)
    area = east = 0.0
    for (lon, lat), (next_lon, next_lat) in pairwise(ring):
        step = longitude_step(lon, next_lon)
        if abs(step) >= _HALF_TURN:
            raise ModelError(
                f"the edge of {what} from {_point(lon, lat)} to {_point(next_lon, next_lat)} goes "
                "half-way round the Earth, either way; add a point between"
            )
        area += (east + step / 2.0) * (next_lat - lat)
        east += step
    if area == 0.0 and abs(east) < 180.0:
        raise ModelError(
            f"{what} encloses nothing; edges go the shorter way round, so one that spans more "
            "than 180 degrees needs points between (or use bbox:SOUTH,WEST,NORTH,EAST)"
        )
    return tuple(ring)


def _in_order(points: Points, check: Callable[[Points], Ring | None]) -> Ring | None:
    """Return a ring of many points that is valid as it stands; None: check each point."""
    if len(points) < _MANY_POINTS:
        return None
    try:
        return check(points)
    except ImportError:
        # Clients may have no numpy.
        return None


def _fixed_in_order(points: Points) -> Ring | None:
    from nearcast.core.model.geometry.ring_columns import ring_in_order

    return ring_in_order(points, _HALF_TURN)


def _moving_in_order(points: Points) -> Ring | None:
    from nearcast.core.model.geometry.ring_columns import moving_ring_in_order

    return moving_ring_in_order(points, HALF_EARTH_M)


def _pair(point: object, what: str, names: str) -> tuple[float, float]:
    if not isinstance(point, Sequence) or isinstance(point, str | bytes) or len(point) != 2:
        raise ModelError(f"{what} is not two numbers, [{names}]: {shown(point)}")
    return number(point[0], what), number(point[1], what)


def _check_closed(ring: Sequence[tuple[float, float]], what: str) -> None:
    if len(ring) < 4:
        raise ModelError(
            f"{what} has {len(ring)} points; a ring needs at least 4, the last equal to the first"
        )
    (first_x, first_y), (last_x, last_y) = ring[0], ring[-1]
    # 180 and -180 are the same meridian.
    same_meridian = first_x == last_x or (abs(first_x) == 180.0 and first_x == -last_x)
    if not same_meridian or first_y != last_y:
        raise ModelError(
            f"{what} is open: it begins at {_point(*ring[0])} and ends at {_point(*ring[-1])}; "
            "repeat the first point at its end"
        )


def _point(x: float, y: float) -> str:
    return f"({plain(x)}, {plain(y)})"
