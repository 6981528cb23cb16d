"""A node without a broker in a program: the same events, areas and filters, over multicast."""

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from nearcast.adhoc.credentials import (
    Credentials,
    KeyLike,
    MembersLike,
    SigningKeyLike,
    credentials,
)
from nearcast.adhoc.errors import AdhocError, AdhocOptionsError, MulticastError
from nearcast.adhoc.event_stream import EventStream, Handler
from nearcast.adhoc.group_addresses import BEACONS, PORT, Family, group_name
from nearcast.adhoc.multicast_socket import Hears, MulticastSocket
from nearcast.adhoc.relation_stream import RelationStream, defined, relation_in
from nearcast.client.api.areas import AreaLike, HasNode, PositionLike
from nearcast.client.api.node_follow import FixSource
from nearcast.client.location.fix_sources import as_they_come
from nearcast.client.receive.observations import Relation
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.core.engine.proximity_engine import ProximityEngine, ProximityOutcome
from nearcast.core.language.filter import parse
from nearcast.core.model import Area, Around, Position, parse_area
from nearcast.core.model.event import Delivery, Subscription
from nearcast.core.model.geometry.area import ME
from nearcast.core.model.geometry.position import position
from nearcast.core.model.inputs import RelationshipEnded
from nearcast.core.model.subject import check_pattern
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityCounts, ProximityKept
from nearcast.errors import NearcastError
from nearcast.logs import log_event
from nearcast.simulation.network.datagrams import DatagramSocket, SocketStatistics
from nearcast.wire.beacons.datagram_codec import DatagramCodec, DatagramCounts
from nearcast.wire.beacons.group_key import PSEUDONYM, SALT_BYTES, KeyRing
from nearcast.wire.beacons.message_codec import BeaconError
from nearcast.wire.beacons.signatures import Signatures

log = logging.getLogger("nearcast.adhoc")
BUFFER = 1_000
RESERVED = ("me", "here")


class AdhocStatistics(Struct, frozen=True):
    """What a node without a broker did, refused and keeps."""

    proximities: int
    """Areas of others that concern it here."""
    groups: int
    sockets: SocketStatistics
    send_failures: int
    counts: ProximityCounts
    datagrams: DatagramCounts
    kept: ProximityKept
    refusals: int
    """Events and announcements of others that the engine refused."""


