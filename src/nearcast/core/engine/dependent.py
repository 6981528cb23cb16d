"""Interface of engine parts that depend on contexts, places, rights, matches and time.

They are registered with the engine and notified in that order. A change is in force before any of
them is notified.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from msgspec import Struct

from nearcast.core.engine.outcome import EngineStep
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event


class NodeUpdate(Struct, frozen=True):
    """The change of a node's state."""

    before: NodeState
    after: NodeState
    fixed: bool
    """It has a new fix, or lost its position."""
    reclassed: bool
    """Its new context changes what it may see, or who may see it."""
    expired: bool = False
    """Its position exceeded the time limit and was cleared."""


class EngineDependent:
    """Notified of changes; the default methods do nothing."""

    @property
    def ignores_moves(self) -> bool:
        """True if no move can cause a delivery or notice through it now: moves may be held.

        Except those of nodes that it follows.
        """
        return True

    @property
    def followed(self) -> Container[str]:
        """Nodes of whose held moves it is notified by `moved`.

        Their positions are in their states then, and not in the matcher yet.
        """
        return ()

    def moved(self, node: str, step: EngineStep) -> None:
        """Handle a held move of a node that it follows."""

    def node_changed(self, update: NodeUpdate, step: EngineStep) -> None:
        """Handle a changed node state."""

    def node_forgotten(self, node: str, step: EngineStep) -> None:
        """Handle the erasure of a node."""

    def node_expired(self, node: str, step: EngineStep) -> None:
        """Handle the end of what is known of a node that has been gone for long."""

    def places_changed(self, reclassed: Sequence[str], step: EngineStep) -> None:
        """Handle changed places; the visibility of or for the `reclassed` nodes changed."""

    def sight_changed(self, viewer: str, other: str, step: EngineStep) -> None:
        """Handle a changed visibility exception for one pair of nodes."""

    def rules_changed(self, step: EngineStep) -> None:
        """Handle replaced visibility rules."""

    def events_made(
        self, events: Sequence[Event], times: Sequence[float], step: EngineStep
    ) -> None:
        """Handle events that were matched, with the time of each."""

    def expire(self, step: EngineStep) -> None:
        """Expire what is due."""

    def next_timer(self) -> float | None:
        """The time of the next expiry, None if there is none."""
        return None


def overriding(parts: Iterable[object], base: type, method: str) -> list[Callable[..., Any]]:
    """Return the bound method of each part whose class overrides it; the others do nothing."""
    inherited = getattr(base, method)
    return [getattr(each, method) for each in parts if getattr(type(each), method) is not inherited]
