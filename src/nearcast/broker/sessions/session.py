"""A session: what the broker owes one client, whether it is there or not.

A state machine without I/O. Messages wait in order; as many as the client accepts at once are in
flight, and what was not acknowledged is sent again when the client comes back. What waits is
bounded in messages and bytes: then the newest is dropped, and counted. Of a session that
outlives its connection every step is noted in the journal.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import ceil

from nearcast.broker.auth.permissions import ANYTHING, Permissions
from nearcast.broker.config.settings import Limits
from nearcast.broker.durability.journal import Journal
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.granted import SessionSubscription
from nearcast.core.model.event import Subscription
from nearcast.store import (
    Dequeued,
    Enqueued,
    MessagePut,
    ReceivedDropped,
    ReceivedPut,
    Released,
    Sent,
    SessionOwner,
    Stage,
    StoredMessage,
)
from nearcast.wire.mqtt import (
    PacketType,
    PublishFrame,
    ReasonCode,
    message_expiry,
    subscription_identifiers,
    success,
    user_properties,
)

LARGEST_PACKET_ID = 65_535
LONGEST_EXPIRY_S = 0xFFFF_FFFF
OVERHEAD_BYTES = 200
"""What a waiting message takes beside its text."""


class OutboundMessage:
    """A message on its way to any number of sessions."""

    __slots__ = ("enveloped", "expires_at", "frame", "live_key", "message_id", "publisher")

    def __init__(
        self,
        frame: PublishFrame,
        publisher: str = "",
        expires_at: float | None = None,
        message_id: int = 0,
        live_key: str | None = None,
        enveloped: bool = False,
    ) -> None:
        self.frame = frame
        self.publisher = publisher
        self.expires_at = expires_at
        self.message_id = message_id
        """Its number in the store, once it has one."""
        self.live_key = live_key
        """Of a live event, or of what withdraws one: its key."""
        self.enveloped = enveloped
        """The payload tells of the event, in JSON round what was published."""

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        frame = self.frame
        return len(frame.payload) + len(frame.topic) + len(frame.raw_properties) + OVERHEAD_BYTES


class QueuedDelivery:
    """A parcel for one session."""

    __slots__ = (
        "identifiers", "metadata", "number", "packet_id", "parcel", "priority", "qos", "released",
        "retain",
    )  # fmt: skip

    def __init__(
        self,
        parcel: OutboundMessage,
        qos: int,
        retain: bool = False,
        identifiers: tuple[int, ...] = (),
        metadata: tuple[tuple[str, str], ...] = (),
        priority: int = 1,
    ) -> None:
        self.parcel = parcel
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.metadata = metadata
        """User properties for this recipient."""
        self.priority = priority
        self.number = 0
        """Its place in the store's queue."""
        self.packet_id = 0
        self.released = False
        """The client has it (QoS 2): only the release is still to be confirmed."""

    @property
    def tells(self) -> bool:
        """Whether it tells of its event, so that a client can make out what withdraws what."""
        return bool(self.metadata) or self.parcel.enveloped


