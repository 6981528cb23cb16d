"""Columns of texts: times, hexadecimal ids, numbered names, and any other text.

Each form is taken only if it gives back exactly the same texts.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from nearcast.wire.encoding.budget import Budget
from nearcast.wire.encoding.byte_streams import ByteReader, ByteWriter
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.encoding.integer_columns import read_integers, write_integers

_ANY, _TIMES, _HEX, _NUMBERED = range(4)
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z")
_HEXADECIMAL = re.compile(r"(?:[0-9a-f]{2})+")
_NUMBER_AT_END = re.compile(r"(?s)(.*?)(0|[1-9][0-9]{0,17})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_DIGITS = 6


def write_texts(out: ByteWriter, values: Sequence[str]) -> None:
    """Write texts; their number, at least 1, is known to the reader."""
    if not (_write_times(out, values) or _write_hex(out, values) or _write_numbered(out, values)):
        texts = [value.encode() for value in values]
        out.byte(_ANY)
        write_integers(out, [len(text) for text in texts])
        out.raw(b"".join(texts))


def read_texts(reader: ByteReader, count: int, budget: Budget) -> list[str]:
    """Read texts."""
    form = reader.byte()
    if form == _ANY:
        lengths = read_integers(reader, count, budget)
        if min(lengths) < 0:
            raise DecodingError("a text has a negative length")
        texts = [reader.raw(length) for length in lengths]
        budget.spend(1, sum(lengths))
        try:
            return [text.decode() for text in texts]
        except UnicodeDecodeError:
            raise DecodingError("a text is not UTF-8") from None
    if form == _TIMES:
        digits = reader.byte()
        if digits > _MOST_DIGITS:
            raise DecodingError(f"a time has {digits} digits after the second")
        budget.spend(count, 30)
        return [_time_text(each, digits) for each in read_integers(reader, count, budget)]
    if form == _HEX:
        size = reader.number()
        budget.spend(count, 2 * size)
        data = reader.raw(count * size).hex()
        return [data[at : at + 2 * size] for at in range(0, len(data), 2 * size)] or [""] * count
    if form == _NUMBERED:
        try:
            prefix = reader.text().decode()
        except UnicodeDecodeError:
            raise DecodingError("a text is not UTF-8") from None
        budget.spend(count, len(prefix) + 20)
        return [f"{prefix}{each}" for each in read_integers(reader, count, budget)]
    raise DecodingError(f"{form} is no form of texts")


def _write_times(out: ByteWriter, values: Sequence[str]) -> bool:
    digits = len(values[0]) - 21 if len(values[0]) > 20 else 0
    instants = []
    for value in values:
        instant = _instant(value, digits)
        if instant is None or _time_text(instant, digits) != value:
            return False
        instants.append(instant)
    out.byte(_TIMES)
    out.byte(digits)
    write_integers(out, instants)
    return True


def _write_hex(out: ByteWriter, values: Sequence[str]) -> bool:
    size = len(values[0])
    if not all(len(each) == size and _HEXADECIMAL.fullmatch(each) for each in values):
        return False
    out.byte(_HEX)
    out.number(size // 2)
    out.raw(bytes.fromhex("".join(values)))
    return True


def _write_numbered(out: ByteWriter, values: Sequence[str]) -> bool:
    matches = [_NUMBER_AT_END.fullmatch(value) for value in values]
    prefixes = {match and match[1] for match in matches}
    if None in prefixes or len(prefixes) != 1:
        return False
    out.byte(_NUMBERED)
    out.text(str(prefixes.pop()).encode())
    write_integers(out, [int(match[2]) for match in matches if match])
    return True


def _instant(text: str, digits: int) -> int | None:
    """Return a time as a number of units since 1970, with so many digits after the second."""
    if not _TIME.fullmatch(text) or (len(text) - 21 if len(text) > 20 else 0) != digits:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    unit_us: int = 10 ** (_MOST_DIGITS - digits)
    return (time - _EPOCH) // _MICROSECOND // unit_us


def _time_text(instant: int, digits: int) -> str:
    try:
        time = _EPOCH + timedelta(microseconds=instant * 10 ** (_MOST_DIGITS - digits))
    except OverflowError:
        raise DecodingError("a time is out of range") from None
    text = time.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text[: 20 + digits] if digits else text[:19]}Z"
