"""What a script at another's node may get: judged with the sight of its sender, not of its host.

The engine judges with the sight of the node of a subscription. For a script that another node sent,
the engine only matches subjects and targets; filters and areas are decided here, by the plain
rules, where the host is seen as its sender may see it.
"""

from collections.abc import Mapping, Sequence

from nearcast.core.language import Filter
from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.reference import EventScope, WorldView, decide
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_WHERE_NAMED


class SenderSight:
    """The world of a host as the sender of a script may see it."""

    def __init__(self, world: WorldView, host: str, sender: str) -> None:
        self._world = world
        self._host = host
        self._sender = sender
        self.places = world.places

    def may_get(self, event: Event, wanted: Sequence[Subscription]) -> bool:
        """Whether an event that the engine gave the host matches one of these subscriptions."""
        return any(decide(event, each, self).passed for each in wanted)

    def position(self, node: str) -> Position | None:
        """The position of a node; that of the host only if the sender may see where it is."""
        return self._world.position(node) if self._shows(node, SEE_WHERE_NAMED) else None

    def previous_position(self, node: str) -> Position | None:
        """The position of a node at its previous fix, likewise."""
        return self._world.previous_position(node) if self._shows(node, SEE_WHERE_NAMED) else None

    def attributes(self, node: str) -> Mapping[str, Value]:
        """The context of a node; that of the host only if the sender may see it."""
        return self._world.attributes(node) if self._shows(node, SEE_ATTRIBUTES) else {}

    def may_see(self, viewer: str, other: str) -> int:
        """What the sender may see of a node, whoever asks."""
        return self._world.may_see(self._sender, other)

    def earlier(
        self, scope: EventScope, subject: str, where: Filter | None, within: Circle | None
    ) -> list[Event]:
        """Nothing: filters that count are refused at another's node."""
        return []

    def count_earlier(
        self,
        scope: EventScope,
        subject: str,
        where: Filter | None,
        within: Circle | None,
        most: int | None = None,
    ) -> int:
        """Nothing, likewise."""
        return 0

    def _shows(self, node: str, needed: int) -> bool:
        """Whether a node may be read; of all but the host its caller has checked it."""
        return node != self._host or self.may_see(node, node) & needed == needed
