"""NMEA 0183: the sentences in which GPS receivers tell a fix, checked by their sum."""

from functools import reduce

from msgspec import Struct

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position, position

_LONGEST = 120
"""Sentences have at most 82 characters; some receivers write a few more."""


class NmeaFix(Struct, frozen=True):
    """A position, and the second of the day in UTC."""

    position: Position
    time_s: float


def read_sentence(line: str) -> NmeaFix | None:
    """Return the fix in an RMC, GGA or GLL sentence; None if it has none, or is broken."""
    text = line.strip()
    if not text.startswith("$") or len(text) > _LONGEST:
        return None
    body, star, told = text[1:].partition("*")
    if star and told.upper() != f"{checksum(body):02X}":
        return None
    fields = body.split(",")
    try:
        match fields[0][2:]:
            case "RMC" if fields[2] == "A":
                return _fix(fields[3:7], fields[1])
            case "GGA" if fields[6] not in ("", "0"):
                return _fix(fields[2:6], fields[1])
            case "GLL" if fields[6] == "A":
                return _fix(fields[1:5], fields[5])
    except (IndexError, ValueError, ModelError):
        return None
    return None


def checksum(body: str) -> int:
    """Return the sum of a sentence: its characters, by exclusive or."""
    return reduce(lambda found, each: found ^ ord(each), body, 0) & 0xFF


def _fix(fields: list[str], time: str) -> NmeaFix:
    lat, north, lon, east = fields
    if north not in ("N", "S") or east not in ("E", "W"):
        raise ValueError("no hemisphere")
    at = position(
        _degrees(lat, 2) * (1.0 if north == "N" else -1.0),
        _degrees(lon, 3) * (1.0 if east == "E" else -1.0),
    )
    hours, minutes, seconds = int(time[:2]), int(time[2:4]), float(time[4:])
    return NmeaFix(at, hours * 3_600.0 + minutes * 60.0 + seconds)


def _degrees(text: str, digits: int) -> float:
    """Return the degrees of `DDMM.MMMM`, or of `DDDMM.MMMM`."""
    minutes = float(text[digits:])
    if not text[:digits].isdigit() or not 0.0 <= minutes < 60.0:
        raise ValueError(f"{text!r} is no angle")
    return int(text[:digits]) + minutes / 60.0
