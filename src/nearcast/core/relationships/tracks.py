"""Tracks: a node's fixes one after the other, each with the one before and whether to believe it.

A fix that would have needed an impossible speed is marked as a jump, and the node stays where it
was believed to be. It is believed at the new place once the next fix agrees with it; a single
wild fix therefore does no harm, and a node that really moved 500 km is lost for one fix only.
Fixes older than the last believed one came late and change nothing.
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
    """What is believed of a node's fixes."""

    fastest_mps: float = 70.0
    """Nothing that is followed moves faster."""
    forget_s: float = 3600.0
    """After this silence a node is as new."""


class Fix(Struct, frozen=True, array_like=True, gc=False):
    """Where a node was, and when."""

    time: float
    lat: float
    lon: float


class TrackStep(Struct, frozen=True, gc=False):
    """What a fix means after those before it."""

    previous: Fix | None = None
    """Where the node was believed to be until now."""
    speed_mps: float | None = None
    """How fast it moved since the fix that this one agrees with."""
    suspect: str | None = None
    """Why it is not believed: then the node stays where it was."""
    left: Fix | None = None
    """Where others may still believe it to be: the previous fix, however long ago."""


class Track(Struct, array_like=True):
    """Where a node is believed to be, and where a jump says it is."""

    form: int = FORM
    believed: Fix | None = None
    doubted: Fix | None = None

    def follow(
        self, time: float, lat: float | None, lon: float | None, settings: TrackSettings
    ) -> TrackStep:
        """Take the node's next fix; without a place the node no longer says where it is."""
        believed = left = self.believed
        if believed is not None and time < believed.time:
            return TrackStep(believed, suspect=LATE)
        if believed is not None and time - believed.time > settings.forget_s:
            believed = self.believed = self.doubted = None
        if lat is None or lon is None:
            self.believed = self.doubted = None
            return TrackStep(believed, left=left)
        # Written so that NaN is no place either.
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
        """Return the track as it is kept."""
        return msgspec.msgpack.encode(self)

    @staticmethod
    def from_bytes(data: bytes) -> "Track":
        """Return the track that was kept; refuse one that a later release wrote."""
        track = msgspec.msgpack.decode(data, type=Track)
        check_form(track.form, FORM, "track")
        return track


def check_form(form: int, known: int, what: str) -> None:
    """Refuse state that a later release wrote."""
    if form > known:
        raise ModelError(
            f"the state of a {what} has form {form}, and this release knows up to {known}: "
            "run the release that wrote it, or build the state anew by replay"
        )


def implied_mps(before: Fix, after: Fix) -> float:
    """Return the speed between two fixes, as if at least a second lay between them.

    Clocks tick in seconds and receivers err by metres, so that two fixes of one moment are no jump.
    """
    length = distance_m(before.lat, before.lon, after.lat, after.lon)
    return length / max(abs(after.time - before.time), 1.0)
