"""Flat JSON objects parsed to columns, many payloads at once and without a value per member.

Most payloads are an object of a few numbers, strings and flags. A kernel reads these; any other
payload (nested, escaped, beyond ASCII, with more digits than a double has, a duplicate name, not
JSON at all) is left to `attributes_of`, so that the result is the same either way.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nearcast.core.compiled import compiled
from nearcast.core.model.context import Value
from nearcast.core.model.event_batch import (
    BOOLEAN,
    MISSING,
    NUMBER,
    STRING,
    AttributeColumns,
    carried,
    event_by_event,
)
from nearcast.core.model.payload import LARGEST_JSON_PAYLOAD, attributes_of

U8 = npt.NDArray[np.uint8]
I32 = npt.NDArray[np.int32]
F64 = npt.NDArray[np.float64]

MOST_MEMBERS = 64
"""Objects with more members are not read here: each name is compared with those before it."""
MOST_STEPS = 32
"""The limit of hash probes: longer chains are not chance, and must not pay off for an attacker."""
SHORTEST_WORD = 3
"""Bytes of a name or string with its quotes and what must precede it: `{""` or `:""`."""
MOST_BYTES = 1 << 24
"""Payloads with more bytes in total are read one by one: the tables would be larger than they are.
"""
LARGEST_EXACT = 1 << 53
HARD = -1
POWERS = np.array([10.0**n for n in range(23)])
"""The powers of ten that are exact doubles: with them a quotient or product is rounded once."""


def carried_by(data: U8, ends: I32) -> AttributeColumns:
    """Return attributes of payloads; payload i is `data[ends[i]]` to `data[ends[i + 1] - 1]`."""
    # The kernel is compiled once, for writable arrays.
    data, ends = np.require(data, requirements="W"), np.require(ends, requirements="W")
    count = len(ends) - 1
    lengths = np.diff(ends)
    read = int(lengths[lengths <= LARGEST_JSON_PAYLOAD].sum())
    if read > MOST_BYTES:
        return carried(_one_by_one(data, ends, range(count)))
    most = read // SHORTEST_WORD + 1
    room = 1 << (2 * most).bit_length()
    words: I32 = np.empty((2, most, 2), np.int32)
    first: I32 = np.zeros(count + 1, np.int32)
    hard: npt.NDArray[np.bool_] = np.zeros(count, np.bool_)
    name_of: I32 = np.empty(most, np.int32)
    kinds: U8 = np.empty(most, np.uint8)
    values: F64 = np.empty(most)
    found = read_flat(
        data, ends, np.zeros((2, room), np.int32), words, first, hard, name_of, kinds, values
    )
    left = np.flatnonzero(hard)
    if 2 * len(left) > count:
        return carried(_one_by_one(data, ends, range(count)))
    length = int(first[-1])
    names, strings = (
        [_text(data, *span).decode() for span in spans[:many].tolist()]
        for spans, many in zip(words, found, strict=True)
    )
    flat = AttributeColumns(
        names=names,
        strings=strings,
        first=first,
        name_of=name_of[:length],
        kinds=kinds[:length],
        values=values[:length],
    )
    if not len(left):
        return flat
    others = _one_by_one(data, ends, left.tolist())
    return _joined(flat, left, event_by_event(others, names, strings))


def _one_by_one(data: U8, ends: I32, which: Iterable[int]) -> list[dict[str, Value]]:
    return [attributes_of(_text(data, *ends[i : i + 2])) for i in which]


def _text(data: U8, start: int, end: int) -> bytes:
    return data[start:end].tobytes()


def _joined(
    flat: AttributeColumns, left: npt.NDArray[np.int64], others: AttributeColumns
) -> AttributeColumns:
    """Merge the columns of all payloads: those in `left` have no members in `flat`."""
    counts = np.diff(flat["first"])
    counts[left] = np.diff(others["first"])
    first: I32 = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    name_of, kinds, values = (np.empty(first[-1], form) for form in (np.int32, np.uint8, float))
    for part, starts in ((flat, first[:-1]), (others, first[left])):
        own = np.diff(part["first"])
        places = np.arange(part["first"][-1]) + np.repeat(starts - part["first"][:-1], own)
        name_of[places] = part["name_of"]
        kinds[places] = part["kinds"]
        values[places] = part["values"]
    return AttributeColumns(
        names=others["names"], strings=others["strings"], first=first, name_of=name_of,
        kinds=kinds, values=values,
    )  # fmt: skip


@compiled
def read_flat(
    data: U8,
    ends: I32,
    tables: I32,
    words: I32,
    first: I32,
    hard: npt.NDArray[np.bool_],
    name_of: I32,
    kinds: U8,
    values: F64,
) -> tuple[int, int]:
    """Parse payloads into columns; return the numbers of names and of strings.

    `words` receives the span of each name and string, `tables` must be all 0. Payloads that are not
    plain are marked `hard` and have no members.
    """
    name_table, string_table = tables[0], tables[1]
    name_words, string_words = words[0], words[1]
    written = names = strings = 0
    for p in range(len(ends) - 1):
        start, end = ends[p], ends[p + 1]
        first[p] = written
        if start == end or end - start > LARGEST_JSON_PAYLOAD:
            continue
        place = written
        i = _past_space(data, start, end)
        if i == end or data[i] != ord("{"):
            hard[p] = True
            continue
        i = _past_space(data, i + 1, end)
        going_on = not (i < end and data[i] == ord("}"))
        while going_on:
            # A name.
            name, i = _word(data, i, end, name_table, name_words, names)
            if i == HARD or place - written == MOST_MEMBERS:
                i = HARD
                break
            names = max(names, name + 1)
            for before in range(written, place):
                if name_of[before] == name:
                    name = HARD
            i = _past_space(data, i, end)
            if name == HARD or i == end or data[i] != ord(":"):
                i = HARD
                break
            i = _past_space(data, i + 1, end)
            # Its value.
            kind, value = MISSING, 0.0
            begin = data[i] if i < end else 0
            if begin == ord('"'):
                number, i = _word(data, i, end, string_table, string_words, strings)
                strings = max(strings, number + 1)
                kind, value = STRING, float(number)
            elif begin == ord("t"):
                kind, value = BOOLEAN, 1.0
                i = _past(data, i, end, b"true")
            elif begin == ord("f"):
                kind = BOOLEAN
                i = _past(data, i, end, b"false")
            elif begin == ord("n"):
                i = _past(data, i, end, b"null")
            else:
                kind = NUMBER
                value, i = _number(data, i, end)
            if i == HARD:
                break
            name_of[place], kinds[place], values[place] = name, kind, value
            place += 1
            # The separator after it.
            i = _past_space(data, i, end)
            follows = data[i] if i < end else 0
            if follows == ord(","):
                i = _past_space(data, i + 1, end)
            elif follows == ord("}"):
                going_on = False
            else:
                i = HARD
                break
        if i == HARD or _past_space(data, i + 1, end) != end:
            hard[p] = True
        else:
            written = place
    first[len(ends) - 1] = written
    return names, strings


@compiled
def _past_space(data: U8, i: int, end: int) -> int:
    while i < end and (data[i] == 32 or data[i] == 10 or data[i] == 13 or data[i] == 9):
        i += 1
    return i


@compiled
def _past(data: U8, i: int, end: int, word: bytes) -> int:
    """Return the offset after a word that must be here, else HARD."""
    if end - i < len(word):
        return HARD
    for k in range(len(word)):
        if data[i + k] != word[k]:
            return HARD
    return i + len(word)


@compiled
def _word(data: U8, i: int, end: int, table: I32, words: I32, known: int) -> tuple[int, int]:
    """Return the number of the plain quoted word at `i`, and the offset after it."""
    if i >= end or data[i] != ord('"'):
        return HARD, HARD
    start = i + 1
    i = start
    while i < end and data[i] != ord('"'):
        if data[i] < 0x20 or data[i] >= 0x80 or data[i] == ord("\\"):
            return HARD, HARD
        i += 1
    if i == end:
        return HARD, HARD
    number = _numbered(data, start, i, table, words, known)
    return number, HARD if number == HARD else i + 1


@compiled
def _numbered(data: U8, start: int, end: int, table: I32, words: I32, known: int) -> int:
    """Return the number of a word: that of an equal earlier one, or the next."""
    code = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        code = (code ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    code ^= code >> np.uint64(29)
    last = np.uint64(len(table) - 1)
    for step in range(MOST_STEPS):
        slot = (code + np.uint64(step)) & last
        number = int(table[slot]) - 1
        if number < 0:
            table[slot] = known + 1
            words[known, 0], words[known, 1] = start, end
            return known
        begin = words[number, 0]
        if words[number, 1] - begin == end - start:
            same = True
            for k in range(end - start):
                same &= data[begin + k] == data[start + k]
            if same:
                return number
    return HARD


@compiled
def _number(data: U8, i: int, end: int) -> tuple[float, int]:
    """Return the number at `i` and its end, if a double holds all its digits; else HARD."""
    negative = i < end and data[i] == ord("-")
    if negative:
        i += 1
    digits = tens = 0
    start = i
    while i < end and _is_digit(data[i]):
        digits = digits * 10 + (data[i] - 48)
        i += 1
        if digits > LARGEST_EXACT:
            return 0.0, HARD
    if i == start or (data[start] == ord("0") and i - start > 1):
        return 0.0, HARD
    if i < end and data[i] == ord("."):
        i += 1
        start = i
        while i < end and _is_digit(data[i]):
            digits = digits * 10 + (data[i] - 48)
            i += 1
            if digits > LARGEST_EXACT:
                return 0.0, HARD
        if i == start:
            return 0.0, HARD
        tens = start - i
    if i < end and (data[i] == ord("e") or data[i] == ord("E")):
        i += 1
        less = i < end and data[i] == ord("-")
        if less or (i < end and data[i] == ord("+")):
            i += 1
        start, power = i, 0
        while i < end and _is_digit(data[i]):
            power = min(power * 10 + (data[i] - 48), 1000)
            i += 1
        if i == start:
            return 0.0, HARD
        tens += -power if less else power
    if abs(tens) >= len(POWERS) or (negative and digits == 0):
        return 0.0, HARD
    value = float(digits)
    value = value / POWERS[-tens] if tens < 0 else value * POWERS[tens]
    return -value if negative else value, i


@compiled
def _is_digit(byte: int) -> bool:
    return byte >= 48 and byte <= 57
