"""JSON as columns: lists of like objects become columns of like values, then zstd.

`encode_columns` returns None where decoding would not give back the same bytes, such as JSON with
blanks: what is sent this way always arrives as it was.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from nearcast.wire.encoding.budget import LARGEST_DECODED, Budget
from nearcast.wire.encoding.byte_streams import ByteReader, ByteWriter
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.encoding.integer_columns import (
    LARGEST,
    SMALLEST,
    read_integers,
    write_integers,
)
from nearcast.wire.encoding.text_columns import read_texts, write_texts
from nearcast.wire.encoding.zstd_frames import compress_bare, decompress_bare

_JSON, _CONSTANT, _DISTINCT, _MIXED, _INTEGERS, _DECIMALS, _DOUBLES, _TEXTS = range(8)
_TUPLES, _LISTS, _OBJECTS = range(8, 11)
_DEEPEST = 48
_LONGEST_TUPLE = 16
_MOST_DIGITS = 15
_EXACT = 1 << 53
USUAL_NAMES = (
    b'["speed","hazards"]["lat","lon"]["type","coordinates"]["name","value"]["id","text"]'
    b'["people","first","last","count","place"]["people","first","last","count","cell"]'
    b'["id","publisher","time"]["id","publisher","time","attributes"]["mean","min","max"]'
    b'["id","publisher","time","position","attributes"]'
    b'["people","first","last","count","attributes","events"]'
)
"""What zstd knows before the first byte: part of the coding, so it never changes."""

T = TypeVar("T")


def encode_columns(payload: bytes) -> bytes | None:
    """Return JSON as compressed columns; None if it would not come back unchanged."""
    try:
        value = msgspec.json.decode(payload)
        if msgspec.json.encode(value) != payload:
            return None
        out = ByteWriter()
        _write_column(out, [value], 0)
        encoded = compress_bare(out.result(), USUAL_NAMES)
        return encoded if decode_columns(encoded) == payload else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, DecodingError):
        return None


def decode_columns(data: bytes, most: int = LARGEST_DECODED) -> bytes:
    """Return the JSON that was encoded; raise `DecodingError` if there is none."""
    reader = ByteReader(decompress_bare(data, USUAL_NAMES, most))
    values = _read_column(reader, 1, Budget(most), 0)
    if reader.left:
        raise DecodingError(f"{reader.left} bytes are left after the last column")
    try:
        payload = msgspec.json.encode(values[0])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise DecodingError(f"the columns are no JSON: {error}") from None
    if len(payload) > most:
        raise DecodingError(f"the payload would exceed {most} bytes when decoded")
    return payload


def _write_column(out: ByteWriter, values: Sequence[object], depth: int) -> None:
    if depth > _DEEPEST:
        raise DecodingError("the JSON is nested too deeply")
    kinds = {type(value) for value in values}
    if len(values) > 1 and not kinds & {dict, list}:
        texts = [msgspec.json.encode(value) for value in values]
        distinct = list(dict.fromkeys(texts))
        if len(distinct) == 1:
            out.byte(_CONSTANT)
            out.text(distinct[0])
            return
        if 2 * len(distinct) <= len(values) and kinds != {int} and kinds != {float}:
            places = {text: place for place, text in enumerate(distinct)}
            out.byte(_DISTINCT)
            out.number(len(distinct))
            _write_column(out, [msgspec.json.decode(text) for text in distinct], depth + 1)
            write_integers(out, [places[text] for text in texts])
            return
    if len(kinds) > 1 and kinds & {dict, list, str, int, float}:
        _write_mixed(out, values, depth)
    else:
        _write_alike(out, values, kinds.pop() if kinds else None, depth)


def _write_alike(out: ByteWriter, values: Sequence[object], kind: type | None, depth: int) -> None:
    """Write values of one type."""
    if kind is dict:
        _write_objects(out, cast(Sequence[Mapping[str, object]], values), depth)
    elif kind is list:
        _write_lists(out, cast(Sequence[list[object]], values), depth)
    elif kind is str:
        out.byte(_TEXTS)
        write_texts(out, cast(Sequence[str], values))
    elif kind is float:
        _write_floats(out, cast(Sequence[float], values))
    elif kind is int and all(SMALLEST <= cast(int, value) <= LARGEST for value in values):
        out.byte(_INTEGERS)
        write_integers(out, cast(Sequence[int], values))
    else:
        out.byte(_JSON)
        for value in values:
            out.text(msgspec.json.encode(value))


def _write_mixed(out: ByteWriter, values: Sequence[object], depth: int) -> None:
    kinds = list(dict.fromkeys(type(value) for value in values))
    out.byte(_MIXED)
    out.number(len(kinds))
    write_integers(out, [kinds.index(type(value)) for value in values])
    for kind in kinds:
        _write_column(out, [value for value in values if type(value) is kind], depth + 1)


def _write_floats(out: ByteWriter, values: Sequence[float]) -> None:
    for digits in range(_MOST_DIGITS + 1):
        scale = 10**digits
        if any(abs(value) * scale >= _EXACT for value in values):
            break
        scaled = [round(value * scale) for value in values]
        if all(
            each / scale == value and (each or str(value) == "0.0")
            for each, value in zip(scaled, values, strict=True)
        ):
            out.byte(_DECIMALS)
            out.byte(digits)
            write_integers(out, scaled)
            return
    out.byte(_DOUBLES)
    # Bytes of the same place together: those of exponents are alike.
    data = struct.pack(f"<{len(values)}d", *values)
    out.raw(b"".join([data[place::8] for place in range(8)]))


def _write_lists(out: ByteWriter, values: Sequence[list[object]], depth: int) -> None:
    lengths = {len(value) for value in values}
    if len(values) > 1 and len(lengths) == 1 and 0 < max(lengths) <= _LONGEST_TUPLE:
        out.byte(_TUPLES)
        out.number(max(lengths))
        for column in zip(*values, strict=True):
            _write_column(out, column, depth + 1)
        return
    out.byte(_LISTS)
    write_integers(out, [len(value) for value in values])
    _write_column(out, [each for value in values for each in value], depth + 1)


def _write_objects(out: ByteWriter, values: Sequence[Mapping[str, object]], depth: int) -> None:
    forms = {form: place for place, form in enumerate(dict.fromkeys(map(tuple, values)))}
    out.byte(_OBJECTS)
    out.number(len(forms))
    for form in forms:
        out.text(msgspec.json.encode(form))
    write_integers(out, [forms[tuple(value)] for value in values])
    columns: dict[str, list[object]] = {name: [] for form in forms for name in form}
    for value in values:
        for name, member in value.items():
            columns[name].append(member)
    for column in columns.values():
        _write_column(out, column, depth + 1)


def _read_column(reader: ByteReader, count: int, budget: Budget, depth: int) -> list[object]:
    if depth > _DEEPEST:
        raise DecodingError("the columns are nested too deeply")
    form = reader.byte()
    if form not in _READERS:
        raise DecodingError(f"{form} is no form of a column")
    if not count and form not in (_JSON, _LISTS):
        raise DecodingError("a column is empty")
    return _READERS[form](reader, count, budget, depth)


def _read_json(reader: ByteReader, count: int, budget: Budget, _depth: int) -> list[object]:
    values = []
    for _ in range(count):
        text = reader.text()
        budget.spend(1, len(text))
        values.append(_json(text))
    return values


def _read_constant(reader: ByteReader, count: int, budget: Budget, _depth: int) -> list[object]:
    text = reader.text()
    budget.spend(count, len(text))
    return [_json(text)] * count


def _read_distinct(reader: ByteReader, count: int, budget: Budget, depth: int) -> list[object]:
    distinct = _read_column(reader, _checked(reader.number(), count), budget, depth + 1)
    longest = max(len(msgspec.json.encode(each)) for each in distinct)
    budget.spend(count, longest)
    return [_at(distinct, place) for place in read_integers(reader, count, budget)]


def _read_mixed(reader: ByteReader, count: int, budget: Budget, depth: int) -> list[object]:
    kinds = _checked(reader.number(), count)
    places = read_integers(reader, count, budget)
    columns = [
        iter(_read_column(reader, _checked(places.count(kind), count), budget, depth + 1))
        for kind in range(kinds)
    ]
    return [next(_at(columns, place)) for place in places]


def _read_integers(reader: ByteReader, count: int, budget: Budget, _depth: int) -> list[object]:
    return [*read_integers(reader, count, budget)]


def _read_decimals(reader: ByteReader, count: int, budget: Budget, _depth: int) -> list[object]:
    digits = reader.byte()
    if digits > _MOST_DIGITS:
        raise DecodingError(f"a number has {digits} digits after the point")
    scale = 10**digits
    return [each / scale for each in read_integers(reader, count, budget)]


def _read_doubles(reader: ByteReader, count: int, budget: Budget, _depth: int) -> list[object]:
    budget.spend(count, 8)
    data = reader.raw(8 * count)
    whole = bytearray(len(data))
    for place in range(8):
        whole[place::8] = data[place * count : (place + 1) * count]
    return [*struct.unpack(f"<{count}d", whole)]


def _read_texts(reader: ByteReader, count: int, budget: Budget, _depth: int) -> list[object]:
    return [*read_texts(reader, count, budget)]


def _read_tuples(reader: ByteReader, count: int, budget: Budget, depth: int) -> list[object]:
    length = _checked(reader.number(), _LONGEST_TUPLE)
    budget.spend(count, 2)
    columns = [_read_column(reader, count, budget, depth + 1) for _ in range(length)]
    return [[column[row] for column in columns] for row in range(count)]


def _read_lists(reader: ByteReader, count: int, budget: Budget, depth: int) -> list[object]:
    lengths = read_integers(reader, count, budget)
    if min(lengths, default=0) < 0:
        raise DecodingError("a list has a negative length")
    budget.spend(sum(lengths), 1)
    elements = iter(_read_column(reader, sum(lengths), budget, depth + 1))
    return [[next(elements) for _ in range(length)] for length in lengths]


def _read_objects(reader: ByteReader, count: int, budget: Budget, depth: int) -> list[object]:
    forms = [_names(reader.text()) for _ in range(_checked(reader.number(), count))]
    places = read_integers(reader, count, budget)
    having = dict.fromkeys((name for form in forms for name in form), 0)
    for place, count_of_form in Counter(places).items():
        for name in _at(forms, place):
            having[name] += count_of_form
    columns: dict[str, Iterator[object]] = {}
    for name, rows in having.items():
        budget.spend(rows, len(name) + 3)
        columns[name] = iter(_read_column(reader, rows, budget, depth + 1))
    return [{name: next(columns[name]) for name in forms[place]} for place in places]


_READERS = {
    _JSON: _read_json,
    _CONSTANT: _read_constant,
    _DISTINCT: _read_distinct,
    _MIXED: _read_mixed,
    _INTEGERS: _read_integers,
    _DECIMALS: _read_decimals,
    _DOUBLES: _read_doubles,
    _TEXTS: _read_texts,
    _TUPLES: _read_tuples,
    _LISTS: _read_lists,
    _OBJECTS: _read_objects,
}


def _json(text: bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise DecodingError("a value is no JSON") from None


def _names(text: bytes) -> tuple[str, ...]:
    try:
        names = msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.MsgspecError, UnicodeError):
        raise DecodingError("the names of an object are no list") from None
    if len(set(names)) != len(names):
        raise DecodingError("an object has a name twice")
    return names


def _checked(count: int, most: int) -> int:
    if not 0 < count <= most:
        raise DecodingError(f"{count} is out of range: 1 to {most}")
    return count


def _at(values: Sequence[T], place: int) -> T:
    if not 0 <= place < len(values):
        raise DecodingError("a place is beyond the values")
    return values[place]
