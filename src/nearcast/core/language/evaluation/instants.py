"""Dates and timestamps in the format of RFC 3339: read strictly, written in UTC."""

import calendar
import re
from datetime import UTC, date, datetime, timedelta, timezone

DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def read_date(text: str) -> date:
    """Return the day; raise ValueError with the reason if the text is invalid."""
    found = DAY.fullmatch(text)
    if found is None:
        raise ValueError(f"{shown(text)} is not a date; write it as 2024-05-31.")
    return day(*(int(part) for part in found.groups()))


def read_timestamp(text: str) -> datetime:
    """Return the instant in UTC to the microsecond; raise ValueError with the reason if invalid.

    A leap second (23:59:60 UTC, accepted on any day) is read as the second after it.
    """
    found = MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"{shown(text)} is not a timestamp; write it as 2024-05-31T12:00:00Z.")
    on = day(*(int(part) for part in found.groups()[:3]))
    hour, minute, second = (int(part) for part in found.groups()[3:6])
    for name, value, most in (("hour", hour, 23), ("minute", minute, 59), ("second", second, 60)):
        if value > most:
            raise ValueError(f"There is no {name} {value:02}; {name}s go from 00 to {most}.")
    leap = timedelta(seconds=second == 60)
    micros = int((found[7] or "0").ljust(6, "0")[:6])
    try:
        written = datetime(on.year, on.month, on.day, hour, minute, min(second, 59), micros)
        moment = written.replace(tzinfo=zone(found[8])).astimezone(UTC)
        if leap and (moment.hour, moment.minute) != (23, 59):
            raise ValueError("There is no second 60 but in 23:59:60 UTC, a leap second.")
        return moment + leap
    except OverflowError:
        raise ValueError(f"{shown(text)} is outside the years 1 to 9999.") from None


def read_instant(text: str) -> date | datetime:
    """Return a text as a day or an instant; raise ValueError if it is neither."""
    return read_date(text) if len(text) <= 10 else read_timestamp(text)


def write_timestamp(moment: datetime) -> str:
    """Return the instant as RFC 3339 in UTC, without trailing zeros in the fraction."""
    written = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (written.rstrip("0") if "." in written else written) + "Z"


def day(year: int, month: int, number: int) -> date:
    """Return a calendar day; raise ValueError if it does not exist."""
    if not 1 <= year <= 9999:
        raise ValueError(f"There is no year {year:04}; years go from 0001 to 9999.")
    if not 1 <= month <= 12:
        raise ValueError(f"There is no month {month:02}; months go from 01 to 12.")
    days = calendar.monthrange(year, month)[1]
    if not 1 <= number <= days:
        name = calendar.month_name[month]
        raise ValueError(f"There is no {number} {name} {year}; {name} {year} has {days} days.")
    return date(year, month, number)


def zone(text: str) -> timezone:
    """Return the time zone of ``Z`` or ``+01:00``."""
    if text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(f"There is no time zone {text}; they go from -23:59 to +23:59.")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def shown(text: str) -> str:
    """Return a text in quotes, cut to 40 characters for a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")
