"""The places that may contain a position: their bounding circles, compared all at once.

A place is stored as the point in space of its bounding circle's centre and the circle's reach. A
chord is never longer than the distance over ground, so a place whose centre is farther than its
reach in a straight line cannot contain the position; the remaining places are decided by their
shapes. Some thousand places take some microseconds.
"""

import numpy as np
import numpy.typing as npt

from nearcast.core.model.geometry.geodesy import ecef


class PlaceIndex:
    """Slots of bounding circles; a freed slot is reused."""

    def __init__(self) -> None:
        self._points: npt.NDArray[np.float64] = np.zeros((3, 16))
        self._reach_squared: npt.NDArray[np.float64] = np.full(16, -1.0)
        self._free = list(range(15, -1, -1))

    def add(self, lat: float, lon: float, reach_m: float) -> int:
        """Add a circle and return its slot."""
        if not self._free:
            size = len(self._reach_squared)
            self._points = np.concatenate([self._points, np.zeros((3, size))], axis=1)
            self._reach_squared = np.concatenate([self._reach_squared, np.full(size, -1.0)])
            self._free = list(range(2 * size - 1, size - 1, -1))
        slot = self._free.pop()
        self._points[:, slot] = ecef(lat, lon)
        self._reach_squared[slot] = reach_m * reach_m
        return slot

    def remove(self, slot: int) -> None:
        """Remove the circle of a slot."""
        self._reach_squared[slot] = -1.0
        self._free.append(slot)

    def near(self, lat: float, lon: float) -> list[int]:
        """Return the slots whose circles may contain a position."""
        x, y, z = ecef(lat, lon)
        dx, dy, dz = self._points[0] - x, self._points[1] - y, self._points[2] - z
        slots: list[int] = np.flatnonzero(
            dx * dx + dy * dy + dz * dz <= self._reach_squared
        ).tolist()
        return slots
