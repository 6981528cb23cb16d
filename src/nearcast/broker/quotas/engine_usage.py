"""Usage of what the engine keeps: live events, announcements, areas, relationships, places, nodes.

The engine says what begins and ends, whoever caused it: a client, an expiry, an operator. Live
events, watched areas, relationships and nodes outlive their sessions and may outlive a restart, so
the user of such a client id is stored.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from nearcast.broker.durability.journal import Journal
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_book import QuotaBook
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.quotas.sizes import context_bytes, event_bytes
from nearcast.broker.situation.commands import PLACE, place_of
from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.model.event import Announcement, Event
from nearcast.core.model.geometry.area import area_vertices
from nearcast.core.model.inputs import Input, RelationshipDefined
from nearcast.store import Forgotten, Kept

USERS = "quota users"
"""The space of the store for the users of client ids that left something that lasts."""

_LASTING = (Resource.RETAINED, Resource.AREAS, Resource.RELATIONSHIPS, Resource.NODES)
"""What may outlive the session of its client id."""


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
        self._place_vertices: dict[str, int] = {}
        """The vertices of places that were counted, by the subject of their retained message."""
        engine.observe(self)

    def restore(self, client_id: str, user: str) -> None:
        """Restore the user of a client id, before the engine resumes what it left."""
        self._stored[client_id] = user

    def resumed(self) -> None:
        """Count what a restored engine keeps."""
        for node, state in self._engine.nodes.items():
            usage = self._usage(node)
            usage.add(Resource.NODES, 1)
            usage.add(Resource.CONTEXT_BYTES, context_bytes(state.attributes))

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Count the nodes and contexts after a step, for which room was reserved until now."""
        nodes, released = self._engine.nodes, self._quotas.settle()
        for changed in outcome.node_changes:
            before: Mapping[str, object] = changed.before.attributes
            after = {} if changed.state is None else changed.state.attributes
            if after is before and changed.before.position is not None:
                continue
            usage = self._usage(changed.node)
            usage.add(Resource.CONTEXT_BYTES, context_bytes(after) - context_bytes(before))
            more = (changed.node in nodes) - usage.used[Resource.NODES]
            if more:
                usage.add(Resource.NODES, more)
                self._remember(usage)
        for usage in released:
            self._quotas.tidy(usage)

    def live_changed(self, event: Event, change: int) -> None:
        """Count a live event."""
        self.live_nodes[event.publisher] += change
        if not self.live_nodes[event.publisher]:
            del self.live_nodes[event.publisher]
        usage = self._usage(event.origin)
        usage.add(Resource.RETAINED, change)
        usage.add(Resource.RETAINED_BYTES, change * event_bytes(event))
        if event.subject.startswith(PLACE):
            self._count_place(event.subject, usage, change)
        self._remember(usage)

    def _count_place(self, subject: str, usage: SessionUsage, change: int) -> None:
        """Count the place that a retained message has defined."""
        if change < 0:
            vertices = self._place_vertices.pop(subject, None)
        else:
            place = self._engine.matcher.places.get(*(place_of(subject) or ("", "")))
            vertices = None if place is None else area_vertices(place.geometry)
        if vertices is None:
            return
        if change > 0:
            self._place_vertices[subject] = vertices
        usage.add(Resource.PLACES, change)
        usage.add(Resource.PLACE_VERTICES, change * vertices)

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

    def relationship_changed(self, defined: RelationshipDefined, change: int) -> None:
        """Count a relationship and its members."""
        usage = self._usage(defined.node)
        usage.add(Resource.RELATIONSHIPS, change)
        usage.add(Resource.RELATIONSHIP_MEMBERS, change * len(defined.members))
        self._remember(usage)

    def _usage(self, client_id: str) -> SessionUsage:
        return self._quotas.find(client_id) or self._quotas.of(
            client_id, self._stored.get(client_id)
        )

    def _remember(self, usage: SessionUsage) -> None:
        """Store the user of a client id while something of it may outlive its session."""
        name = usage.name
        if not any(usage.used[resource] for resource in _LASTING):
            if self._stored.pop(name, None) is not None:
                self._journal.note(Forgotten(USERS, name), sync=False)
            self._quotas.tidy(usage)
        elif self._stored.get(name) != usage.user.name:
            self._stored[name] = usage.user.name
            self._journal.note(Kept(USERS, name, usage.user.name.encode()), sync=False)
