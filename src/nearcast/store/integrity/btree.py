"""Rows of a SQLite database, read from its pages without SQLite.

SQLite reads on where a page was changed, as long as it makes sense. Here every row comes with the
pages that it lies on, so that rows on damaged pages can be named and left out. The format is
documented by SQLite.
"""

import struct
from collections.abc import Callable, Collection, Iterator

from msgspec import Struct

from nearcast.store.errors import CorruptError

_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x05, 0x0A, 0x02
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
SQLITE_HEADER_BYTES = 100
Value = None | int | float | str | bytes
ReadPage = Callable[[int], bytes]


class TreeRow(Struct, frozen=True):
    """A row of a table; `rowid` is None in tables without one."""

    rowid: int | None
    values: tuple[Value, ...]
    is_damaged: bool


class TreeDamage(Struct, frozen=True):
    """A page whose rows, or those below it, cannot be read."""

    page: int


class Tree:
    """A table of a database; `damaged` are pages that are not what was written."""

    def __init__(self, read_page: ReadPage, root: int, damaged: Collection[int]) -> None:
        self._read_page = read_page
        self._root = root
        self._damaged = damaged
        self.pages: set[int] = set()
        """The pages that were read, also those with long values."""

    def rows(self) -> Iterator[TreeRow | TreeDamage]:
        """Yield all rows in the order of their keys."""
        self.pages.clear()
        yield from self._below(self._root)

    def _below(self, number: int) -> Iterator[TreeRow | TreeDamage]:
        if number in self.pages:
            yield TreeDamage(number)
            return
        self.pages.add(number)
        try:
            page = _Page(self._read_page(number), number)
        except CorruptError:
            yield TreeDamage(number)
            return
        is_damaged = number in self._damaged
        if page.is_interior and is_damaged:
            # Where its pointers lead is not known any more.
            yield TreeDamage(number)
            return
        for at in page.cells:
            try:
                child, row = self._cell(page, at, is_damaged)
            except (CorruptError, struct.error, IndexError, UnicodeDecodeError):
                yield TreeDamage(number)
                continue
            if child is not None:
                yield from self._below(child)
            if row is not None:
                yield row
        if page.is_interior:
            yield from self._below(page.last_child)

    def _cell(self, page: "_Page", at: int, is_damaged: bool) -> tuple[int | None, TreeRow | None]:
        """Return the page below a cell, and the row in it."""
        data, child = page.data, None
        if page.is_interior:
            (child,) = struct.unpack_from(">I", data, at)
            at += 4
        if page.kind == _TABLE_INTERIOR:
            return child, None
        size, at = _varint(data, at)
        rowid = None
        if page.kind == _TABLE_LEAF:
            rowid, at = _varint(data, at)
        payload, is_whole = self._payload(page, at, size)
        return child, TreeRow(rowid, _record(payload), is_damaged or not is_whole)

    def _payload(self, page: "_Page", at: int, size: int) -> tuple[bytes, bool]:
        """Return the content of a cell with its overflow pages, and whether these are intact."""
        data, usable = page.data, page.usable
        most = usable - 35 if page.kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if size <= most:
            return _exactly(data[at : at + size], size), True
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        if local > most:
            local = least
        parts = [data[at : at + local]]
        (following,) = struct.unpack_from(">I", data, at + local)
        left, is_whole = size - local, True
        while left > 0:
            if following in self.pages:
                raise CorruptError(f"page {following} is used twice")
            self.pages.add(following)
            is_whole = is_whole and following not in self._damaged
            more = self._read_page(following)
            (following,) = struct.unpack_from(">I", more)
            parts.append(more[4 : 4 + min(left, usable - 4)])
            left -= len(parts[-1])
        return _exactly(b"".join(parts), size), is_whole


class _Page:
    """The header and the cells of a page."""

    def __init__(self, data: bytes, number: int) -> None:
        self.data = data
        start = SQLITE_HEADER_BYTES if number == 1 else 0
        self.kind = data[start]
        if self.kind not in (_TABLE_LEAF, _TABLE_INTERIOR, _INDEX_LEAF, _INDEX_INTERIOR):
            raise CorruptError(f"page {number} is none of a table")
        self.is_interior = self.kind in (_TABLE_INTERIOR, _INDEX_INTERIOR)
        (count,) = struct.unpack_from(">H", data, start + 3)
        first = start + (12 if self.is_interior else 8)
        if first + 2 * count > len(data):
            raise CorruptError(f"page {number} has no room for {count} cells")
        self.cells = struct.unpack_from(f">{count}H", data, first)
        self.last_child = 0
        if self.is_interior:
            (self.last_child,) = struct.unpack_from(">I", data, start + 8)
        # No bytes of a page are reserved.
        self.usable = len(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it."""
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >= 1 << 63 else value, at + 9


def _record(payload: bytes) -> tuple[Value, ...]:
    """Return the values of a record."""
    header_bytes, at = _varint(payload, 0)
    if header_bytes > len(payload):
        raise CorruptError("a row is shorter than its header says")
    values: list[Value] = []
    place = header_bytes
    while at < header_bytes:
        kind, at = _varint(payload, at)
        value, place = _value(payload, place, kind)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind == 7:
        (real,) = struct.unpack_from(">d", payload, at)
        return real, at + 8
    if kind < 7:
        size = _INTEGER_BYTES[kind]
        return int.from_bytes(
            _exactly(payload[at : at + size], size), "big", signed=True
        ), at + size
    if kind < 12:
        raise CorruptError(f"there is no value of kind {kind}")
    size = (kind - 12) // 2
    data = _exactly(payload[at : at + size], size)
    return (data.decode() if kind % 2 else data), at + size


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise CorruptError(f"{len(data)} bytes of {size} are left")
    return data
