"""The state of a relationship at a node without a broker, as a stream."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from nearcast.client.api.areas import HasNode
from nearcast.client.receive.observations import Relation
from nearcast.client.receive.receive_buffer import ReceiveBuffer
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.core.language.filter import parse
from nearcast.core.model.geometry.area import ME
from nearcast.core.model.inputs import RelationshipDefined

if TYPE_CHECKING:
    from nearcast.adhoc.adhoc_node import AdhocNode

BUFFER = 1_000
_BYTES = 100


class RelationStream:
    """What a relationship comes to be: `async with` begins, `async for` yields its states.

    The state of now comes first. Of more than 1,000 unread states the oldest are dropped.
    """

    def __init__(self, node: "AdhocNode", name: str) -> None:
        self.name = name
        self._node = node
        self._arrivals = ReceiveBuffer[Relation](BUFFER, BUFFER * _BYTES)

    async def __aenter__(self) -> Self:
        self._node.begin_relation(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._node.end_relation(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Relation:
        """Return the next state; raises `StopAsyncIteration` at the end."""
        found = await self._arrivals.get()
        if found is None:
            raise StopAsyncIteration
        return found

    def put(self, relation: Relation) -> None:
        """Take a state."""
        if self._arrivals.full:
            self._arrivals.drop_oldest()
        self._arrivals.put(relation, _BYTES)

    def finish(self) -> None:
        """End the stream: what is unread can still be read."""
        self._arrivals.end(None)


def relation_in(notice: RelationshipNotice) -> Relation:
    """Return a notice of the engine as programs see states."""
    return Relation(
        "near" if notice.near else "apart",
        () if notice.ended else notice.members,
        notice.distance,
        datetime.fromtimestamp(notice.time, UTC),
        notice.by or None,
        notice.ended,
    )


def defined(
    name: str,
    node: str,
    members: Sequence[str | HasNode] | Mapping[str, float],
    within: float | None,
    beyond: float | None,
    need: Literal["all", "any"] | int,
    where: str | Mapping[str, object] | None,
) -> RelationshipDefined:
    """Return the definition that a node makes; the engine checks it."""
    names = [each if isinstance(each, str) else each.node for each in members]
    metres = tuple(map(float, members.values())) if isinstance(members, Mapping) else ()
    count = {"all": len(names), "any": 2}.get(need, need) if isinstance(need, str) else need
    assert isinstance(count, int)
    return RelationshipDefined(
        name, node, tuple(node if each == ME else each for each in names), count, within, beyond,
        metres, where=None if where is None else parse(where),
    )  # fmt: skip
