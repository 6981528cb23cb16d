"""Ingesting, the first step: events are checked, deduplicated and completed.

Missing fields are taken from the publisher: its position and its announced target.
"""

from collections import OrderedDict
from collections.abc import Iterable

from msgspec.structs import replace

from nearcast.core.engine.engine_state import EngineState
from nearcast.core.gathering.base_sets import check_single
from nearcast.core.matching.reference import anchor_for
from nearcast.core.model.context import check_attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.geometry import position as positions
from nearcast.core.model.geometry.area import Around, PlaceHere
from nearcast.core.model.geometry.area_resolution import check
from nearcast.core.model.subject import check_subject


class EventIngest:
    """Accepts each event once."""

    def __init__(self, state: EngineState) -> None:
        self._matcher = state.matcher
        self._nodes = state.nodes
        self._rights = state.rights
        self._announcements = state.announcements
        self._live = state.live
        self._policy = state.policy
        self._levels = state.settings.levels
        self._ahead_s = state.settings.ahead_s
        # In a plain dict, finding the oldest key means skipping all keys deleted before it.
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._known_most = state.settings.known_ids_most

    def ingest(self, event: Event, now: float, again: bool) -> Event | None:
        """Return the event as it is matched, None if it is a repeat.

        `again`: it is a log record, already checked and completed. Raises `ModelError` if it is
        invalid.
        """
        if again:
            return event
        check_subject(event.subject)
        if (event.publisher, event.id) in self._known and not self._withdraws(event):
            return None
        if not event.payload:
            # Attributes of a payload are bounded by its parser.
            check_attributes(event.attributes)
        positions.number(event.time, "the event's time")
        if event.valid_s is not None and positions.number(event.valid_s, "valid") < 0.0:
            raise ModelError(f"valid is {event.valid_s} seconds; 0 withdraws, more keeps alive")
        if event.position is not None:
            at = positions.checked(event.position)
            if at is not event.position:
                event = replace(event, position=at)
        if event.to is not None:
            check(event.to, self._matcher.places)
        if event.priority is not None and event.priority > self._levels:
            event = replace(event, priority=self._levels)
        if event.time > now + self._ahead_s:
            event = replace(event, time=now, clock_off=True)
        if event.valid_s:
            ends_at = now + event.valid_s
            if event.expires_at is None or event.expires_at > ends_at:
                event = replace(event, expires_at=ends_at)
        event = self.complete(event)
        if event.people:
            check_single(event)
        self._know(event.publisher, event.id)
        return event

    def complete(self, event: Event) -> Event:
        """Return the event with the position and the announced target of its publisher.

        Also fixes where a moving target is now, which cannot be found out later.
        """
        position, to = event.position, event.to
        if not event.at_given:
            # A position that is hidden now must not show later in an event that stays.
            if event.stays and self._rights.conceals_now(event.publisher):
                position = None
            elif position is None:
                position = self._nodes.position(event.publisher)
        announced = self._announcements.by_subject
        if to is None and announced:
            standing = announced.get((event.publisher, event.subject))
            to = None if standing is None else standing.to
        if isinstance(to, Around | PlaceHere):
            at = anchor_for(to, event.publisher, self._matcher.world)
            return replace(event, position=position, to=to, target_at=at)
        if position is event.position and to is event.to:
            return event
        return replace(event, position=position, to=to)

    def known(self) -> list[tuple[str, str]]:
        """Publisher and id of the recognised events, oldest first."""
        return list(self._known)

    def resume(self, known: Iterable[tuple[str, str]]) -> None:
        """Restore recognised events, by publisher and id."""
        for publisher, name in known:
            self._know(publisher, name)

    def _withdraws(self, event: Event) -> bool:
        """True if the event ends the live event with its own id."""
        if event.valid_s != 0.0:
            return False
        live = self._matcher.live.get(self._live.key(event))
        return self._policy.is_elsewhere(event.subject) or (
            live is not None and live.id == event.id
        )

    def _know(self, publisher: str, name: str) -> None:
        """Recognise an event from now on, dropping the oldest beyond the limit."""
        self._known[publisher, name] = None
        if len(self._known) > self._known_most:
            self._known.popitem(last=False)
