"""Quotas of commands: announcements, areas, relationships, places, contexts and nodes.

Checked before a command becomes an input of the engine; a refused one is not recorded.
"""

from collections.abc import Callable

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.quotas.sizes import context_bytes
from nearcast.broker.sessions.session import Session
from nearcast.core.model.geometry.area import area_vertices
from nearcast.core.model.inputs import (
    Announced,
    AreaWatched,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    RelationshipDefined,
)


class InputLimiter:
    """Refuses inputs beyond a quota, and reserves room for the others."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.make_room: Callable[[str | None], bool] = lambda user: False
        """Drops what is known of an idle node, if given of a user's; False if there is none."""

    def claim(self, session: Session, value: Input) -> None:
        """Reserve room for what an input adds; raises `RefusedError` if there is none."""
        if isinstance(value, Moved):
            self.claim_node(session, value.node)
        elif isinstance(value, ContextPatched):
            self.claim_node(session, value.node)
            self._claim_context(session, value)
        elif isinstance(value, Announced):
            self._claim_announcement(session, value)
        elif isinstance(value, AreaWatched):
            self._claim_area(session, value)
        elif isinstance(value, RelationshipDefined):
            self._claim_relationship(session, value)
        elif isinstance(value, PlaceDefined):
            self._claim_place(session, value)

    def claim_node(self, session: Session, node: str) -> None:
        """Reserve room for a node, if it is new."""
        state, quotas = self._state, self._state.quotas
        if node in state.engine.nodes and not state.pending.is_expiring(node):
            return
        usage = self._usage_of(node, session)
        if not usage.user.has_room(Resource.NODES, 1):
            self.make_room(usage.user.name)
        elif not quotas.in_all.has_room(Resource.NODES, 1):
            self.make_room(None)
        quotas.claim(usage, f"node {node}", {Resource.NODES: 1})

    def _claim_context(self, session: Session, value: ContextPatched) -> None:
        # A merged context is at most larger by the patch.
        size, number = context_bytes(value.patch), len(self._state.pending.inputs)
        usage = self._usage_of(value.node, session)
        self._state.quotas.claim(usage, f"context {number}", {Resource.CONTEXT_BYTES: size})

    def _claim_announcement(self, session: Session, value: Announced) -> None:
        announced = value.announcement
        at = announced.node, announced.subject
        before = self._state.engine.announcements.get(at)
        more = {Resource.ANNOUNCEMENTS: 1, Resource.VERTICES: area_vertices(announced.to)}
        if before is not None and before.owner == session.client_id:
            more[Resource.ANNOUNCEMENTS] = 0
            more[Resource.VERTICES] -= area_vertices(before.to)
        key = "announcement {}\0{}".format(*at)
        self._state.quotas.claim(session.usage, key, _positive(more))

    def _claim_area(self, session: Session, value: AreaWatched) -> None:
        quotas = self._state.quotas
        more = {Resource.AREAS: 1, Resource.VERTICES: area_vertices(value.area)}
        before = self._state.engine.watched_areas.get(value.name)
        if before is not None and before.node == value.node:
            more[Resource.AREAS] = 0
            more[Resource.VERTICES] -= area_vertices(before.area)
        usage = self._usage_of(session.node, session)
        quotas.claim(usage, f"area {value.name}", _positive(more))

    def _claim_relationship(self, session: Session, value: RelationshipDefined) -> None:
        members = len(value.members)
        more = {Resource.RELATIONSHIPS: 1, Resource.RELATIONSHIP_MEMBERS: members}
        before = self._state.engine.relationships.get(value.name)
        if before is not None and before.node == value.node:
            more[Resource.RELATIONSHIPS] = 0
            more[Resource.RELATIONSHIP_MEMBERS] -= len(before.members)
        usage = self._usage_of(session.node, session)
        self._state.quotas.claim(usage, f"relationship {value.name}", _positive(more))

    def _usage_of(self, node: str, session: Session) -> SessionUsage:
        """The usage of a node, for all its parts; if it has none, of the session's user."""
        quotas = self._state.quotas
        return quotas.find(node) or quotas.of(node, session.usage.user.name)

    def _claim_place(self, session: Session, value: PlaceDefined) -> None:
        if value.geometry is None:
            return
        places, quotas = self._state.engine.matcher.places, self._state.quotas
        more = {Resource.PLACES: 1, Resource.PLACE_VERTICES: area_vertices(value.geometry)}
        before = places.get(value.place_kind, value.name, value.parent)
        if before is not None:
            more[Resource.PLACES] = 0
            more[Resource.PLACE_VERTICES] -= area_vertices(before.geometry)
        key = f"place {value.place_kind}\0{value.name}"
        quotas.claim(session.usage, key, _positive(more))


def _positive(amounts: dict[Resource, int]) -> dict[Resource, int]:
    """Return what is added; what becomes free is free once it is decided."""
    return {resource: max(0, amount) for resource, amount in amounts.items()}