class AdhocNode:
    """A node on a multicast network; `async with` opens it and closes it.

    Announcements and subscriptions hold wherever the node goes; which events reach it depends on
    where it is. One object is for one event loop.
    """

    def __init__(
        self,
        node: str,
        socket: Callable[[], DatagramSocket],
        trusts: Credentials,
        settings: ProximitySettings,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.node = node
        """The node's id."""
        self._make_socket = socket
        self._keys = KeyRing(trusts.keys, b"")
        # A later run of the node has a larger number, so that its first beacon counts.
        run = max(int(clock() * 1_000), 1)
        self._engine = ProximityEngine(node, settings, run, node_of=self._keys.node_of)
        self._signatures = Signatures(node, trusts.sign, trusts.members, self._keys.node_of)
        self._pseudonym_s = trusts.pseudonym_s
        self._renames: asyncio.TimerHandle | None = None
        self._clock = clock
        self._streams: dict[str, EventStream] = {}
        self._relations: list[RelationStream] = []
        self._states: dict[str, Relation] = {}
        """The latest state of each relationship."""
        self._names = count(1)
        self._socket: DatagramSocket | None = None
        self._codec: DatagramCodec | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = math.inf

    def __repr__(self) -> str:
        return f"<AdhocNode {self.node!r}>"

    # Opening

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the sockets; raises `MulticastError` if there is no multicast here."""
        assert self._socket is None, "it is open already"
        socket = self._make_socket()
        try:
            socket.join(BEACONS)
        except BaseException:
            socket.close()
            raise
        self._keys.renew(os.urandom(6))
        self._codec = DatagramCodec(self._keys, socket.largest_bytes, self._signatures)
        self._socket = socket
        socket.receive = self._receive
        if isinstance(socket, MulticastSocket):
            socket.start(asyncio.get_running_loop())
        if self._pseudonym_s is not None:
            self._change_name(self._pseudonym_s)

    async def close(self) -> None:
        """End the announcements, as far as others hear it, and close the sockets."""
        socket = self._socket
        if socket is None:
            return
        for event_type in self._engine.proximities.announced:
            self._carry_out(self._engine.unannounce(event_type.subject, self._clock()))
        self._socket = None
        for timer in (self._timer, self._renames):
            if timer is not None:
                timer.cancel()
        socket.close()
        for stream in list(self._streams.values()):
            stream.finish()
        for relation in self._relations:
            relation.finish()

    # What programs say

    async def move(self, lat: float, lon: float) -> None:
        """Take a fix: announcements that move go with it, and filters see it."""
        self._carry_out(self._engine.move(position(lat, lon), self._clock()))

    async def follow(self, source: FixSource) -> int:
        """Take the fixes of a source until it ends, and return how many there were.

        The source is any iterable of positions, such as those of `nearcast.client.location`: a GPS
        receiver, a file of NMEA sentences, a recorded or a simulated track.
        """
        taken = 0
        async for fix in as_they_come(source):
            at = _position(fix)
            await self.move(at.lat, at.lon)
            taken += 1
        return taken

    async def context(self, **attributes: object) -> None:
        """Change this node's context, which its own filters read as `me.…`; None removes one."""
        patch: dict[str, Any] = attributes
        self._carry_out(self._engine.patch_context(patch, self._clock()))

    async def announce(
        self, event_type: EventType | str, *, to: AreaLike, grow_s: float = 0.0
    ) -> None:
        """Announce a type of events, or a subject without a type, and where they are relevant.

        `to` is a fixed area, or one around this node that moves with it; with `grow_s` a moving one
        reaches farther by what the node travels in so many seconds. The announcement stands until
        `unannounce`, wherever the node goes. Raises `ModelError` if the node has no position yet,
        or the subject is announced here with another structure.
        """
        kind = EventType(event_type) if isinstance(event_type, str) else event_type
        area = self._area(to)
        self._carry_out(self._engine.announce(kind, area, self._clock(), grow_s))

    async def unannounce(self, event_type: EventType | str) -> None:
        """End an announcement."""
        subject = event_type if isinstance(event_type, str) else event_type.subject
        self._carry_out(self._engine.unannounce(subject, self._clock()))

    async def raise_(
        self,
        subject: EventType | str,
        attributes: Mapping[str, object] | None = None,
        *,
        at: PositionLike | None = None,
    ) -> str:
        """Raise an event of an announced type, and return its id; it was sent, or waits to be.

        Raises `EventTypeError` if it does not have its type, and `AdmissionError` if it is beyond
        its share of the channel.
        """
        name = subject if isinstance(subject, str) else subject.subject
        where = None if at is None else _position(at)
        given = {} if attributes is None else attributes
        found, outcome = self._engine.raise_event(name, given, self._clock(), where)
        self._carry_out(outcome)
        return found

    publish = raise_

    def raise_for(
        self,
        publisher: str,
        event_id: str,
        subject: str,
        attributes: Mapping[str, object],
        at: Position | None = None,
    ) -> None:
        """Raise an event that another node published elsewhere, under its id; for gateways."""
        _, outcome = self._engine.raise_event(
            subject, attributes, self._clock(), at, publisher=publisher, event_id=event_id
        )
        self._carry_out(outcome)

    def listen(self, pattern: str, hear: Callable[[Delivery], object]) -> EventStream:
        """Return a subscription that calls with whole deliveries; for gateways."""
        stream = self.subscribe(pattern)
        stream.hear = hear
        return stream

    def positions(self) -> dict[str, Position]:
        """Return where the producers of proximities here are, as last heard."""
        found = self._engine.proximities.discovered
        return {self.node_of(each.beacon.producer): each.naval for each in found}

    def node_of(self, name: str) -> str:
        """Return the node that goes by a name here: its own, or a pseudonym of this group."""
        return self._keys.node_of(name)

    @property
    def speaks_for_others(self) -> bool:
        """True if members believe this node what others published elsewhere; for gateways."""
        return self._signatures.speaks_for_others

    @property
    def alias(self) -> str:
        """The name by which others know this node now."""
        return self._engine.proximities.names.alias

    def subscribe(
        self,
        pattern: str,
        handler: Handler | None = None,
        *,
        where: str | Mapping[str, object] | None = None,
        from_: AreaLike | None = None,
        within: AreaLike | None = None,
        no_local: bool = True,
        buffer: int = BUFFER,
    ) -> EventStream:
        """Return matching events as a stream: `async with` subscribes, `async for` reads.

        `pattern` is a subject with the wildcards `+` and `#`; `where` a filter in CQL2, `from_` the
        area where events happen. With `within` this consumer also gets what producers in an area of
        its own choice raise, although it is outside theirs. A `handler` is called with each event,
        in place of the iterator. Raises `ModelError` and `LanguageError` for what is not valid.
        """
        check_pattern(pattern)
        subscription = Subscription(
            f"{self.node}/{next(self._names)}",
            self.node,
            pattern,
            None if where is None else parse(where),
            None if from_ is None else self._area(from_),
            no_local=no_local,
        )
        area = None if within is None else self._area(within)
        return EventStream(self, subscription, area, handler, buffer)

    async def unsubscribe(self, stream: EventStream) -> None:
        """End a subscription."""
        await stream.close()

    async def relate(
        self,
        name: str,
        members: Sequence[str | HasNode] | Mapping[str, float],
        *,
        within: float | None = None,
        beyond: float | None = None,
        need: Literal["all", "any"] | int = "all",
        where: str | Mapping[str, object] | None = None,
    ) -> None:
        """Define a named relationship between nodes here, as with a broker; see `Node.relate`.

        This node judges it, by where it knows the members to be: those that announce something
        tell it in their beacons; who is not heard any more is nowhere, and so apart.
        """
        each = defined(name, self.node, members, within, beyond, need, where)
        self._carry_out(self._engine.relate(each, self._clock()))

    async def unrelate(self, name: str) -> None:
        """End a relationship."""
        self._carry_out(self._engine.relate(RelationshipEnded(name), self._clock()))

    def relation(self, name: str) -> RelationStream:
        """Return the state of a relationship of this node, now and after every change."""
        return RelationStream(self, name)

    def statistics(self) -> AdhocStatistics:
        """Return what it did, refused and keeps."""
        proximities, socket = self._engine.proximities, self._socket
        return AdhocStatistics(
            len(proximities.discovered),
            len(proximities.groups),
            SocketStatistics() if socket is None else socket.statistics(),
            socket.send_failures if isinstance(socket, MulticastSocket) else 0,
            replace(proximities.counts),
            DatagramCounts() if self._codec is None else replace(self._codec.counts),
            proximities.kept,
            self._engine.refusals,
        )

    @property
    def discovered(self) -> list[tuple[str, EventType]]:
        """Producers and the types that they announce in proximities here."""
        found = self._engine.proximities.discovered
        return [(each.beacon.producer, each.type) for each in found if not each.beacon.sought]

    # Called by streams

    def begin(self, stream: EventStream) -> None:
        """Begin a subscription."""
        self._streams[stream.subscription.id] = stream
        try:
            outcome = self._engine.subscribe(stream.subscription, self._clock(), stream.within)
        except BaseException:
            del self._streams[stream.subscription.id]
            raise
        self._carry_out(outcome)

    def end(self, stream: EventStream) -> None:
        """End a subscription."""
        del self._streams[stream.subscription.id]
        seeks = stream.within is not None
        self._carry_out(self._engine.unsubscribe(stream.subscription, self._clock(), seeks))

    def begin_relation(self, stream: RelationStream) -> None:
        """Begin a stream of states."""
        self._relations.append(stream)
        latest = self._states.get(stream.name)
        if latest is not None:
            stream.put(latest)

    def end_relation(self, stream: RelationStream) -> None:
        """End a stream of states."""
        self._relations.remove(stream)
        stream.finish()

    # The network

    def _receive(self, data: bytes, sender: str) -> None:
        assert self._codec is not None
        now = self._clock()
        message = self._codec.decode(data, now)
        if message is not None:
            self._go_on(self._engine.receive(message, now))

    def _carry_out(self, outcome: ProximityOutcome) -> None:
        socket, codec = self._socket, self._codec
        if socket is None or codec is None:
            raise AdhocError("this node is not open: use it inside `async with`")
        for group in outcome.joins:
            try:
                socket.join(group_name(group))
            except MulticastError as error:
                log_event(log, logging.WARNING, "cannot_join_group", reason=str(error))
        for group in outcome.leaves:
            socket.leave(group_name(group))
        problem: NearcastError | None = None
        for send in outcome.sends:
            to = BEACONS if send.group is None else group_name(send.group)
            try:
                for datagram in codec.encode(send.message):
                    socket.send(datagram, to)
            except (MulticastError, BeaconError) as error:
                # The rest of what follows has to happen all the same.
                problem = error
        for delivery in outcome.deliveries:
            for name in delivery.subscriptions:
                stream = self._streams.get(name)
                if stream is not None:
                    stream.put(delivery)
        for notice in outcome.notices:
            self._tell_relation(notice)
        self._schedule()
        if problem is not None:
            raise problem

    def _tell_relation(self, notice: RelationshipNotice) -> None:
        relation = relation_in(notice)
        if notice.ended:
            self._states.pop(notice.relationship, None)
        else:
            self._states[notice.relationship] = relation
        for stream in self._relations:
            if stream.name == notice.relationship:
                stream.put(relation)

    def _schedule(self) -> None:
        at = self._engine.wake_at
        if at == self._wakes_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wakes_at = at
        if math.isfinite(at):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(at - self._clock(), 0.0), self._wake)

    def _wake(self) -> None:
        self._timer, self._wakes_at = None, math.inf
        if self._socket is not None:
            # A timer may ring a little early.
            now = max(self._clock(), self._engine.wake_at)
            self._go_on(self._engine.elapse(now))

    def _go_on(self, outcome: ProximityOutcome) -> None:
        """Carry out what nobody called for; what cannot be sent is told in the log."""
        try:
            self._carry_out(outcome)
        except (MulticastError, BeaconError) as error:
            log_event(log, logging.WARNING, "cannot_send", reason=str(error))

    def _change_name(self, lasts_s: float) -> None:
        """Go by another pseudonym; what is sent before and after has nothing in common."""
        alias = self._keys.keys[0].pseudonym(self.node, os.urandom(SALT_BYTES))
        self._go_on(self._engine.vanish(self._clock()))
        self._keys.renew(os.urandom(6))
        if isinstance(self._socket, MulticastSocket):
            self._socket.renew()
        self._go_on(self._engine.rename(alias, self._clock()))
        # Those who began together do not change together.
        wait_s = lasts_s * (0.8 + 0.2 * int.from_bytes(os.urandom(2), "big") / 65_536.0)
        loop = asyncio.get_running_loop()
        self._renames = loop.call_later(wait_s, self._change_name, lasts_s)

    def _area(self, area: AreaLike) -> Area:
        """Return an area, in which this node is "me"."""
        found = parse_area(area) if isinstance(area, str | Mapping) else area
        if isinstance(found, Around) and found.anchor == self.node:
            return Around(ME, found.shape)
        return found


