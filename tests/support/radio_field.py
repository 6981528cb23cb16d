"""Nodes without a broker on one radio channel, placed in metres round a point."""

import math
from collections.abc import Sequence

from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.radio_node import RadioNode
from nearcast.testing.virtual_radio import VirtualRadio
from nearcast.wire.beacons.group_key import GroupKey

CENTRE = Position(53.35, -6.26)
_DEGREE_M = 111_195.0


def at_m(east_m: float, north_m: float = 0.0) -> Position:
    """Return the position so many metres east and north of the centre."""
    across = _DEGREE_M * math.cos(math.radians(CENTRE.lat))
    return Position(CENTRE.lat + north_m / _DEGREE_M, CENTRE.lon + east_m / across)


class RadioField(VirtualRadio):
    """A channel whose nodes are placed in metres."""

    def add(
        self,
        name: str,
        east_m: float,
        north_m: float = 0.0,
        keys: Sequence[GroupKey] = (),
        settings: ProximitySettings | None = None,
    ) -> RadioNode:
        """Start a node at a place."""
        return self.node(name, at_m(east_m, north_m), keys=keys, settings=settings)

    def put(self, name: str, east_m: float, north_m: float = 0.0) -> None:
        """Put a node somewhere else, and tell it."""
        self.move(name, at_m(east_m, north_m))
