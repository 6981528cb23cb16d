"""A grid over the city: the cells that a client must subscribe to for all events within a radius.

This is the usual solution with a broker that supports only topics: an event is published to the
topic of its cell, and a moving client stays subscribed to all cells that its circle touches. The
cells are looked up by a small box that contains the position, so most moves cost two divisions.
"""

from collections import Counter
from collections.abc import Sequence

from nearcast.benchmarks.city import M_PER_LAT, M_PER_LON, SOUTH, WEST
from nearcast.benchmarks.situation.city import Round

Cell = tuple[int, int]
BOXES = 8
"""Number of boxes along the side of a cell."""
SLACK = 1.01
"""Factor by which the radius is enlarged, because the grid is flat and the Earth is not."""


class Cells:
    """Square cells, and for every box of a cell the cells that may be within the radius."""

    def __init__(self, cell_m: float, radius_m: float) -> None:
        self.cell_m = cell_m
        self._box_m = cell_m / BOXES
        self._reach = [
            [_within_reach(column, row, cell_m, radius_m * SLACK) for row in range(BOXES)]
            for column in range(BOXES)
        ]

    def box(self, lat: float, lon: float) -> Cell:
        """The box that contains a position; the cells to subscribe to depend only on the box."""
        return (
            int((lon - WEST) * M_PER_LON // self._box_m),
            int((lat - SOUTH) * M_PER_LAT // self._box_m),
        )

    def cell(self, lat: float, lon: float) -> Cell:
        """The cell that contains a position."""
        return (
            int((lon - WEST) * M_PER_LON // self.cell_m),
            int((lat - SOUTH) * M_PER_LAT // self.cell_m),
        )

    def around(self, box: Cell) -> set[Cell]:
        """The cells to subscribe to for a position in a box."""
        column, inner_column = divmod(box[0], BOXES)
        row, inner_row = divmod(box[1], BOXES)
        reach = self._reach[inner_column][inner_row]
        return {(column + x, row + y) for x, y in reach}


def arrivals(cells: Cells, one: Round, kinds: Sequence[int] | None) -> int:
    """Number of deliveries in a round, useful or not; pass `kinds` if topics contain the kind."""
    listeners: Counter[tuple[Cell, int]] = Counter()
    for mover, (lat, lon) in enumerate(zip(one.lat, one.lon, strict=True)):
        kind = 0 if kinds is None else kinds[mover]
        for cell in cells.around(cells.box(lat, lon)):
            listeners[cell, kind] += 1
    count = 0
    for mover, kind in zip(one.publishers, one.kinds, strict=True):
        cell = cells.cell(one.lat[mover], one.lon[mover])
        topic = kind if kinds is not None else 0
        # A publisher does not receive its own event.
        count += listeners[cell, topic] - (kinds is None or kinds[mover] == kind)
    return count


def _within_reach(column: int, row: int, cell_m: float, radius_m: float) -> list[Cell]:
    most = int(radius_m // cell_m) + 1
    steps = range(-most, most + 1)
    box_m = cell_m / BOXES
    return [
        (x, y)
        for x in steps
        for y in steps
        if _gap(column * box_m, box_m, x * cell_m, cell_m) ** 2
        + _gap(row * box_m, box_m, y * cell_m, cell_m) ** 2
        <= radius_m**2
    ]


def _gap(start: float, length: float, other: float, other_length: float) -> float:
    """The distance between two intervals."""
    return max(0.0, other - start - length, start - other - other_length)
