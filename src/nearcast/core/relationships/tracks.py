"""Tracks: a node's successive fixes, each with the previous one and whether it is plausible.

A fix that implies an impossible speed is marked as a jump, and the node stays at its last accepted
position. The new position is accepted once the next fix agrees with it; a single wild fix therefore
does no harm, and a node that really moved 500 km is lost for one fix only. Fixes older than the
last accepted one came late and change nothing.
"""

import math

import msgspec
from msgspec import Struct

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.geodesy import distance_m

FORM = 1

JUMP = "jump"
LATE = "late"
NO_PLACE = "no such place"


class TrackSettings(Struct, frozen=True):
    """Limits for accepting a node's fixes."""

    fastest_mps: float = 70.0
    """The highest plausible speed."""
    forget_s: float = 3600.0
    """The silence after which a node's track starts anew."""


class Fix(Struct, frozen=True, array_like=True, gc=False):
    """A position with its time."""

    time: float
    lat: float
    lon: float


class TrackStep(Struct, frozen=True, gc=False):
    """The result of a fix, given the previous ones."""

    previous: Fix | None = None
    """The last accepted fix before it."""
    speed_mps: float | None = None
    """The speed since the fix that this one agrees with."""
    suspect: str | None = None
    """Why it is not accepted; the node then stays where it was."""
    left: Fix | None = None
    """The position that others may still hold: the previous fix, however old."""


class Track(Struct, array_like=True):
    """The last accepted fix of a node, and an unconfirmed jump."""

    form: int = FORM
    believed: Fix | None = None
    doubted: Fix | None = None

    def follow(
        self, time: float, lat: float | None, lon: float | None, settings: TrackSettings
    ) -> TrackStep:
        """Apply the node's next fix; without a position the track ends."""
        believed = left = self.believed
        if believed is not None and time < believed.time:
            return TrackStep(believed, suspect=LATE)
        if believed is not None and time - believed.time > settings.forget_s:
            believed = self.believed = self.doubted = None
        if lat is None or lon is None:
            self.believed = self.doubted = None
            return TrackStep(believed, left=left)
        # Written so that NaN is invalid too.
        if not (abs(lat) <= 90.0 and abs(lon) <= 180.0):
            return TrackStep(believed, suspect=NO_PLACE)
        fix = Fix(time, lat, lon)
        speed = None
        if believed is not None:
            speed = implied_mps(believed, fix)
            if speed > settings.fastest_mps:
                speed = math.inf if self.doubted is None else implied_mps(self.doubted, fix)
                if speed > settings.fastest_mps:
                    self.doubted = fix
                    return TrackStep(believed, implied_mps(believed, fix), JUMP)
        self.believed, self.doubted = fix, None
        return TrackStep(believed, speed, left=left)

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return msgspec.msgpack.encode(self)

    @staticmethod
    def from_bytes(data: bytes) -> "Track":
        """Return the track of a stored form; refuse one that a later release wrote."""
        track = msgspec.msgpack.decode(data, type=Track)
        check_form(track.form, FORM, "track")
        return track


def check_form(form: int, known: int, what: str) -> None:
    """Refuse state written by a later release."""
    if form > known:
        raise ModelError(
            f"the state of a {what} has form {form}, and this release knows up to {known}: "
            "run the release that wrote it, or build the state anew by replay"
        )


def implied_mps(before: Fix, after: Fix) -> float:
    """Return the speed between two fixes, taken to be at least a second apart.

    Clocks tick in seconds and receivers err by metres, so that two fixes at one time are no jump.
    """
    length = distance_m(before.lat, before.lon, after.lat, after.lon)
    return length / max(abs(after.time - before.time), 1.0)
