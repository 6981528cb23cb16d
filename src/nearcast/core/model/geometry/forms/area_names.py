"""Names in areas: node ids and places, percent-encoded so that they can contain commas and slashes.

`NAME`, `KIND/NAME` and `here/KIND` may follow `place:`; spaces may stay unescaped.
"""

import re
from urllib.parse import quote, unquote

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.area import HERE, PlaceArea, PlaceHere
from nearcast.core.model.geometry.position import shown

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_place(text: str) -> PlaceArea | PlaceHere:
    """Return the place of NAME, KIND/NAME or here/KIND."""
    first, slash, rest = text.partition("/")
    if not slash:
        if first == HERE:
            return PlaceHere("")
        return PlaceArea(unescaped(first))
    if first == HERE:
        return PlaceHere(unescaped(rest))
    if not first or not rest:
        raise ModelError(f"{shown(f'place:{text}')} lacks a kind or a name; write place:KIND/NAME")
    return PlaceArea(unescaped(rest), unescaped(first))


def place_text(place: PlaceArea | PlaceHere) -> str:
    """Return the text that `parse_place` reads back."""
    if isinstance(place, PlaceHere):
        return f"{HERE}/{escaped(place.kind)}"
    if place.kind is not None:
        return f"{escaped(place.kind)}/{escaped(place.name)}"
    return escaped(place.name)


def unescaped(text: str) -> str:
    """Return percent-encoded text decoded, or raise `ModelError` if it is malformed."""
    stripped = text.strip()
    if _BAD_ESCAPE.search(stripped):
        raise ModelError(f"{shown(text)} has a % that escapes nothing; write %25 for a %")
    try:
        return unquote(stripped, errors="strict")
    except UnicodeDecodeError:
        raise ModelError(f"{shown(text)} does not decode to UTF-8") from None


def escaped(text: str) -> str:
    """Return text with all characters percent-encoded that could end a field."""
    # Text is stripped before it is read, so spaces at the ends need an escape.
    if text != text.strip():
        return quote(text, safe="")
    return quote(text, safe=" '()&!*@=+$")
