"""The list of nodes: as JSON on `$me/nodes`, and over HTTP in the same form.

The result has for each node what the client may read on `$node/NODE/…`, in pages. The cursor is
encrypted, because it may name a node that the client may not know of.
"""

from collections.abc import Mapping

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from msgspec import Struct

from nearcast.broker.auth.permissions import Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.situation.metadata import time_text
from nearcast.broker.situation.nc_properties import BAD, area_of, filter_of
from nearcast.broker.situation.node_topics import CONTEXT, ONLINE, POSITION, topic_of
from nearcast.core.engine.engine import Engine
from nearcast.core.engine.queries.node_query import FoundNode, NodeQuery
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_NOTHING, SEE_POSITION

MOST = 1_000
USUAL = 100
PAGE_BYTES = 256 << 10
WORDS = ("in", "where", "near", "most", "cursor")


class NodeAnswer(Struct, frozen=True, omit_defaults=True):
    """A page of nodes."""

    nodes: list[msgspec.Raw]
    next: str | None = None
    """The cursor of the next page; missing if there is none."""
    complete: bool = True
    """False if there may be nearer nodes: too many candidates did not match."""

    def as_value(self) -> dict[str, object]:
        """The members of the answer."""
        members: dict[str, object] = {"nodes": self.nodes, "next": self.next}
        return members if self.complete else members | {"complete": False}


class _View(Struct, frozen=True):
    """What a client may see of nodes, by sight rules and by topic rules."""

    viewer: str
    allowed: Permissions
    engine: Engine

    def sees(self, node: str) -> int:
        """Return the visible aspects of a node; nothing if none of its topics may be read."""
        sees = self.engine.matcher.world.may_see(self.viewer, node)
        if node == self.viewer or self.allowed.unrestricted:
            return sees
        if not self.may_read(node, POSITION):
            sees &= ~SEE_POSITION
        if not self.may_read(node, CONTEXT):
            sees &= ~SEE_ATTRIBUTES
        if not sees & (SEE_POSITION | SEE_ATTRIBUTES) and not self.may_read(node, ONLINE):
            return SEE_NOTHING
        return sees

    def may_read(self, node: str, what: str) -> bool:
        """Whether the rules allow a topic about a node."""
        return node == self.viewer or self.allowed.may_subscribe(topic_of(node, what))


class NodeList:
    """Answers queries for nodes."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._seal = Fernet(Fernet.generate_key())

    def answer(
        self,
        viewer: str,
        allowed: Permissions,
        request: Mapping[str, object],
        most_bytes: int = PAGE_BYTES,
    ) -> NodeAnswer:
        """Return the nodes that a request selects; raises `RefusedError`."""
        view = _View(viewer, allowed, self._state.engine)
        page = self._state.engine.find_nodes(
            self._query(viewer, request), view.sees, self._state.parts
        )
        nodes: list[msgspec.Raw] = []
        size, last = 0, ""
        for found in page.nodes:
            one = msgspec.json.encode(self._members(found, view))
            size += len(one) + 1
            if nodes and size > most_bytes and request.get("near") is None:
                return NodeAnswer(nodes, self._sealed(last))
            nodes.append(msgspec.Raw(one))
            last = found.node
        return NodeAnswer(
            nodes, None if page.next is None else self._sealed(page.next), page.complete
        )

    def _query(self, viewer: str, request: Mapping[str, object]) -> NodeQuery:
        for name in request:
            if name not in WORDS:
                raise RefusedError(BAD, f"unknown {shown(name)}; there are {', '.join(WORDS)}")
        area, where, near = (request.get(name) for name in ("in", "where", "near"))
        if near is not None and (not isinstance(near, str) or not near):
            raise RefusedError(BAD, f'"near" is a node, or me, not {shown(near)}')
        most = request.get("most", USUAL)
        if type(most) is not int or not 0 < most <= MOST:
            raise RefusedError(BAD, f'"most" is 1 to {MOST}, not {shown(most)}')
        query = NodeQuery(
            viewer,
            None if area is None else area_of(area, '"in"'),
            None if where is None else filter_of(where, '"where"'),
            near,
            most,
            self._unsealed(request.get("cursor")),
        )
        if query.area is not None:
            try:
                self._state.engine.vet_area(query.area)
            except ModelError as error:
                raise RefusedError(BAD, f'"in": {error}') from None
        return query

    def _members(self, found: FoundNode, view: "_View") -> dict[str, object]:
        """The members of a node that may be read."""
        node, engine = found.node, self._state.engine
        sees, state = view.sees(node), engine.nodes.get(node)
        position = context = None
        if state is not None and sees & SEE_POSITION:
            position = state.position
        if sees & SEE_ATTRIBUTES:
            context = engine.rights.context(node)
        members: dict[str, object] = {
            "node": node,
            "position": None if position is None else [position.lon, position.lat],
            "time": None,
            "context": context or {},
            "online": node in self._state.online if view.may_read(node, ONLINE) else None,
        }
        if position is not None and state is not None and state.position_at is not None:
            members["time"] = time_text(state.position_at)
        if found.distance_m is not None:
            members["distance"] = round(found.distance_m, 3)
        return members

    def _sealed(self, name: str) -> str:
        return self._seal.encrypt(name.encode()).decode()

    def _unsealed(self, cursor: object) -> str:
        if cursor is None:
            return ""
        try:
            return self._seal.decrypt(str(cursor)).decode()
        except (InvalidToken, ValueError):
            raise RefusedError(
                BAD, '"cursor" is not one that this broker gave since it was started; begin again'
            ) from None
