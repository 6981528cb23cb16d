"""Quotas of commands: announcements, watched areas, places, contexts and nodes.

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
)


class InputLimiter:
    """Refuses inputs beyond a quota, and reserves room for the others."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.make_room: Callable[[], bool] = lambda: False
        """Drops what is known of an idle node; False if there is none."""

    def claim(self, session: Session, value: Input) -> None:
        """Reserve room for what an input adds; raises `RefusedError` if there is none."""
        if isinstance(value, Moved):
            self.claim_node(value.node)
        elif isinstance(value, ContextPatched):
            self.claim_node(value.node)
            self._claim_context(value)
        elif isinstance(value, Announced):
            self._claim_announcement(session, value)
        elif isinstance(value, AreaWatched):
            self._claim_area(session, value)
        elif isinstance(value, PlaceDefined):
            self._claim_place(value)

    def claim_node(self, node: str) -> None:
        """Reserve room for a node, if it is new."""
        state, quotas = self._state, self._state.quotas
        if node in state.engine.nodes and not state.pending.is_expiring(node):
            return
        if not quotas.in_all.has_room(Resource.NODES, 1):
            self.make_room()
        quotas.claim(quotas.broker, f"node {node}", {Resource.NODES: 1})

    def _claim_context(self, value: ContextPatched) -> None:
        # A merged context is at most larger by the patch.
        quotas, size = self._state.quotas, context_bytes(value.patch)
        number = len(self._state.pending.inputs)
        quotas.claim(quotas.broker, f"context {number}", {Resource.CONTEXT_BYTES: size})

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
        usage = self._usage_of_node(session)
        quotas.claim(usage, f"area {value.name}", _positive(more))

    def _usage_of_node(self, session: Session) -> SessionUsage:
        """The usage that areas of a session's node count for; those of all its parts do."""
        quotas, user = self._state.quotas, session.usage.user.name
        return quotas.find(session.node) or quotas.of(session.node, user)

    def _claim_place(self, value: PlaceDefined) -> None:
        if value.geometry is None:
            return
        places, quotas = self._state.engine.matcher.places, self._state.quotas
        more = {Resource.PLACES: 1, Resource.PLACE_VERTICES: area_vertices(value.geometry)}
        before = places.get(value.place_kind, value.name, value.parent)
        if before is not None:
            more[Resource.PLACES] = 0
            more[Resource.PLACE_VERTICES] -= area_vertices(before.geometry)
        key = f"place {value.place_kind}\0{value.name}"
        quotas.claim(quotas.broker, key, _positive(more))


def _positive(amounts: dict[Resource, int]) -> dict[Resource, int]:
    """Return what is added; what becomes free is free once it is decided."""
    return {resource: max(0, amount) for resource, amount in amounts.items()}
