"""A map of the city in cells of text: what each cell shows, to be coloured by the caller.

A cell is twice as high as it is wide, as in a terminal. The city keeps its proportions and is as
large as fits with all blocks of equal size. Later items cover earlier ones.
"""

import math

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.city import City, NamedPlace, metres

HEIGHT_OF_CELL = 2.0
"""As a multiple of a cell's width."""
GROUND = frozenset(("empty", "along", "up", "crossing", "place", "siren", "hazard ring"))


class CityMap:
    """A grid of looks, such as "street" or "bus"; "text:x" is the letter x of a label."""

    def __init__(self, city: City, width: int, height: int) -> None:
        self.city = city
        self._m_per_cell = _scale(city, width, height)
        # Whole cells, so that all streets are rounded the same way.
        self._west = round((width - 1 - city.width_m / self._m_per_cell) / 2.0)
        self._south = (
            height
            - 1
            - round((height - 1 - city.height_m / self._m_per_cell / HEIGHT_OF_CELL) / 2.0)
        )
        self.rows = [["empty"] * width for _ in range(height)]

    def lay_streets(self) -> None:
        """Draw the streets."""
        for row in range(self.city.rows):
            (west, y) = self.cell(self.city.position((0, row)))
            (east, _) = self.cell(self.city.position((self.city.columns - 1, row)))
            for x in range(west, east + 1):
                self._set(x, y, "along")
        for column in range(self.city.columns):
            (x, south) = self.cell(self.city.position((column, 0)))
            (_, north) = self.cell(self.city.position((column, self.city.rows - 1)))
            for y in range(north, south + 1):
                self._set(x, y, "crossing" if self._get(x, y) == "along" else "up")

    def lay_place(self, place: NamedPlace) -> None:
        """Draw a place, with its name in the middle as far as it fits."""
        west, south = self.cell(self.city.position(place.south_west))
        east, north = self.cell(self.city.position(place.north_east))
        for y in range(north, south + 1):
            for x in range(west, east + 1):
                self._set(x, y, "place")
        name = place.name[: max(east - west + 1, 0)]
        first = west + (east - west + 1 - len(name)) // 2
        for x, letter in enumerate(name, first):
            self._set(x, (north + south) // 2, f"text:{letter}")

    def put(self, position: Position, look: str, label: str = "") -> None:
        """Draw an item at a position, with a label to its right, or left if there is no space.

        A label covers only the ground and rings, so that nearby items stay visible.
        """
        x, y = self.cell(position)
        self._set(x, y, look)
        width = len(self.rows[0]) if self.rows else 0
        first = x + 1 if x + len(label) < width else x - len(label)
        for at, letter in enumerate(label, first):
            if self._get(at, y) in GROUND:
                self._set(at, y, f"text:{letter}")

    def ring(self, centre: Position, radius_m: float, look: str) -> None:
        """Draw a circle round a position, except over labels."""
        x0, y0 = self._fine(centre)
        across = radius_m / self._m_per_cell
        steps = max(8, int(2.0 * math.pi * across))
        for step in range(steps):
            angle = 2.0 * math.pi * step / steps
            x = round(x0 + across * math.cos(angle))
            y = round(y0 + across * math.sin(angle) / HEIGHT_OF_CELL)
            if not self._get(x, y).startswith("text:"):
                self._set(x, y, look)

    def cell(self, position: Position) -> tuple[int, int]:
        """Return the column and the row, from the top, of a position."""
        x, y = self._fine(position)
        return round(x), round(y)

    def _fine(self, position: Position) -> tuple[float, float]:
        east_m, north_m = metres(position)
        return (
            self._west + (east_m + self.city.width_m / 2.0) / self._m_per_cell,
            self._south - (north_m + self.city.height_m / 2.0) / self._m_per_cell / HEIGHT_OF_CELL,
        )

    def _set(self, x: int, y: int, look: str) -> None:
        if 0 <= y < len(self.rows) and 0 <= x < len(self.rows[y]):
            self.rows[y][x] = look

    def _get(self, x: int, y: int) -> str:
        inside = 0 <= y < len(self.rows) and 0 <= x < len(self.rows[y])
        return self.rows[y][x] if inside else "empty"


def _scale(city: City, width: int, height: int) -> float:
    """Return the metres in a cell's width: a block is some whole rows high, if it is one at all."""
    m_per_cell = max(
        city.width_m / max(width - 1, 1), city.height_m / HEIGHT_OF_CELL / max(height - 1, 1)
    )
    rows_per_block = math.floor(city.block_m / m_per_cell / HEIGHT_OF_CELL)
    return city.block_m / HEIGHT_OF_CELL / rows_per_block if rows_per_block else m_per_cell
