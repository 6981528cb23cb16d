"""Nodes without a broker on a virtual radio channel, for tests and examples.

Nodes run as they do on a real network, in virtual time: who hears whom follows from where they are,
and the same seed gives the same run.
"""

from collections.abc import Sequence

from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.network.radio import Radio, RadioSettings
from nearcast.simulation.radio_node import RadioNode
from nearcast.simulation.virtual_clock import VirtualClock
from nearcast.wire.beacons.group_key import GroupKey


class VirtualRadio:
    """A radio channel and its nodes, by name."""

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

    def node(
        self,
        name: str,
        at: Position,
        *,
        keys: Sequence[GroupKey] = (),
        settings: ProximitySettings | None = None,
    ) -> RadioNode:
        """Start a node at a place; one that crashed can be started again."""
        self._starts[name] = self._starts.get(name, 0) + 1
        found = RadioNode(
            self.radio.open(name),
            self.clock,
            settings or self.settings,
            incarnation=self._starts[name],
            keys=keys,
        )
        self.nodes[name] = found
        self.move(name, at)
        return found

    def move(self, name: str, at: Position) -> None:
        """Put a node somewhere else, and tell it."""
        self.places[name] = at
        self.nodes[name].move(at)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(seconds)

    def got(self, name: str) -> list[str]:
        """Return the ids of the events that a node's application got."""
        return [delivery.event.id for delivery in self.nodes[name].delivered]
