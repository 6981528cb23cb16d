"""Well-known text: POLYGON and MULTIPOLYGON, in any case, parsed in one pass.

Every error in the text gives its offset and what was expected there.
"""

import re
from collections.abc import Callable
from itertools import chain
from math import isfinite
from typing import TypeVar

from nearcast.core.model.errors import MisreadError, ModelError
from nearcast.core.model.geometry.area import MultiPolygon, Polygon
from nearcast.core.model.geometry.position import parse_number, shown
from nearcast.core.model.geometry.rings import LARGEST_VERTEX_COUNT, Ring

_TOKEN = re.compile(r"\s*([(),]|[^\s(),]+)?")

Part = TypeVar("Part")


def parse_wkt(text: str, largest: int = LARGEST_VERTEX_COUNT) -> Polygon | MultiPolygon:
    """Return the polygon or multipolygon, of `largest` points at most, that the text describes."""
    reader = _WktReader(text, largest)
    word = reader.take().upper()
    if reader.token.upper() in ("Z", "M", "ZM"):
        raise ModelError("points are two numbers, LON LAT; leave out heights and measures")
    if reader.token.upper() == "EMPTY":
        raise ModelError(f"an empty {word} holds nobody; leave the area out instead")
    area: Polygon | MultiPolygon
    if word == "POLYGON":
        area = reader.polygon()
    elif word == "MULTIPOLYGON":
        area = MultiPolygon(tuple(reader.bracketed(reader.polygon)))
    else:
        raise ModelError(f"{shown(word)} is not POLYGON or MULTIPOLYGON")
    if reader.token:
        raise reader.expected("the end")
    return area


class _WktReader:
    """Holds the next token; one method per level of brackets."""

    def __init__(self, text: str, largest: int) -> None:
        self._text = text
        self._largest = largest
        self._end = 0
        self._points = 0
        self.token = ""
        self.take()

    def take(self) -> str:
        """Return the next token and advance past it."""
        taken = self.token
        found = _TOKEN.match(self._text, self._end)
        assert found is not None
        self.token = found.group(1) or ""
        self._end = found.end()
        return taken

    def polygon(self) -> Polygon:
        return Polygon(tuple(self.bracketed(self._ring)))

    def bracketed(self, read: Callable[[], Part]) -> list[Part]:
        """Return the parts of a bracketed list, each read by `read`."""
        self._take_exactly("(")
        parts = [read()]
        while self.token == ",":
            self.take()
            parts.append(read())
        self._take_exactly(")")
        return parts

    def expected(self, what: str) -> ModelError:
        found = shown(self.token) if self.token else "the end"
        return self._misread(f"expected {what}, found {found}")

    def _misread(self, message: str) -> MisreadError:
        return MisreadError(message, self._text, self._end - len(self.token))

    def _ring(self) -> Ring:
        end = self._text.find(")", self._end) if self.token == "(" else -1
        ring = None if end < 0 else _usual_ring(self._text[self._end : end])
        if ring is None:
            return tuple(self.bracketed(self._point))
        self._count(len(ring))
        self._end = end + 1
        self.take()
        return ring

    def _count(self, points: int) -> None:
        self._points += points
        if self._points > self._largest:
            raise ModelError(f"an area has at most {self._largest} points; simplify it")

    def _point(self) -> tuple[float, float]:
        self._count(1)
        point = self._number("longitude"), self._number("latitude")
        if self.token not in (",", ")"):
            raise self.expected("',' or ')' after the two numbers LON LAT of a point")
        return point

    def _number(self, what: str) -> float:
        if self.token in ("", "(", ")", ","):
            raise self.expected(f"a {what} (a point is two numbers, LON LAT)")
        try:
            number = parse_number(self.token, what)
        except ModelError as error:
            raise self._misread(str(error)) from None
        self.take()
        return number

    def _take_exactly(self, bracket: str) -> None:
        if self.token != bracket:
            raise self.expected(f"'{bracket}'")
        self.take()


def _usual_ring(text: str) -> Ring | None:
    """Return the points of a ring in its common form; None: read it token by token."""
    if not text.isascii() or "_" in text or "(" in text:
        return None
    pairs = [point.split() for point in text.split(",")]
    if set(map(len, pairs)) != {2}:
        return None
    try:
        ring = tuple([(float(lon), float(lat)) for lon, lat in pairs])
    except ValueError:
        return None
    return ring if all(map(isfinite, chain.from_iterable(ring))) else None