class Session:
    """One client's subscriptions and messages."""

    __slots__ = (
        "_in_flight", "_last_id", "_paced", "_waiting", "client_id", "connection", "created",
        "direct_connection", "dropped", "durable", "expiry_s", "granted", "is_kept", "left_at",
        "misses", "node", "notices", "owner", "permissions", "receive_maximum", "received",
        "waiting_bytes", "waiting_unconfirmed",
    )  # fmt: skip

    def __init__(self, client_id: str, created: float = 0.0) -> None:
        self.client_id = client_id
        self.node = _node_of(client_id)
        self.created = created
        self.owner: SessionOwner | None = None
        """Whose it is; None: of whoever may connect to it first."""
        self.permissions: Permissions = ANYTHING
        self.left_at: float | None = None
        """Since when nobody is connected."""
        self.notices: tuple[tuple[str, str], ...] = ()
        """What its client is to be told when it returns: topics and texts."""
        self.expiry_s = 0.0
        self.durable = False
        """It outlives its connection, so the store has it all."""
        self.is_kept = False
        """The store knows of it: it is durable, or has a will."""
        self.receive_maximum = LARGEST_PACKET_ID
        self.granted: dict[str, SessionSubscription] = {}
        self.received: set[int] | None = None
        """Packet ids of QoS 2 messages that the client has not released yet."""
        self.connection: Connection | None = None
        self.direct_connection: Connection | None = None
        """The connection if a shared QoS 0 frame may be appended to its `out` as it is."""
        self.dropped = 0
        self.misses = False
        """It is to get live events that there was no room for."""
        self.waiting_bytes = 0
        self.waiting_unconfirmed = 0
        """How many of QoS 0 wait; one that comes later must not overtake them."""
        self._waiting: deque[QueuedDelivery] | None = None
        self._in_flight: dict[int, QueuedDelivery] | None = None
        self._last_id = 0
        self._paced = False

    @property
    def part(self) -> str:
        """Its client id where that is not the name of its node, else nothing."""
        return "" if self.client_id == self.node else self.client_id

    @property
    def lifetime(self) -> str:
        """Its name, unlike that of an earlier or later session of the same client."""
        return f"{self.client_id}\0{self.created!r}"

    @property
    def has_messages(self) -> bool:
        """Whether anything waits or is in flight."""
        return bool(self._waiting or self._in_flight)

    # Its connection

    def attach(self, connection: Connection) -> None:
        """Use a connection whose CONNECT was accepted."""
        self.connection, connection.session = connection, self
        self.update_direct_connection()

    def detach(self) -> None:
        """Go on without a connection."""
        if self.connection is not None:
            self.connection.session = None
        self.connection = self.direct_connection = None

    @property
    def paced(self) -> bool:
        """Whether its messages go out at the rate of its class of link."""
        return self._paced

    @paced.setter
    def paced(self, paced: bool) -> None:
        self._paced = paced
        self.update_direct_connection()

    def update_direct_connection(self) -> None:
        """Decide anew whether shared QoS 0 frames may bypass the queue.

        All reasons against it are here; whoever changes one of them calls this.
        """
        connection = self.connection
        if (
            connection is None
            or connection.closing
            or connection.blocked
            or connection.largest_packet  # the frame may be too large
            or connection.alias_most  # its topic may be written as an alias
            or self.waiting_unconfirmed  # it would overtake them
            or self._paced
        ):
            connection = None
        self.direct_connection = connection

    # To the client

    def put(self, message: QueuedDelivery, limits: Limits, journal: Journal) -> bool:
        """Let a message wait, unless too many do; QoS 0 waits for nobody who is away."""
        if not message.qos and self.connection is None:
            return False
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = deque()
        size = message.parcel.size
        if len(waiting) >= limits.queued or self.waiting_bytes + size > limits.queued_bytes:
            self.dropped += 1
            return False
        waiting.append(message)
        self.waiting_bytes += size
        if not message.qos:
            self.waiting_unconfirmed += 1
            self.direct_connection = None
        elif self.durable:
            self._keep(message, journal)
        return True

    def pump(self, now: float, limits: Limits, journal: Journal) -> None:
        """Hand to the connection what can be sent now."""
        waiting, connection = self._waiting, self.connection
        if not waiting or connection is None or connection.closing:
            return
        in_flight = self._in_flight
        if in_flight is None:
            in_flight = self._in_flight = {}
        most = min(self.receive_maximum, limits.in_flight)
        unconfirmed = self.waiting_unconfirmed
        while waiting and not connection.blocked:
            message = waiting[0]
            if message.qos and len(in_flight) >= most:
                break
            waiting.popleft()
            parcel = message.parcel
            self.waiting_bytes -= parcel.size
            self.waiting_unconfirmed -= not message.qos
            again = message.packet_id > 0
            if not again and parcel.expires_at is not None and parcel.expires_at <= now:
                self._done(message, journal)
                continue
            if not message.qos:
                if not self._write(message, connection, now):
                    self.dropped += 1
                continue
            if not again:
                message.packet_id = self._next_id(in_flight)
            if not self._write(message, connection, now, dup=again):
                self.dropped += 1
                self._done(message, journal)
                continue
            in_flight[message.packet_id] = message
            if self.durable and not again:
                # A QoS 2 message sent again under another id would be another message.
                sent = Sent(self.client_id, message.number, message.packet_id)
                journal.note(sent, sync=message.qos == 2)
        if unconfirmed and not self.waiting_unconfirmed:
            self.update_direct_connection()

    def has_room(self, limits: Limits) -> bool:
        """Whether no more waits than half of what may."""
        return (
            2 * len(self._waiting or ()) <= limits.queued
            and 2 * self.waiting_bytes <= limits.queued_bytes
        )

    def resume(self, now: float, journal: Journal) -> None:
        """Send again what a client that came back has not acknowledged.

        It may take fewer at once than before: then the others wait, before all that is new.
        """
        connection, in_flight = self.connection, self._in_flight or {}
        assert connection is not None
        sent, waiting = 0, []
        for packet_id, message in list(in_flight.items()):
            if message.released:
                connection.out.append(success(PacketType.PUBREL, packet_id))
            elif sent >= self.receive_maximum:
                waiting.append(in_flight.pop(packet_id))
            elif self._write(message, connection, now, dup=True):
                sent += 1
            else:
                self.dropped += 1
                self._done(in_flight.pop(packet_id), journal)
        if waiting:
            self._waiting = deque([*waiting, *(self._waiting or ())])
            self.waiting_bytes += sum(each.parcel.size for each in waiting)

    def acknowledged(self, packet_id: int, journal: Journal) -> None:
        """PUBACK: done with a message of QoS 1."""
        message = self._in_flight.get(packet_id) if self._in_flight else None
        if message is not None and message.qos == 1:
            self._finish(message, journal)

    def refused_by_client(self, packet_id: int, journal: Journal) -> None:
        """PUBREC with a failure: done with a message of QoS 2."""
        message = self._in_flight.get(packet_id) if self._in_flight else None
        if message is not None and message.qos == 2 and not message.released:
            self._finish(message, journal)

    def completed(self, packet_id: int, journal: Journal) -> None:
        """PUBCOMP: done with a message that was released."""
        message = self._in_flight.get(packet_id) if self._in_flight else None
        if message is not None and message.released:
            self._finish(message, journal)

    def received_by_client(self, packet_id: int, journal: Journal) -> ReasonCode:
        """PUBREC: release it."""
        message = self._in_flight.get(packet_id) if self._in_flight else None
        if message is None or message.qos != 2:
            return ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        if not message.released:
            message.released = True
            if self.durable:
                # Lost, it would be published again after the client forgot its packet id.
                journal.note(Released(self.client_id, message.number, packet_id))
        return ReasonCode.SUCCESS

    def identifiers_of(self, subscriptions: Iterable[Subscription]) -> tuple[int, ...]:
        """The identifiers that the client gave to subscriptions."""
        grants = (self.granted.get(each.id.partition("\0")[2]) for each in subscriptions)
        return tuple(g.identifier for g in grants if g is not None and g.identifier is not None)

    def drop_copies(self, live_key: str, limits: Limits, journal: Journal) -> None:
        """Drop what waits of a live event that is withdrawn, but no plain message of MQTT."""
        waiting = list(self._waiting or ())
        gone = [
            each
            for each in waiting[self._sendable(waiting, limits) :]
            # One that was sent before may be with the client already.
            if each.parcel.live_key == live_key and each.tells and not each.packet_id
        ]
        self._drop_waiting(gone, journal)

    def _sendable(self, waiting: Sequence[QueuedDelivery], limits: Limits) -> int:
        """How many of those that wait go out as soon as the tick is over."""
        connection = self.connection
        if connection is None or connection.closing or connection.blocked:
            return 0
        room = min(self.receive_maximum, limits.in_flight) - len(self._in_flight or ())
        for place, message in enumerate(waiting):
            if message.qos and room <= 0:
                return place
            room -= message.qos > 0
        return len(waiting)

    def drop_from(self, node: str, journal: Journal) -> int:
        """Drop what waits or is in flight of a publisher's messages; how many."""
        return self.drop(lambda each: _node_of(each.parcel.publisher) == node, journal)

    def drop(self, unwanted: Callable[[QueuedDelivery], bool], journal: Journal) -> int:
        """Drop what waits or is in flight and not released, as far as it is unwanted; how many."""
        gone = [each for each in self._waiting or () if unwanted(each)]
        self._drop_waiting(gone, journal)
        in_flight = (self._in_flight or {}).values()
        sent = [each for each in in_flight if not each.released and unwanted(each)]
        for message in sent:
            self._finish(message, journal)
        return len(gone) + len(sent)

    def _drop_waiting(self, gone: Sequence[QueuedDelivery], journal: Journal) -> None:
        if gone:
            dropped = set(map(id, gone))
            self._waiting = deque(each for each in self._waiting or () if id(each) not in dropped)
        for message in gone:
            self.waiting_bytes -= message.parcel.size
            self.waiting_unconfirmed -= not message.qos
            self._done(message, journal)
        self.update_direct_connection()

    # From the client

    def receive(self, packet_id: int, journal: Journal) -> bool:
        """Take a QoS 2 message; False if it was taken before."""
        if self.received is None:
            self.received = set()
        if packet_id in self.received:
            return False
        self.received.add(packet_id)
        if self.durable:
            journal.note(ReceivedPut(self.client_id, packet_id))
        return True

    def release(self, packet_id: int, journal: Journal) -> bool:
        """PUBREL: the packet id may mean another message; whether it meant one."""
        if self.received is None or packet_id not in self.received:
            return False
        self.received.discard(packet_id)
        if self.durable:
            journal.note(ReceivedDropped(self.client_id, packet_id))
        return True

    # From the store

    def restore(self, kept: Enqueued, parcel: OutboundMessage) -> None:
        """Take back what was owed before a restart."""
        pairs = tuple(zip(kept.names[::2], kept.names[1::2], strict=True))
        message = QueuedDelivery(
            parcel, kept.qos, kept.retain, kept.identifiers, pairs, kept.priority
        )
        message.number, message.packet_id = kept.number, kept.packet
        message.released = kept.stage == Stage.RELEASED
        if kept.stage == Stage.WAITING:
            if self._waiting is None:
                self._waiting = deque()
            self._waiting.append(message)
            self.waiting_bytes += parcel.size
        else:
            if self._in_flight is None:
                self._in_flight = {}
            self._in_flight[kept.packet] = message
            self._last_id = kept.packet

    def statistics(self) -> dict[str, int]:
        """How much waits."""
        return {
            "waiting": len(self._waiting or ()),
            "waiting_bytes": self.waiting_bytes,
            "in_flight": len(self._in_flight or ()),
            "received": len(self.received or ()),
            "dropped": self.dropped,
        }

    def validate_state(self, limits: Limits) -> None:
        """Assert what always holds."""
        waiting, in_flight = self._waiting or deque(), self._in_flight or {}
        assert self.waiting_bytes == sum(each.parcel.size for each in waiting)
        assert self.waiting_unconfirmed == sum(not each.qos for each in waiting)
        assert len(waiting) <= limits.queued + limits.in_flight
        assert all(0 < number <= LARGEST_PACKET_ID for number in in_flight)
        assert all(each.packet_id == number for number, each in in_flight.items())
        assert all(each.qos for each in in_flight.values())
        if self.connection is not None:
            assert self.connection.session is self
        direct = self.direct_connection
        self.update_direct_connection()
        assert self.direct_connection is direct

    def _write(
        self, message: QueuedDelivery, connection: Connection, now: float, dup: bool = False
    ) -> bool:
        """Write a message to the connection; False if it is larger than the client takes."""
        parcel, frame, version = message.parcel, message.parcel.frame, connection.version
        additions = b""
        if message.identifiers:
            additions = subscription_identifiers(message.identifiers)
        if parcel.expires_at is not None:
            left_s = ceil(min(parcel.expires_at - now, LONGEST_EXPIRY_S))
            additions += message_expiry(max(0, left_s))
        if message.metadata:
            additions += user_properties(message.metadata)
        alias, known = connection.alias(frame) if connection.alias_most else (b"", False)
        additions += alias
        if not self._fits(message, connection, additions, known):
            if alias and not known:
                connection.forget_alias(frame.topic)
            return False
        if message.qos:
            connection.out += frame.acknowledged(
                version, message.qos, message.packet_id, message.retain, dup, additions, known
            )
        else:
            connection.out.append(frame.at_most_once(version, message.retain, additions, known))
        return True

    def _fits(
        self, message: QueuedDelivery, connection: Connection, additions: bytes, alias_only: bool
    ) -> bool:
        largest = connection.largest_packet
        if not largest:
            return True
        size = message.parcel.frame.size(connection.version, message.qos, additions, alias_only)
        return size <= largest

    def _keep(self, message: QueuedDelivery, journal: Journal) -> None:
        if not journal.keeps:
            return
        parcel = message.parcel
        if not parcel.message_id:
            parcel.message_id = next(journal.message_ids)
            frame = parcel.frame
            value = StoredMessage(
                frame.topic, frame.payload, parcel.publisher, parcel.expires_at,
                extra=frame.raw_properties, live_key=parcel.live_key, enveloped=parcel.enveloped,
            )  # fmt: skip
            journal.note(MessagePut(parcel.message_id, value))
        message.number = next(journal.queue_numbers)
        enqueued = Enqueued(
            self.client_id, message.number, parcel.message_id, message.qos, message.retain,
            message.priority, identifiers=message.identifiers,
            names=tuple(text for pair in message.metadata for text in pair),
        )  # fmt: skip
        journal.note(enqueued)

    def _finish(self, message: QueuedDelivery, journal: Journal) -> None:
        assert self._in_flight is not None
        del self._in_flight[message.packet_id]
        self._done(message, journal)

    def _done(self, message: QueuedDelivery, journal: Journal) -> None:
        if message.qos and self.durable and message.number:
            journal.note(Dequeued(self.client_id, message.number), sync=False)

    def _next_id(self, in_flight: dict[int, QueuedDelivery]) -> int:
        packet_id = self._last_id
        while True:
            packet_id = packet_id % LARGEST_PACKET_ID + 1
            if packet_id not in in_flight:
                self._last_id = packet_id
                return packet_id


def _node_of(client_id: str) -> str:
    return client_id.partition("~")[0]
