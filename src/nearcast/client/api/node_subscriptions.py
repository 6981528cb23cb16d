"""What a node receives: events, sightings in areas, relationships, the state of other nodes."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from secrets import token_hex
from urllib.parse import quote

import msgspec

from nearcast.client.api.areas import AreaLike, HasNode, encode_area
from nearcast.client.api.commands import ERRORS, Problem, problem_of
from nearcast.client.api.subscription_request import (
    SubscriptionRequest,
    encode_filter,
    encode_from,
    encode_relevance,
    is_of_the_broker,
)
from nearcast.client.errors import OptionsError
from nearcast.client.receive.observations import (
    Known,
    NodeListPage,
    Present,
    Relation,
    Sighting,
    known_with,
    node_page_of,
    node_topic,
    relation_of,
    sighting_of,
)
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import BUFFER, Stream, StreamContext
from nearcast.core.model.subject import check_subject
from nearcast.wire.mqtt import MQTT_5, parse_filter


class NodeSubscriptions:
    """The receiving half of a node."""

    def __init__(self, context: StreamContext) -> None:
        self._context = context
        run = token_hex(4)
        self._names = (f"{run}-{number}" for number in count(1))
        self._reading = asyncio.Lock()
        self._asking = asyncio.Lock()

    @property
    def node(self) -> str:
        """The node's id: the client id before the first `~`, which is followed by a part."""
        return self._context.exchange.client_id.partition("~")[0]

    def subscribe(
        self,
        pattern: str,
        *,
        where: str | Mapping[str, object] | None = None,
        from_: AreaLike | None = None,
        relevance: str | Sequence[float] | float | None = None,
        aggregate: str | Mapping[str, object] | None = None,
        name: str | None = None,
        qos: int = 1,
        no_local: bool = True,
        buffer: int = BUFFER,
        keep: bool = False,
    ) -> Stream[Received]:
        """Return matching events as a stream: `async with` subscribes, `async for` reads.

        `pattern` is a subject with the wildcards `+` and `#`; `where` a filter in CQL2, `from_` the
        area where events happen. `relevance` says how much each atom of the filter matters, from 0
        to 1 in the order in which they are written (or `levels:3,2,1`, or `role`): on a thin link
        the most relevant events come first, and `event.priority` tells. With `aggregate`, such as
        `volume 20 wait 60`, events wait and come together: `event.count` tells how many. A `name`
        identifies the subscription in the session in place of its pattern. `keep` leaves it in the
        session when the stream is closed, for use with `connect(resume=True)`. The node's own
        events are left out unless `no_local` is False.
        Raises `ModelError` for an invalid pattern, and `OptionsError` for a name that is in use;
        see `Stream` for the rest.
        """
        parse_filter(pattern)
        request = SubscriptionRequest(
            pattern=pattern,
            where=encode_filter(where),
            from_=encode_from(from_),
            relevance=encode_relevance(relevance),
            aggregate=encode_filter(aggregate),
            qos=qos,
            no_local=no_local,
            name=self._name_for(pattern, name, keep),
        )
        return Stream(self._context, request, lambda event: event, buffer=buffer, keep=keep)

    def watch(
        self,
        area: AreaLike | None = None,
        *,
        nodes: str | Mapping[str, object] | None = None,
        name: str | None = None,
        buffer: int = BUFFER,
        keep: bool = False,
    ) -> Stream[Sighting]:
        """Return the nodes that enter and leave an area, as a stream.

        `nodes` is a filter over contexts. Under a `name` other nodes can read it too; without an
        area it is the watched area of that name, defined elsewhere. Closing ends the watch, unless
        it is kept or was defined elsewhere.
        """
        if area is None and name is None:
            raise OptionsError("give an area to watch, or the name of one that is watched")
        called = check_subject(name or f"{quote(self.node, safe='')}/{next(self._names)}")
        topic = f"$area/{called}"
        send = self._context.commands.send
        if area is None:
            return Stream(
                self._context,
                SubscriptionRequest(pattern=topic),
                sighting_of,
                buffer=buffer,
                keep=keep,
            )
        members: dict[str, object] = {"area": encode_area(area)}
        if nodes is not None:
            members["nodes"] = encode_filter(nodes)
        document = msgspec.json.encode(members)
        return Stream(
            self._context,
            SubscriptionRequest(pattern=topic),
            sighting_of,
            buffer=buffer,
            keep=keep,
            begin=lambda: send(topic, document),
            end=lambda: send(topic, b""),
        )

    def relation(self, name: str, *, buffer: int = BUFFER) -> Stream[Relation]:
        """Return the state of a relationship, now and after every change, as a stream.

        It is told if this node may see the positions of all members.
        """
        pattern = f"$relate/{check_subject(name)}"
        return Stream(
            self._context, SubscriptionRequest(pattern=pattern), relation_of, buffer=buffer
        )

    def observe(self, node: str | HasNode, *, buffer: int = BUFFER) -> Stream[Known]:
        """Return what is known of a node, now and after every change, as a stream."""
        name = node if isinstance(node, str) else node.node
        known: Known = Known(name)
        is_first = True

        def read(event: Received) -> Known | None:
            nonlocal known, is_first
            before, known = known, known_with(known, event)
            if not is_first and known == before:
                return None
            is_first = False
            return known

        return Stream(
            self._context, SubscriptionRequest(pattern=node_topic(name, "+")), read, buffer=buffer
        )

    async def read(self, node: str | HasNode) -> Known:
        """Return what is known of a node now: position, context, and whether it is online.

        Values that this node may not see, and unknown ones, are missing.
        """
        name = node if isinstance(node, str) else node.node
        known = Known(name)
        for event in await self.retained(node_topic(name, "#")):
            known = known_with(known, event)
        return known

    async def nodes(
        self,
        in_: AreaLike | None = None,
        *,
        where: str | Mapping[str, object] | None = None,
        near: str | HasNode | None = None,
        most: int | None = None,
    ) -> list[Present]:
        """Return the nodes that this node may see, in an area and matching a filter.

        `where` is a filter over contexts. With `near`, a node or "me", the nearest come first, with
        their distance, ten unless `most` is given; without it they are sorted by name, and read in
        pages until there are no more or `most` were found.
        """
        query: dict[str, object] = {}
        if in_ is not None:
            query["in"] = encode_area(in_)
        if where is not None:
            query["where"] = encode_filter(where)
        if near is not None:
            query["near"] = near if isinstance(near, str) else near.node
            most = _USUALLY_NEAR if most is None else most
        found: list[Present] = []
        while most is None or len(found) < most:
            left = _PAGE if most is None else min(_PAGE, most - len(found))
            page = await self._ask_for_nodes({**query, "most": left})
            found += page.nodes
            if page.cursor is None:
                break
            query["cursor"] = page.cursor
        return found

    async def _ask_for_nodes(self, query: Mapping[str, object]) -> NodeListPage:
        """Request one page, and wait for the answer."""
        mark = next(self._names)
        stream = Stream(
            self._context,
            SubscriptionRequest(pattern=NODES),
            lambda event: node_page_of(event, mark),
            buffer=_FEW,
        )
        async with self._asking, stream:
            question = msgspec.json.encode({"id": mark, **query})
            await self._context.commands.send(NODES, question)
            return await anext(stream)

    async def retained(self, pattern: str) -> list[Received]:
        """Return the messages now retained on the topics that match a pattern.

        Raises `BacklogError` if so much is unread in other streams that the end is never reached.
        """
        parse_filter(pattern)
        context = self._context
        # All streams can subscribe to topics of the broker at once, but not to others.
        own = is_of_the_broker(pattern)
        request = SubscriptionRequest(
            pattern=pattern, qos=1, no_local=False, name=None if own else next(self._names)
        )
        stream = Stream(context, request, lambda event: event, buffer=_MOST_RETAINED)
        async with self._reading, stream:
            # Messages in flight come before the answer to a later request, but the broker may hold
            # some back while much is unsent: so repeat until an answer comes without messages.
            found, before = list[Received](), -1
            while context.mailboxes.received != before:
                before = context.mailboxes.received
                await context.exchange.unsubscribe(_NOBODYS)
                found += stream.take_all()
        return [event for event in found if event.retain]

    def errors(self, *, buffer: int = BUFFER) -> Stream[Problem]:
        """Return the broker's problems with messages and subscriptions of this session.

        A stream of refusals (`error`), and of requests without effect because something is missing
        (`warning`).
        """
        return Stream(self._context, SubscriptionRequest(pattern=ERRORS), problem_of, buffer=buffer)

    def _name_for(self, pattern: str, name: str | None, keep: bool) -> str | None:
        """Return the name that a subscription needs; None if its pattern can identify it."""
        mailboxes = self._context.mailboxes
        if name is not None:
            if mailboxes.holds(name):
                raise OptionsError(f"{name!r} is being read already")
            return name
        if is_of_the_broker(pattern):
            return None
        if self._context.exchange.version == MQTT_5 and not mailboxes.holds(pattern):
            return None
        if keep:
            raise OptionsError("a subscription that is kept needs a name here")
        return next(self._names)


NODES = "$me/nodes"
_PAGE = 1_000
_USUALLY_NEAR = 10
_FEW = 8
_MOST_RETAINED = 100_000
_NOBODYS = "$me/nothing"
