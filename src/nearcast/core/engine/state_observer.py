"""Observers of the state that clients leave in an engine, so that a host can count it."""

from typing import Protocol

from nearcast.core.model.event import Announcement, Event
from nearcast.core.model.inputs import RelationshipDefined


class StateObserver(Protocol):
    """Called when something begins to be kept (`change` is 1) or no longer is (-1)."""

    def live_changed(self, event: Event, change: int) -> None:
        """Handle a live event."""

    def area_changed(self, area: Event, change: int) -> None:
        """Handle a watched area: the target of an event of its owner."""

    def announcement_changed(self, announcement: Announcement, change: int) -> None:
        """Handle an announcement."""

    def relationship_changed(self, defined: RelationshipDefined, change: int) -> None:
        """Handle a relationship."""
