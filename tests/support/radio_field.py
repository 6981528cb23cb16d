"""Nodes without a broker on one radio channel, placed in metres round a point."""

import math
from collections.abc import Sequence

from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.radio import Radio, RadioSettings
from nearcast.simulation.radio_node import RadioNode
from nearcast.simulation.virtual_clock import VirtualClock
from nearcast.wire.beacons.group_key import GroupKey

CENTRE = Position(53.35, -6.26)
_DEGREE_M = 111_195.0


def at_m(east_m: float, north_m: float = 0.0) -> Position:
    """Return the position so many metres east and north of the centre."""
    across = _DEGREE_M * math.cos(math.radians(CENTRE.lat))
    return Position(CENTRE.lat + north_m / _DEGREE_M, CENTRE.lon + east_m / across)


class RadioField:
    """A channel and its nodes, by name."""

    def __init__(
        self,
        seed: int = 1,
        radio: RadioSettings | None = None,
        settings: ProximitySettings | None = None,
    ) -> None:
        self.clock = VirtualClock(seed)
        self.places: dict[str, Position] = {}
        self.radio = Radio(self.clock, self.places.get, radio or RadioSettings())
        self.settings = settings or ProximitySettings()
        self.nodes: dict[str, RadioNode] = {}
        self._starts: dict[str, int] = {}

    def add(
        self,
        name: str,
        east_m: float,
        north_m: float = 0.0,
        keys: Sequence[GroupKey] = (),
        settings: ProximitySettings | None = None,
    ) -> RadioNode:
        """Start a node at a place."""
        self._starts[name] = self._starts.get(name, 0) + 1
        node = RadioNode(
            self.radio.open(name), self.clock, settings or self.settings,
            incarnation=self._starts[name], keys=keys,
        )  # fmt: skip
        self.nodes[name] = node
        self.move(name, east_m, north_m)
        return node

    def move(self, name: str, east_m: float, north_m: float = 0.0) -> None:
        """Put a node somewhere else, and tell it."""
        self.places[name] = at_m(east_m, north_m)
        self.nodes[name].move(self.places[name])

    def got(self, name: str) -> list[str]:
        """Return the ids of the events that a node's application got."""
        return [delivery.event.id for delivery in self.nodes[name].delivered]
