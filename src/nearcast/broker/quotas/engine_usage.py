"""Usage of what the engine keeps: live events, announcements, watched areas, places, nodes.

The engine says what begins and ends, whoever caused it: a client, an expiry, an operator. Live
events and watched areas outlive their sessions and may outlive a restart, so the user of such a
client id is stored.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from nearcast.broker.durability.journal import Journal
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_book import QuotaBook
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.quotas.sizes import context_bytes, event_bytes
from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.model.event import Announcement, Event
from nearcast.core.model.geometry.area import area_vertices
from nearcast.core.model.inputs import Input
from nearcast.store import Forgotten, Kept

USERS = "quota users"
"""The space of the store for the users of client ids with live events or watched areas."""


class EngineUsage(OutcomeFollower):
    """Counts what the engine keeps."""

    def __init__(self, engine: Engine, quotas: QuotaBook, journal: Journal) -> None:
        self._engine = engine
        self._quotas = quotas
        self._journal = journal
        self._stored: dict[str, str] = {}
        """Users that the store has, by client id."""
        self.live_nodes: Counter[str] = Counter()
        """The number of live events of each node."""
        engine.observe(self)

    def restore(self, client_id: str, user: str) -> None:
        """Restore the user of a client id, before the engine resumes what it left."""
        self._stored[client_id] = user

    def resumed(self) -> None:
        """Count what a restored engine keeps."""
        states = self._engine.nodes.values()
        used = sum(context_bytes(state.attributes) for state in states)
        self._quotas.broker.add(Resource.CONTEXT_BYTES, used)
        self._count_shared()

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Count the nodes, contexts and places after a step."""
        for changed in outcome.node_changes:
            before: Mapping[str, object] = changed.before.attributes
            after = {} if changed.state is None else changed.state.attributes
            if after is not before:
                more = context_bytes(after) - context_bytes(before)
                self._quotas.broker.add(Resource.CONTEXT_BYTES, more)
        self._count_shared()

    def _count_shared(self) -> None:
        broker, places = self._quotas.broker, self._engine.matcher.places
        for resource, used in (
            (Resource.NODES, len(self._engine.nodes)),
            (Resource.PLACES, len(places)),
            (Resource.PLACE_VERTICES, places.vertices),
        ):
            if used != broker.used[resource]:
                broker.add(resource, used - broker.used[resource])

    def live_changed(self, event: Event, change: int) -> None:
        """Count a live event."""
        self.live_nodes[event.publisher] += change
        if not self.live_nodes[event.publisher]:
            del self.live_nodes[event.publisher]
        usage = self._usage(event.origin)
        usage.add(Resource.RETAINED, change)
        usage.add(Resource.RETAINED_BYTES, change * event_bytes(event))
        self._remember(usage)

    def area_changed(self, area: Event, change: int) -> None:
        """Count a watched area."""
        assert area.to is not None
        usage = self._usage(area.publisher)
        usage.add(Resource.AREAS, change)
        usage.add(Resource.VERTICES, change * area_vertices(area.to))
        self._remember(usage)

    def announcement_changed(self, announcement: Announcement, change: int) -> None:
        """Count an announcement."""
        usage = self._usage(announcement.owner)
        usage.add(Resource.ANNOUNCEMENTS, change)
        usage.add(Resource.VERTICES, change * area_vertices(announcement.to))
        self._quotas.tidy(usage)

    def _usage(self, client_id: str) -> SessionUsage:
        return self._quotas.find(client_id) or self._quotas.of(
            client_id, self._stored.get(client_id)
        )

    def _remember(self, usage: SessionUsage) -> None:
        """Store the user of a client id while something of it may outlive its session."""
        name, lasts = usage.name, usage.used[Resource.RETAINED] or usage.used[Resource.AREAS]
        if not lasts:
            if self._stored.pop(name, None) is not None:
                self._journal.note(Forgotten(USERS, name), sync=False)
            self._quotas.tidy(usage)
        elif self._stored.get(name) != usage.user.name:
            self._stored[name] = usage.user.name
            self._journal.note(Kept(USERS, name, usage.user.name.encode()), sync=False)
