"""Well-known text: POLYGON and MULTIPOLYGON, in any case, parsed in one pass.

Every error in the text gives its offset and what was expected there.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from nearcast.core.model.errors import MisreadError, ModelError
from nearcast.core.model.geometry.area import MultiPolygon, Polygon
from nearcast.core.model.geometry.position import parse_number, shown
from nearcast.core.model.geometry.rings import LARGEST_VERTEX_COUNT, Ring

_TOKEN = re.compile(r"\s*([(),]|[^\s(),]+)?")

Part = TypeVar("Part")


def parse_wkt(text: str) -> Polygon | MultiPolygon:
    """Return the polygon or multipolygon that the text describes, or raise `ModelError`."""
    reader = _WktReader(text)
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

    def __init__(self, text: str) -> None:
        self._text = text
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
        return tuple(self.bracketed(self._point))

    def _point(self) -> tuple[float, float]:
        self._points += 1
        if self._points > LARGEST_VERTEX_COUNT:
            raise ModelError(f"an area has at most {LARGEST_VERTEX_COUNT} points; simplify it")
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
