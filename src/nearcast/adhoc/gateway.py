"""A gateway: a node with an uplink, between its proximity groups and a broker, both ways.

Upwards it publishes what it hears as the node that raised it, in a session of that node which it
may act for, under the event's own id: of several gateways in one place the broker takes the first,
and ignores the repeats. Downwards it raises what the broker has, with the id and the node of the
publisher: nodes that hear several gateways, or the original, take one. What came down is never
carried up again, and what went up does not come back to those who heard it. Positions in the ad hoc
world become contexts at the broker. Pseudonyms become the node that they stand for, by the group
key.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from msgspec import Struct

from nearcast.adhoc.adhoc_node import AdhocNode
from nearcast.adhoc.errors import AdhocOptionsError
from nearcast.adhoc.event_stream import EventStream
from nearcast.client.api.areas import AreaLike
from nearcast.client.api.node import Node
from nearcast.client.errors import ClientError, ConnectionLostError
from nearcast.client.receive.received import Received
from nearcast.core.model import Area, Around, Position, area_text
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Delivery
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.errors import AdmissionError
from nearcast.logs import log_event

log = logging.getLogger("nearcast.adhoc")
MOST_KNOWN = 100_000
MOST_SESSIONS = 100
MOST_WAITING = 1_000
RETRY_S = 30.0
"""A node for which this may not act is tried again after so long."""

ActFor = Callable[[str], Node]
"""Called with the id of a node; returns a client that is that node, with a part of its own."""


class GatewayStatistics(Struct):
    """What crossed, and what did not."""

    up: int = 0
    down: int = 0
    positions: int = 0
    known: int = 0
    """Events that had crossed already, or came from the other side."""
    refused: int = 0
    """Events of nodes for which this gateway may not act."""
    dropped: int = 0
    """Events for which the channel or the uplink had no room, or that are no JSON objects."""


class Gateway:
    """Carries events between an ad hoc node and a broker; `async with` starts and ends it.

    `uplink` is the gateway's own connected client; `act_for` makes one for each node that is heard,
    such as `lambda node: nc.connect(url, node=node, part="gateway-1", user=..., password=...)`: its
    user needs the right to act for them. `up` are patterns of what goes to the broker, `down` the
    types or subjects that come from it, raised in `area`.
    """

    def __init__(
        self,
        node: AdhocNode,
        uplink: Node,
        act_for: ActFor,
        *,
        up: Sequence[str] = (),
        down: Sequence[EventType | str] = (),
        area: AreaLike | None = None,
        positions_s: float = 1.0,
    ) -> None:
        if down and area is None:
            raise AdhocOptionsError("what comes down needs an area in which it is raised: area=...")
        if down and not node.speaks_for_others:
            raise AdhocOptionsError(
                f"members do not believe {node.node!r} what others published: mark it as a gateway "
                "in the file of members (nearcast adhoc sign NODE FILE --gateway)"
            )
        self.statistics = GatewayStatistics()
        self._node = node
        self._uplink = uplink
        self._act_for = act_for
        self._up = tuple(up)
        self._down = [EventType(each) if isinstance(each, str) else each for each in down]
        self._area = area
        self._positions_s = positions_s
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Publisher and id of what was heard on either side."""
        self._sessions: OrderedDict[str, Node] = OrderedDict()
        self._opening = asyncio.Lock()
        self._refused_until: dict[str, float] = {}
        self._told: dict[str, Position] = {}
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue(MOST_WAITING)
        self._streams: list[EventStream] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for event_type in self._down:
            assert self._area is not None
            await self._node.announce(event_type, to=self._area)
            self._tasks.append(asyncio.create_task(self._carry_down(event_type.subject)))
        for pattern in self._up:
            stream = self._node.listen(pattern, self._hear)
            await stream.open()
            self._streams.append(stream)
        if self._up:
            self._tasks.append(asyncio.create_task(self._carry_up()))
            self._tasks.append(asyncio.create_task(self._tell_positions()))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams:
            await stream.close()
        for event_type in self._down:
            await self._node.unannounce(event_type)
        for session in self._sessions.values():
            await session.close()

    # Up

    def _hear(self, delivery: Delivery) -> None:
        """Take an event of the ad hoc world."""
        event = delivery.event
        publisher = self._node.node_of(event.publisher)
        is_new = self._note(publisher, event.id)
        # What another gateway raised came from a broker.
        if not is_new or event.session or publisher == self._node.node:
            self.statistics.known += 1
            return
        try:
            self._waiting.put_nowait(delivery)
        except asyncio.QueueFull:
            self.statistics.dropped += 1

    async def _carry_up(self) -> None:
        while True:
            event = (await self._waiting.get()).event
            publisher = self._node.node_of(event.publisher)
            session = await self._session(publisher)
            if session is None:
                self.statistics.refused += 1
                continue
            if event.position is not None:
                await self._move(publisher, session, event.position)
            left_s = None if event.expires_at is None else max(event.expires_at - time.time(), 0.01)
            try:
                await session.publish(
                    event.subject,
                    event.payload,
                    at=event.position,
                    to=None if event.to is None else area_text(self._area_of(event.to)),
                    valid=None if event.valid_s is None else left_s,
                    id=event.id,
                )
                self.statistics.up += 1
            except (ClientError, ModelError) as error:
                self.statistics.dropped += 1
                log_event(log, logging.WARNING, "event not carried up", why=str(error))

    def _area_of(self, area: Area) -> Area:
        """Return an area of the ad hoc world, round the node that a pseudonym stands for."""
        if isinstance(area, Around):
            return Around(self._node.node_of(area.anchor), area.shape)
        return area

    async def _session(self, node: str) -> Node | None:
        """Return the session that acts for a node, or None if this may not."""
        # Events and positions of a node may come at once, and it has one session.
        async with self._opening:
            return await self._found_or_opened(node)

    async def _found_or_opened(self, node: str) -> Node | None:
        found = self._sessions.get(node)
        if found is not None:
            self._sessions.move_to_end(node)
            return found
        if self._refused_until.get(node, 0.0) > time.monotonic():
            return None
        found = self._act_for(node)
        try:
            await found.open()
        except ClientError as error:
            self._refused_until[node] = time.monotonic() + RETRY_S
            if len(self._refused_until) > MOST_KNOWN:
                self._refused_until.clear()
            log_event(log, logging.WARNING, "may not act for node", node=node, why=str(error))
            return None
        self._sessions[node] = found
        if len(self._sessions) > MOST_SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            await oldest.close()
        return found

    async def _tell_positions(self) -> None:
        """Tell the broker where the nodes here are, as their beacons say."""
        while True:
            await asyncio.sleep(self._positions_s)
            for node, position in self._node.positions().items():
                if self._told.get(node) == position:
                    continue
                session = await self._session(node)
                if session is not None:
                    await self._move(node, session, position)

    async def _move(self, node: str, session: Node, position: Position) -> None:
        if self._told.get(node) == position:
            return
        try:
            await session.move(position.lat, position.lon)
        except ClientError as error:
            log_event(log, logging.WARNING, "position not carried up", node=node, why=str(error))
            return
        if len(self._told) > MOST_KNOWN:
            self._told.clear()
        self._told[node] = position
        self.statistics.positions += 1

    # Down

    async def _carry_down(self, subject: str) -> None:
        while True:
            try:
                # A filter that always holds: metadata come with it.
                async with self._uplink.subscribe(subject, where="TRUE") as events:
                    async for event in events:
                        await self._take_down(event)
                return
            except ConnectionLostError:
                return

    async def _take_down(self, event: Received) -> None:
        if event.publisher is None or event.id is None or event.withdrawn:
            self.statistics.dropped += 1
            return
        if not self._note(event.publisher, event.id):
            self.statistics.known += 1
            return
        if not event.payload.lstrip().startswith(b"{"):
            self.statistics.dropped += 1
            return
        try:
            self._node.raise_for(
                event.publisher, event.id, event.subject, event.attributes, event.position
            )
            self.statistics.down += 1
        except (ModelError, AdmissionError) as error:
            self.statistics.dropped += 1
            log_event(log, logging.WARNING, "event not carried down", why=str(error))

    def _note(self, publisher: str, event: str) -> bool:
        """Remember an event; return whether it is new."""
        key = publisher, event
        if key in self._known:
            return False
        self._known[key] = None
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return True
