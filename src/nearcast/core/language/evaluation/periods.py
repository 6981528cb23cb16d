"""Parser of names and of ``DATE``, ``TIMESTAMP`` and ``INTERVAL`` literals in text."""

from datetime import datetime

from nearcast.core.language.ast import Date, End, Interval, Property, Timestamp
from nearcast.core.language.evaluation.instants import (
    read_date,
    read_instant,
    read_timestamp,
    shown,
)
from nearcast.core.language.forms.tokens import RESERVED, Reader
from nearcast.core.language.signatures import problem_with, problem_with_name


def read_property(reader: Reader) -> Property:
    """Consume a name, quoted or not, and return the property."""
    token = reader.take()
    problem = problem_with_name(token.value)
    if problem:
        raise reader.error(problem, token)
    return Property(token.value)


def read_moment(reader: Reader) -> Date | Timestamp:
    """Consume ``DATE('...')`` or ``TIMESTAMP('...')``."""
    word = reader.take().word
    opening = reader.open(word)
    example = "'2024-05-31'" if word == "DATE" else "'2024-05-31T12:00:00Z'"
    written = reader.expect("string", example)
    reader.close(opening)
    try:
        if word == "DATE":
            return Date(read_date(written.value))
        return Timestamp(read_timestamp(written.value))
    except ValueError as problem:
        raise reader.error(str(problem), written) from None


def read_interval(reader: Reader) -> Interval:
    """Consume ``INTERVAL(start, end)``."""
    word = reader.take()
    opening = reader.open("INTERVAL")
    start = read_written_end(reader)
    if not reader.takes(","):
        raise reader.error(
            "INTERVAL takes a start and an end: INTERVAL('2024-05-31', '..').", reader.next
        )
    end = read_written_end(reader)
    reader.close(opening)
    interval = Interval(start, end)
    problem = problem_with_interval(interval)
    if problem:
        raise reader.error(problem, word)
    return interval


def read_written_end(reader: Reader) -> End:
    """Consume one end of an interval."""
    token = reader.next
    if token.kind == "quoted" or (token.kind == "name" and token.word not in RESERVED):
        found = read_property(reader)
        misfit = problem_with("isNull", (found,))
        if misfit:
            raise reader.error(misfit.message, token)
        return found
    if token.kind != "string":
        raise reader.error(
            f"An interval ends with '2024-05-31', '..' or a property, not {token.named()}.", token
        )
    try:
        return read_end(reader.take().value)
    except ValueError as problem:
        raise reader.error(str(problem), token) from None


def read_end(text: str) -> Date | Timestamp | None:
    """Return one end of an interval; raise ValueError if the text is invalid."""
    if text == "..":
        return None
    try:
        value = read_instant(text)
    except ValueError as problem:
        if len(text) < 8 or "-" not in text:
            raise ValueError(
                f"{shown(text)} is no end of an interval; write '2024-05-31', "
                "'2024-05-31T12:00:00Z' or '..'."
            ) from None
        raise problem from None
    return Timestamp(value) if isinstance(value, datetime) else Date(value)


def problem_with_interval(interval: Interval) -> str | None:
    """Return an error message if an interval of two literals ends before it starts."""
    start, end = interval.start, interval.end
    if isinstance(start, Property | None) or isinstance(end, Property | None):
        return None
    if isinstance(start, Timestamp) and isinstance(end, Timestamp):
        wrong = start.value > end.value
    else:
        wrong = start.value.isoformat()[:10] > end.value.isoformat()[:10]
    return "The interval ends before it starts; swap its ends." if wrong else None
