"""Which session has seen which live event: bits in pages, which kernels read, and the reverse.

A session has a page for each run of `PAGE_ROWS` rows of live events among which it has seen one.
Pages and numbers of sessions are reused when nothing is left in them. The reverse lists the
sessions of each event, but for those that saw very many at once: their bits are looked up.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.matching.tables import I32, I64, NONE, enough, resized

PAGE_BITS = 9
PAGE_ROWS = 1 << PAGE_BITS
MOST_LISTED = 2_000
"""A session that sees more events than this at once is not listed with each of them."""
_WORDS = PAGE_ROWS // 64

U64 = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]


class SeenArrays(NamedTuple):
    """Pages of bits, and the page of each session and run of rows, plus one; 0: none."""

    page_of: I32  # (sessions, runs)
    bits: U64  # (pages, words)


class SeenTable:
    """Pairs of a live event, by its row, and a session that has seen it."""

    def __init__(self, most_listed: int = MOST_LISTED) -> None:
        self._most_listed = most_listed
        self.arrays = SeenArrays(np.zeros((16, 1), np.int32), np.zeros((16, _WORDS), np.uint64))
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._free: list[int] = []
        self._free_pages: list[int] = []
        self._pages_made = 0
        self._seen_by: dict[int, int | tuple[int, int] | set[int]] = {}
        """By row, the numbers of the listed sessions: one, two or more."""
        self._unlisted: I32 = np.zeros(0, np.int32)
        """The numbers of sessions that are not listed."""
        self._is_listed = np.ones(16, np.bool_)
        """By session."""
        self._counts = np.zeros(16, np.int64)
        """By session, how many events it has seen."""

    def number(self, session: str) -> int:
        """The number of a session that has seen anything, else NONE."""
        return self._numbers.get(session, NONE)

    def numbers(self, sessions: Iterable[str]) -> I32:
        """The numbers of sessions, NONE for those that have seen nothing."""
        get = self._numbers.get
        return np.array([get(session, NONE) for session in sessions], np.int32)

    def has(self, row: int, session: str) -> bool:
        """Return whether a session has seen an event."""
        return self.number(session) in self._of(row)

    def sessions(self, row: int) -> set[str]:
        """The sessions that have seen an event."""
        return {self._names[number] for number in self._of(row)}

    def rows(self, session: str) -> list[int]:
        """The rows of the events that a session has seen."""
        number = self.number(session)
        if number == NONE:
            return []
        found: list[int] = _rows_in(self.arrays, number, int(self._counts[number])).tolist()
        return found

    def mark(self, rows: I32, sessions: Sequence[str]) -> None:
        """Record pairs of the row of an event and a session that has seen it."""
        if len(rows):
            numbers = np.array([self._acquire(each) for each in sessions], np.int32)
            self._mark(rows, numbers)
            listed = self._is_listed[numbers]
            pairs = zip(rows[listed].tolist(), numbers[listed].tolist(), strict=True)
            for row, number in pairs:
                self._note(row, number)

    def mark_for(self, rows: I32, session: str) -> None:
        """Record that one session has seen events."""
        if len(rows):
            number = self._acquire(session)
            self._make_room(int(rows.max()), number)
            if len(rows) > self._most_listed and self._is_listed[number]:
                self._unlist(number)
            self._mark(rows, np.full(len(rows), number, np.int32))
            if self._is_listed[number]:
                for row in rows.tolist():
                    self._note(row, number)

    def _mark(self, rows: I32, numbers: I32) -> None:
        self._make_room(int(rows.max()), int(numbers.max()))
        lacking = _without_page(self.arrays, rows, numbers)
        runs = self.arrays.page_of.shape[1]
        places = numbers[lacking].astype(np.int64) * runs + (rows[lacking] >> PAGE_BITS)
        for place in np.unique(places).tolist():
            self.arrays.page_of[divmod(place, runs)] = self._new_page()
        _set_bits(self.arrays, rows, numbers, self._counts)

    def _note(self, row: int, number: int) -> None:
        seen_by = self._seen_by
        before = seen_by.setdefault(row, number)
        if isinstance(before, set):
            before.add(number)
        elif isinstance(before, int):
            if before != number:
                seen_by[row] = (before, number)
        elif number not in before:
            seen_by[row] = {*before, number}

    def unmark(self, row: int, session: str) -> None:
        """Forget that a session has seen an event."""
        self.unmark_for(np.array([row], np.int32), session)

    def unmark_for(self, rows: I32, session: str) -> None:
        """Forget that a session has seen distinct events."""
        number = self.number(session)
        if number == NONE or not len(rows):
            return
        numbers = np.full(len(rows), number, np.int32)
        rows = rows[~_unseen(self.arrays, rows, numbers)]
        if self._is_listed[number]:
            for row in rows.tolist():
                self._discard(row, number)
        self._clear(rows, numbers[: len(rows)])

    def forget_event(self, row: int) -> None:
        """Forget who has seen an event: its row becomes that of another."""
        if row in self._seen_by or len(self._unlisted):
            self.forget_events((row,))

    def forget_events(self, rows: Sequence[int]) -> None:
        """Forget who has seen distinct events."""
        gone: list[int] = []
        numbers: list[int] = []
        for row in rows:
            by = self._of(row)
            gone += [row] * len(by)
            numbers += by
            self._seen_by.pop(row, None)
        if gone:
            self._clear(np.array(gone, np.int32), np.array(numbers, np.int32))

    def forget_session(self, session: str) -> None:
        """Forget what a session has seen."""
        number = self.number(session)
        if number == NONE:
            return
        if self._is_listed[number]:
            for row in self.rows(session):
                self._discard(row, number)
        pages = self.arrays.page_of[number]
        for page in pages[pages > 0].tolist():
            self.arrays.bits[page - 1] = 0
            self._free_pages.append(page)
        pages[:] = 0
        self._release(number)

    def unseen(self, rows: I32, sessions: I32) -> Flags:
        """Return which pairs of a row and the number of a session are not recorded."""
        return _unseen(self.arrays, rows, sessions)

    def _of(self, row: int) -> Collection[int]:
        """The numbers of the sessions that have seen an event."""
        found = self._seen_by.get(row, ())
        listed = (found,) if isinstance(found, int) else found
        if not len(self._unlisted):
            return listed
        unseen = _unseen(self.arrays, np.full(len(self._unlisted), row, np.int32), self._unlisted)
        return [*listed, *self._unlisted[~unseen].tolist()]

    def _unlist(self, number: int) -> None:
        """Look up the bits of a session from now on."""
        for row in _rows_in(self.arrays, number, int(self._counts[number])).tolist():
            self._discard(row, number)
        self._is_listed[number] = False
        self._unlisted = np.append(self._unlisted, np.int32(number))

    def _discard(self, row: int, number: int) -> None:
        found = self._seen_by[row]
        if isinstance(found, set) and len(found) > 1:
            found.discard(number)
        elif isinstance(found, tuple):
            self._seen_by[row] = found[0] if found[1] == number else found[1]
        else:
            del self._seen_by[row]

    def _clear(self, rows: I32, numbers: I32) -> None:
        freed = _clear_bits(self.arrays, rows, numbers, self._counts)
        self._free_pages.extend(freed[freed > 0].tolist())
        for number in set(numbers[self._counts[numbers] == 0].tolist()):
            self._release(number)

    def _acquire(self, session: str) -> int:
        number = self._numbers.get(session)
        if number is None:
            number = self._free.pop() if self._free else len(self._names)
            if number == len(self._names):
                self._names.append("")
            self._names[number] = session
            self._numbers[session] = number
        return number

    def _release(self, number: int) -> None:
        del self._numbers[self._names[number]]
        self._names[number], self._counts[number] = "", 0
        if not self._is_listed[number]:
            self._is_listed[number] = True
            self._unlisted = self._unlisted[self._unlisted != number]
        self._free.append(number)

    def _make_room(self, row: int, number: int) -> None:
        page_of = self.arrays.page_of
        sessions, runs = page_of.shape
        page_of = resized(page_of, enough(sessions, number + 1))
        page_of = resized(page_of, enough(runs, (row >> PAGE_BITS) + 1), axis=1)
        self.arrays = self.arrays._replace(page_of=page_of)
        self._counts = resized(self._counts, len(page_of))
        more = len(page_of) - len(self._is_listed)
        self._is_listed = np.append(self._is_listed, np.ones(more, np.bool_))

    def _new_page(self) -> int:
        if self._free_pages:
            return self._free_pages.pop()
        self._pages_made += 1
        bits = self.arrays.bits
        self.arrays = self.arrays._replace(bits=resized(bits, enough(len(bits), self._pages_made)))
        return self._pages_made


@compiled
def is_seen(seen: SeenArrays, row: int, session: int) -> bool:
    """Return whether a session, by its number or NONE, has seen the event of a row."""
    run = row >> PAGE_BITS
    if session < 0 or session >= seen.page_of.shape[0] or run >= seen.page_of.shape[1]:
        return False
    page = seen.page_of[session, run]
    if page == 0:
        return False
    word = seen.bits[page - 1, (row & (PAGE_ROWS - 1)) >> 6]
    return bool((word >> np.uint64(row & 63)) & np.uint64(1))


@compiled
def _unseen(seen: SeenArrays, rows: I32, sessions: I32) -> Flags:
    found = np.empty(len(rows), np.bool_)
    for i in range(len(rows)):
        found[i] = not is_seen(seen, rows[i], sessions[i])
    return found


@compiled
def _without_page(seen: SeenArrays, rows: I32, sessions: I32) -> Flags:
    found = np.empty(len(rows), np.bool_)
    for i in range(len(rows)):
        found[i] = seen.page_of[sessions[i], rows[i] >> PAGE_BITS] == 0
    return found


@compiled
def _set_bits(seen: SeenArrays, rows: I32, sessions: I32, counts: I64) -> None:
    for i in range(len(rows)):
        row, session = rows[i], sessions[i]
        if not is_seen(seen, row, session):
            page = seen.page_of[session, row >> PAGE_BITS] - 1
            word = (row & (PAGE_ROWS - 1)) >> 6
            seen.bits[page, word] |= np.uint64(1) << np.uint64(row & 63)
            counts[session] += 1


@compiled
def _clear_bits(seen: SeenArrays, rows: I32, sessions: I32, counts: I64) -> I32:
    """Clear bits that are set; return for each the page that is empty now, else 0."""
    freed = np.zeros(len(rows), np.int32)
    for i in range(len(rows)):
        row, session = rows[i], sessions[i]
        run = row >> PAGE_BITS
        word = (row & (PAGE_ROWS - 1)) >> 6
        page = seen.page_of[session, run]
        seen.bits[page - 1, word] &= ~(np.uint64(1) << np.uint64(row & 63))
        counts[session] -= 1
        if not seen.bits[page - 1].any():
            seen.page_of[session, run] = 0
            freed[i] = page
    return freed


@compiled
def _rows_in(seen: SeenArrays, session: int, most: int) -> I32:
    found = np.empty(most, np.int32)
    count = 0
    for run in range(seen.page_of.shape[1]):
        page = seen.page_of[session, run]
        if page == 0:
            continue
        for bit in range(PAGE_ROWS):
            if (seen.bits[page - 1, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
                found[count] = (run << PAGE_BITS) + bit
                count += 1
    return found
