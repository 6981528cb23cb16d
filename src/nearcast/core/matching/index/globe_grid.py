"""The globe in cells: rows of equal latitude, each cut into columns of about equal width.

There is one grid per *class*. Class c serves everything that reaches at most `64 * 2**c` metres,
with cells twice that wide, so everything within reach of a point is found in about two rows of two
columns. Columns wrap at the antimeridian, and rows near a pole have few columns, so neither is a
special case.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled

CLASSES = 18
SMALLEST_REACH_M = 64.0
WIDE = CLASSES
"""The class of areas that reach farther than any grid: one cell for the whole globe."""

_METRES_PER_DEGREE_MIN = 110_570.0
_SMALLEST_RADIUS_M = 6_335_000.0
_SLACK = 1.01

REACH_M = SMALLEST_REACH_M * 2.0 ** np.arange(CLASSES)
ROWS = np.maximum(1, np.floor(180.0 * 111_000.0 / (2.0 * REACH_M))).astype(np.int64)
FIRST_ROW = np.concatenate([[0], np.cumsum(ROWS)[:-1]])


@cache
def columns_per_row() -> npt.NDArray[np.int32]:
    """The number of columns of every row of every class, concatenated; not to be changed."""
    tables = []
    for rows in ROWS:
        latitude = -90.0 + (np.arange(rows) + 0.5) * (180.0 / rows)
        tables.append(np.maximum(1.0, 2.0 * rows * np.cos(np.radians(latitude))))
    return np.concatenate(tables).astype(np.int32)


@compiled
def class_of(reach_m: float) -> int:
    """Return the smallest class that serves a reach, or WIDE."""
    reach = SMALLEST_REACH_M
    for c in range(CLASSES):
        if reach_m <= reach:
            return c
        reach *= 2.0
    return WIDE


@compiled
def row_of(c: int, lat: float) -> int:
    """Return the row of a class that contains a latitude."""
    rows = ROWS[c]
    row = int((lat + 90.0) / 180.0 * rows)
    return int(min(max(row, 0), rows - 1))


@compiled
def code_of(columns: npt.NDArray[np.int32], c: int, lat: float, lon: float) -> int:
    """Return the cell of a class that contains a position, as one integer."""
    if c >= CLASSES:
        return 0
    row = row_of(c, lat)
    n = columns[FIRST_ROW[c] + row]
    column = int((lon + 180.0) / 360.0 * n)
    return int((row << 32) | (column % n))


@compiled
def half_widths(lat: float, reach_m: float) -> tuple[float, float]:
    """Return degrees of latitude and longitude that contain everything within reach."""
    angle = reach_m * _SLACK / _SMALLEST_RADIUS_M
    d_lat = reach_m * _SLACK / _METRES_PER_DEGREE_MIN + 1e-9
    if angle >= 1.5 or abs(lat) + d_lat >= 90.0:
        return d_lat, 180.0
    ratio = np.sin(angle) / np.cos(np.radians(lat))
    if ratio >= 1.0:
        return d_lat, 180.0
    return d_lat, np.degrees(np.arcsin(ratio)) * _SLACK + 1e-9


@compiled
def row_span(c: int, lat: float, d_lat: float) -> tuple[int, int]:
    """Return first and last row of a class within a latitude's half-width."""
    return row_of(c, lat - d_lat), row_of(c, lat + d_lat)


@compiled
def column_span(n: int, lon: float, d_lon: float) -> tuple[int, int]:
    """Return first column and number of columns, out of n, within a longitude's half-width.

    The first may be outside 0..n-1: take columns modulo n.
    """
    if d_lon >= 180.0:
        return 0, n
    scale = n / 360.0
    first = int(np.floor((lon - d_lon + 180.0) * scale))
    last = int(np.floor((lon + d_lon + 180.0) * scale))
    return first, min(last - first + 1, n)


@compiled
def cells_within(
    columns: npt.NDArray[np.int32],
    c: int,
    lat: float,
    lon: float,
    reach_m: float,
    codes: npt.NDArray[np.int64],
    most: int,
) -> int:
    """Write the codes of cells within reach of a position; return how many, -1 if over `most`."""
    d_lat, d_lon = half_widths(lat, reach_m)
    first_row, last_row = row_span(c, lat, d_lat)
    n = 0
    for row in range(first_row, last_row + 1):
        across = columns[FIRST_ROW[c] + row]
        first, count = column_span(across, lon, d_lon)
        if n + count > most:
            return -1
        for k in range(count):
            codes[n] = (np.int64(row) << 32) | ((first + k) % across)
            n += 1
    return n
