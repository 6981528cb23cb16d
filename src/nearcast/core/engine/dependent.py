"""What parts of the engine do that depend on contexts, places, rights, matches and time.

They are registered with the engine, in the order in which they are told. Whatever changed is in
force before anyone is told.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from nearcast.core.engine.outcome import EngineStep
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event


class NodeUpdate(Struct, frozen=True):
    """How what is known of a node changed."""

    before: NodeState
    after: NodeState
    fixed: bool
    """It has another fix, or none any more."""
    reclassed: bool
    """By its new context it may see, or be seen, otherwise than before."""
    expired: bool = False
    """Its position is too old, and counts as none."""


class EngineDependent:
    """Told of what changes; does nothing of its own accord."""

    @property
    def ignores_moves(self) -> bool:
        """Whether no move can bring anyone anything through it now: moves may wait for others."""
        return True

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Something else is known of a node."""

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Nothing is known of a node any more, nor of what it said."""

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Places lie elsewhere, and these nodes may see, or be seen, otherwise than before."""

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """One node may see more or less of another."""

    def rules_changed(self, step: EngineStep) -> None:
        """Other rules say who may see what of whom."""

    def events_made(
        self, events: Sequence[Event], times: Sequence[float], step: EngineStep
    ) -> None:
        """Events were matched that were made at these times."""

    def expire(self, step: EngineStep) -> None:
        """End what time ends."""

    def next_timer(self) -> float | None:
        """When time ends something."""
        return None


def overriding(parts: Iterable[object], base: type, method: str) -> list[Callable[..., Any]]:
    """Return a method of each part that does more with it than its base class: nothing."""
    inherited = getattr(base, method)
    return [getattr(each, method) for each in parts if getattr(type(each), method) is not inherited]
