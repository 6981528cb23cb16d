"""Whether a filter holds for a node: its context takes the place of an event's attributes."""

from collections.abc import Callable

from nearcast.core.language import Filter
from nearcast.core.language.evaluation.scope import LatLon
from nearcast.core.matching.reference import EventScope, WorldView
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.visibility import SEE_ATTRIBUTES

ContextOf = Callable[[str], dict[str, object]]


def is_true_of(
    where: Filter | None,
    node: str,
    at: Position | None,
    viewer: str,
    sees: int,
    world: WorldView,
    context_of: ContextOf,
    subject: str = "",
) -> bool:
    """Return True if a filter holds for a node, limited to what a viewer may see.

    The node is evaluated like an event it published, on the given subject.
    """
    if where is None:
        return True
    attributes = context_of(node) if sees & SEE_ATTRIBUTES else {}
    event = Event("", subject, node, 0.0, attributes, at)  # type: ignore[arg-type]  # JSON
    return where.evaluate_in(_NodeScope(event, viewer, world, sees)) is True


class _NodeScope(EventScope):
    """Scope of a filter on a node, without recent events to count or nodes to search."""

    def count(
        self,
        subject: str,
        where: Filter | None,
        metres: float | None,
        around: str = "me",
        most: int | None = None,
    ) -> int | None:
        return None

    def nearest(self, where: Filter | None, to: LatLon) -> float | None:
        return None
