"""Rings of many points as columns: checked and measured all at once instead of point by point.

A ring that is in order as it stands is accepted here. All others are left to the check of each
point, which corrects what rounding put beyond a limit and says what is wrong.
"""

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from nearcast.core.degrees import LARGEST_LATITUDE, LARGEST_LONGITUDE
from nearcast.core.model.geometry.ellipsoid import MEAN_RADIUS_M
from nearcast.core.model.geometry.rings import Ring, held_pole

Column = npt.NDArray[np.float64]
Points = Sequence[Sequence[float]]

# An area this small compared with its parts may be zero when it is summed in another order.
_SURE = 1e-9
_PAIRS = ({list}, {tuple}, {list, tuple})
_NUMBERS = {float, int}


def ring_in_order(points: Points, half_turn: float) -> tuple[tuple[float, float], ...] | None:
    """Return a ring of (lon, lat) if it is certainly valid; None: check each point."""
    kinds = _kinds(points)
    columns = None if kinds is None else _columns(points)
    if kinds is None or columns is None:
        return None
    lon, lat = columns
    # Comparisons with what is not a number are false.
    if not (
        np.abs(lon).max() <= LARGEST_LONGITUDE
        and np.abs(lat).max() <= LARGEST_LATITUDE
        and lon[0] == lon[-1]
        and lat[0] == lat[-1]
    ):
        return None
    step = longitude_steps(lon)
    if not np.abs(step).max() < half_turn:
        return None
    east = np.cumsum(step) - step
    parts = (east + step / 2.0) * np.diff(lat)
    if abs(parts.sum()) <= _SURE * np.abs(parts).sum():
        return None
    return _pairs(points, kinds)


def moving_ring_in_order(points: Points, reach_m: float) -> tuple[tuple[float, float], ...] | None:
    """Return a ring of (east_m, north_m) if it is certainly valid; None: check each point."""
    kinds = _kinds(points)
    columns = None if kinds is None else _columns(points)
    if kinds is None or columns is None:
        return None
    east, north = columns
    is_closed = east[0] == east[-1] and north[0] == north[-1]
    if not is_closed or not np.hypot(east, north).max() < reach_m:
        return None
    return _pairs(points, kinds)


def enclosed_m2(ring: Ring) -> float:
    """Return the ground area inside a ring of (lon, lat), on a sphere of the mean radius."""
    points, _ = points_of([ring])
    step, phi = np.radians(longitude_steps(points[:, 0])), np.radians(points[:, 1])
    rise, cosine = np.diff(phi), np.cos(phi)
    # The mean sine along a straight edge; the quotient loses its digits on flat ones.
    flat = np.abs(rise) < 1e-6
    sloped = (cosine[:-1] - cosine[1:]) / np.where(flat, 1.0, rise)
    mean = np.where(flat, np.sin((phi[:-1] + phi[1:]) / 2.0), sloped)
    under, turn = float((step * mean).sum()), float(step.sum())
    pole = held_pole(ring) if abs(turn) > 1.0 else 0
    if pole:
        under = 2.0 * math.pi - pole * math.copysign(1.0, turn) * under
    return abs(under) * MEAN_RADIUS_M**2


def widest_inside(rings: Sequence[Points]) -> tuple[float, float] | None:
    """Return the middle, as (lon, lat), of the widest stretch inside rings near their mid-height.

    None if rings wind round a pole or enclose nothing there.
    """
    points, firsts = points_of(rings)
    lon, lat = points.T
    is_edge = np.ones(len(lon) - 1, np.bool_)
    is_edge[firsts[1:] - 1] = False
    walked = lon[0] + np.concatenate(([0.0], np.cumsum(longitude_steps(lon))))
    levels = np.unique(lat)
    if len(levels) < 2:
        return None
    middle = (levels[0] + levels[-1]) / 2.0
    above = min(max(int(levels.searchsorted(middle, "right")), 1), len(levels) - 1)
    level = (levels[above - 1] + levels[above]) / 2.0
    crossed = np.flatnonzero(is_edge & ((lat[:-1] > level) != (lat[1:] > level)))
    share = (level - lat[crossed]) / (lat[crossed + 1] - lat[crossed])
    at = np.sort(walked[crossed] + share * (walked[crossed + 1] - walked[crossed]))
    if len(at) < 2 or len(at) % 2:
        return None
    widest = 2 * int(np.argmax(at[1::2] - at[::2]))
    east = (at[widest] + at[widest + 1]) / 2.0
    return float((east + 180.0) % 360.0 - 180.0), float(level)


def longitude_steps(lon: Column) -> Column:
    """Return the degrees from each meridian to the next the shorter way, east positive."""
    step = np.diff(lon)
    return np.where(step > 180.0, step - 360.0, np.where(step < -180.0, step + 360.0, step))


def points_of(rings: Sequence[Points]) -> tuple[Column, npt.NDArray[np.int64]]:
    """Return the points of all rings, one after the other, and where each ring begins."""
    counts = np.array(list(map(len, rings)), np.int64)
    flat = chain.from_iterable(chain.from_iterable(rings))
    points = np.fromiter(flat, np.float64, 2 * int(counts.sum())).reshape(-1, 2)
    return points, np.cumsum(counts) - counts


def _kinds(points: Points) -> set[type] | None:
    """Return the types of the numbers of points; None if those are not pairs of plain numbers."""
    if set(map(type, points)) not in _PAIRS or set(map(len, points)) != {2}:
        return None
    kinds = set(map(type, chain.from_iterable(points)))
    return kinds if kinds <= _NUMBERS else None


def _columns(points: Points) -> Column | None:
    """Return the two columns of pairs of numbers; None if one of them is too large."""
    try:
        flat = np.fromiter(chain.from_iterable(points), np.float64, 2 * len(points))
    except OverflowError:
        return None
    return flat.reshape(-1, 2).T


def _pairs(points: Points, kinds: set[type]) -> tuple[tuple[float, float], ...]:
    if kinds == {float}:
        return tuple(map(tuple, points))  # type: ignore[arg-type]  # pairs, see `_columns`
    return tuple((float(x), float(y)) for x, y in points)
