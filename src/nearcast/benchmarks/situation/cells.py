"""A grid over the city: which cells someone must listen to who wants all within a radius.

That is what one does with a broker that knows topics only: an event goes to the topic of its
cell, and whoever moves keeps subscribed to all cells that its circle touches. The cells are
looked up by a small box that holds the position, so a move mostly costs two divisions.
"""

from collections import Counter
from collections.abc import Sequence

from nearcast.benchmarks.city import M_PER_LAT, M_PER_LON, SOUTH, WEST
from nearcast.benchmarks.situation.city import Round

Cell = tuple[int, int]
BOXES = 8
"""So many boxes along the side of a cell."""
SLACK = 1.01
"""The grid is flat and the Earth is not: cells are looked for a little beyond the radius."""


class Cells:
    """Square cells, and for every box in one the cells that may be within reach of it."""

    def __init__(self, cell_m: float, radius_m: float) -> None:
        self.cell_m = cell_m
        self._box_m = cell_m / BOXES
        self._reach = [
            [_within_reach(column, row, cell_m, radius_m * SLACK) for row in range(BOXES)]
            for column in range(BOXES)
        ]

    def box(self, lat: float, lon: float) -> Cell:
        """The box that holds a position: as long as it is the same, so are the cells."""
        return (
            int((lon - WEST) * M_PER_LON // self._box_m),
            int((lat - SOUTH) * M_PER_LAT // self._box_m),
        )

    def cell(self, lat: float, lon: float) -> Cell:
        """The cell that holds a position."""
        return (
            int((lon - WEST) * M_PER_LON // self.cell_m),
            int((lat - SOUTH) * M_PER_LAT // self.cell_m),
        )

    def around(self, box: Cell) -> set[Cell]:
        """The cells that someone in a box must listen to."""
        column, inner_column = divmod(box[0], BOXES)
        row, inner_row = divmod(box[1], BOXES)
        reach = self._reach[inner_column][inner_row]
        return {(column + x, row + y) for x, y in reach}


def arrivals(cells: Cells, one: Round, kinds: Sequence[int] | None) -> int:
    """How many messages of a round arrive, wanted or not; with `kinds` in the topics, too."""
    listeners: Counter[tuple[Cell, int]] = Counter()
    for mover, (lat, lon) in enumerate(zip(one.lat, one.lon, strict=True)):
        kind = 0 if kinds is None else kinds[mover]
        for cell in cells.around(cells.box(lat, lon)):
            listeners[cell, kind] += 1
    count = 0
    for mover, kind in zip(one.publishers, one.kinds, strict=True):
        cell = cells.cell(one.lat[mover], one.lon[mover])
        topic = kind if kinds is not None else 0
        # Nobody gets its own.
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
    """How far apart two intervals are."""
    return max(0.0, other - start - length, start - other - other_length)
