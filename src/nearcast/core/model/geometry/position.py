"""Positions of nodes and events, in degrees of WGS84.

All external input passes `position`, `parse_position` or `position_from_json`, which refuse invalid
positions with a suggestion; a coordinate that a rounding error put beyond its limit is set to the
limit. A `Position` that exists is trusted inside.
"""

import math
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from nearcast.core.degrees import LARGEST_LATITUDE, LARGEST_LONGITUDE, clamped
from nearcast.core.model.errors import ModelError


class Position(Struct, frozen=True, gc=False):
    """A point on the ground: latitude and longitude in degrees."""

    lat: float
    lon: float

    def distance_m(self, other: "Position") -> float:
        """Return the distance to another position in metres."""
        # Not at the top: a client that only sends positions need not load a compiler.
        from nearcast.core.model.geometry.geodesy import distance_m

        return distance_m(float(self.lat), float(self.lon), float(other.lat), float(other.lon))


def checked(at: Position) -> Position:
    """Return a position built by a caller, checked, or raise `ModelError` with the reason."""
    return at if is_usual(at) else position(at.lat, at.lon)


def is_usual(at: Position) -> bool:
    """Return whether a position built by a caller has plain floats within their ranges."""
    return _is_usual(at.lat, at.lon)


def position(lat: object, lon: object) -> Position:
    """Return the position, or raise `ModelError` with the reason."""
    latitude = clamped(number(lat, "latitude"), LARGEST_LATITUDE)
    longitude = clamped(number(lon, "longitude"), LARGEST_LONGITUDE)
    if abs(latitude) > LARGEST_LATITUDE:
        swapped = abs(latitude) <= 180.0 and abs(longitude) <= 90.0
        order = f"{plain(longitude)}, {plain(latitude)}"
        hint = f"; are latitude and longitude swapped? ({order})" if swapped else ""
        raise ModelError(
            f"latitude {plain(latitude)} is beyond 90; latitudes go from -90 to 90{hint}"
        )
    if abs(longitude) > LARGEST_LONGITUDE:
        raise ModelError(
            f"longitude {plain(longitude)} is beyond 180; longitudes go from -180 to 180"
        )
    return Position(latitude, longitude)


def parse_position(text: str) -> Position:
    """Return the position that `LAT,LON` names."""
    before, _, after = text.partition(",")
    try:
        latitude, longitude = float(before), float(after)
        # Python also accepts 1_000 and digits of other scripts, which no other client would.
        if _is_usual(latitude, longitude) and text.isascii() and "_" not in text:
            return Position(latitude, longitude)
    except ValueError:
        pass
    fields = text.split(",")
    if len(fields) != 2:
        raise ModelError(
            f"a position is two numbers, LAT,LON such as 53.3498,-6.2603, not {shown(text)}"
        )
    return position(
        parse_number(fields[0], "latitude"),
        parse_number(fields[1], "longitude"),
    )


def usual_position(text: bytes) -> Position | None:
    """Return the position of `LAT,LON` in its common form; None: use `parse_position`."""
    try:
        # JSON numbers are parsed the same everywhere, and by far the fastest.
        latitude, longitude = _read_pair(b"[%b]" % text)
    except msgspec.MsgspecError:
        return None
    return Position(latitude, longitude) if _is_usual(latitude, longitude) else None


_read_pair = msgspec.json.Decoder(tuple[float, float]).decode


def _is_usual(lat: object, lon: object) -> bool:
    """Return whether these are plain floats within their ranges, which excludes NaN."""
    if type(lat) is not float or type(lon) is not float:
        return False
    return -90.0 <= lat <= 90.0 and -180.0 <= lon <= 180.0


def position_from_json(value: object) -> Position:
    """Return the position that a GeoJSON pair `[lon, lat]` names."""
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str | bytes | bytearray)
        or len(value) != 2
    ):
        raise ModelError(
            f"a position in JSON is two numbers, [lon, lat] such as [-6.2603, 53.3498], "
            f"not {shown(value)}"
        )
    return position(value[1], value[0])


def number(value: object, what: str) -> float:
    """Return a finite float, or raise `ModelError` that names `what`."""
    if type(value) is float and math.isfinite(value):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModelError(f"{what} {shown(value)} is not a number")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise ModelError(f"{what} {shown(value)} is not a finite number")
    return result


def parse_number(text: str, what: str) -> float:
    """Return the finite float of a text in plain decimal or exponent form."""
    stripped = text.strip()
    try:
        if "_" in stripped or not stripped.isascii():
            raise ValueError
        value = float(stripped)
    except ValueError:
        raise ModelError(f"{what} {shown(text)} is not a number") from None
    return number(value, what)


def plain(value: float) -> str:
    """Return a number without a trailing `.0`, and without loss."""
    return repr(float(value)).removesuffix(".0")


def shown(value: object) -> str:
    """Return a value as shown in error messages, truncated."""
    try:
        text = repr(value)
    except RecursionError:
        # A parser of JSON goes about as deep as `repr` does, from fewer calls down.
        return f"a {type(value).__name__} that is nested too deeply"
    return text if len(text) <= 60 else f"{text[:57]}..."