def adhoc(
    node: str,
    *,
    key: KeyLike | Sequence[KeyLike] | None = None,
    interface: str | None = None,
    family: Family = 4,
    port: int = PORT,
    radio_range: float | None = None,
    settings: ProximitySettings | None = None,
    hears: Hears | None = None,
    clock: Callable[[], float] = time.time,
    sign: SigningKeyLike | None = None,
    members: MembersLike | None = None,
    pseudonym_s: float | None = None,
) -> AdhocNode:
    """Return a node that `async with` opens on a multicast network, without a broker.

    `key` is the group key, as 32 bytes or a file that `nearcast adhoc key` made; of several the
    first seals, and all open. Without one everything is sent in the clear. `interface` is the name
    of a network interface; by default it is the one that multicast goes to. `family` is that of IP,
    4 or 6. Areas that reach beyond `radio_range` metres (200) are covered over several hops;
    `settings` has everything else. `hears` says of the address of a sender whether it is in range,
    to emulate a radio; `clock` is the time in seconds since 1970, on which nodes must agree.

    With `sign`, the key of a file that `nearcast adhoc sign` made, what this node says is signed;
    with `members`, a file of their public keys, nothing is taken that is not signed by the member
    that it is from. With `pseudonym_s` others know this node by a name that changes after about so
    many seconds; only who has the group key can tell whose it is (`node_of`).

    Raises `AdhocOptionsError`, `GroupKeyError` and `MembersError` (all `ValueError`) for invalid
    arguments.
    """
    if not node or "~" in node or node in RESERVED or len(node) > 256:
        raise AdhocOptionsError(
            f"{node!r} is no node; a name of at most 256 characters without ~ is, but not me or "
            "here"
        )
    if node.startswith(PSEUDONYM):
        raise AdhocOptionsError(f"{node!r} is no node: names with {PSEUDONYM} are pseudonyms")
    if family not in (4, 6):
        raise AdhocOptionsError(f"family is {family}; that of IP is 4 or 6")
    chosen = ProximitySettings() if settings is None else settings
    if radio_range is not None:
        if not (math.isfinite(radio_range) and radio_range > 0.0):
            raise AdhocOptionsError(f"radio_range is {radio_range} m; it is more than 0")
        chosen = replace(chosen, radio_range_m=radio_range)
    return AdhocNode(
        node,
        lambda: MulticastSocket(interface, family, port, hears=hears),
        credentials(node, key, sign, members, pseudonym_s),
        chosen,
        clock,
    )


def _position(at: PositionLike) -> Position:
    if isinstance(at, Position):
        return at
    lat, lon = at
    return position(lat, lon)
