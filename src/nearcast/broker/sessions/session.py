"""A session: subscriptions and outbound messages of one client, connected or not.

A state machine without I/O. Messages wait in an outbox; as many as the client accepts at once are
in flight under packet ids, and unacknowledged ones are sent again when the client reconnects. Every
step of a session that outlives its connection is noted in the journal. The outbox gets priority
levels with the first message that needs them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from nearcast.broker.auth.permissions import ANYTHING, Permissions
from nearcast.broker.config.settings import Limits
from nearcast.broker.durability.journal import Journal
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.scheduling.cost_account import CostAccount
from nearcast.broker.sessions.delivery_writer import store_delivery, write_delivery
from nearcast.broker.sessions.granted import SessionSubscription, count_subscription
from nearcast.broker.sessions.loss_reason import LossReason
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.core.model.event import Subscription
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.core.propagation.link_pace import LinkPace
from nearcast.core.propagation.outbox import WITHHELD, Outbox, needs_levels
from nearcast.core.propagation.priority_outbox import PriorityOutbox
from nearcast.core.propagation.priority_traffic import PriorityTraffic
from nearcast.store import (
    Dequeued,
    Enqueued,
    ReceivedDropped,
    ReceivedPut,
    Released,
    Sent,
    SessionOwner,
    Stage,
    decoded_basis,
)
from nearcast.wire.mqtt import (
    PacketType,
    PublishFrame,
    ReasonCode,
    success,
)

if TYPE_CHECKING:
    from nearcast.broker.sessions.event_reader import EventReader

QUEUED_BYTES, PACKET_IDS = int(Resource.QUEUED_BYTES), Resource.PACKET_IDS
LARGEST_PACKET_ID = 65_535
_LIFETIME_SEPARATOR = "\0"

_DROPPED = OutboundMessage(PublishFrame("dropped"))
"""Replaces the content of an in-flight message that is dropped."""
_EMPTY: Outbox[QueuedDelivery] = Outbox()
"""The shared outbox of sessions that never queued a message."""
_NOTHING_GRANTED: dict[str, SessionSubscription] = {}
"""The shared subscriptions of sessions that have none: most of those that are idle."""
_UNCOUNTED = PriorityTraffic()
"""For sessions without a broker."""
_NONE: Sequence[QueuedDelivery] = ()


class Session:
    """One client's subscriptions and messages."""

    __slots__ = (
        "_allowance",
        "_in_flight",
        "_last_id",
        "_lower_in_flight",
        "account",
        "client_id",
        "connection",
        "created",
        "direct_connection",
        "dropped",
        "durable",
        "expiry_s",
        "granted",
        "is_kept",
        "left_at",
        "losses",
        "misses",
        "node",
        "notices",
        "outbox",
        "owner",
        "pace",
        "permissions",
        "priorities",
        "reader",
        "receive_maximum",
        "received",
        "usage",
    )  # fmt: skip

    def __init__(
        self,
        client_id: str,
        created: float = 0.0,
        usage: SessionUsage | None = None,
        priorities: PriorityTraffic = _UNCOUNTED,
    ) -> None:
        self.client_id = client_id
        self.node = _node_of(client_id)
        self.created = created
        self.account = CostAccount(client_id)
        """What it has cost so far."""
        self.usage = SessionUsage(client_id) if usage is None else usage
        """What it uses of the quotas."""
        self.priorities = priorities
        self.owner: SessionOwner | None = None
        """The owner; None: the first client that is allowed to connect becomes the owner."""
        self.permissions: Permissions = ANYTHING
        self.left_at: float | None = None
        """The time of the disconnection; None while connected."""
        self.notices: tuple[tuple[str, str], ...] = ()
        """Notices for the client when it reconnects: topics and texts."""
        self.expiry_s = 0.0
        self.durable = False
        """It outlives its connection, so all of it is stored."""
        self.is_kept = False
        """It is in the store: it is durable, or has a will."""
        self.receive_maximum = LARGEST_PACKET_ID
        self.granted = _NOTHING_GRANTED
        """By the id of the subscription."""
        self.received: set[int] | None = None
        """Packet ids of QoS 2 messages that the client has not released yet."""
        self.connection: Connection | None = None
        self.direct_connection: Connection | None = None
        """The connection, if a shared QoS 0 frame may be appended to its `out` unchanged."""
        self.dropped = 0
        self.losses: dict[str, int] | None = None
        """Dropped messages that its client was not told of yet, by `LossReason.key`."""
        self.reader: EventReader | None = None
        """Who reads its queue in place of a client."""
        self.misses = False
        """It still has to get live events that did not fit into its queue."""
        self.outbox: Outbox[QueuedDelivery] | PriorityOutbox[QueuedDelivery] = _EMPTY
        self._in_flight: dict[int, QueuedDelivery] | None = None
        self._lower_in_flight = 0
        """How many messages in flight are not of the best priority."""
        self._last_id = 0
        self._allowance: int | None = None
        self.pace: LinkPace | None = None
        """How its link is paced; None: it is written to as long as it does not block."""

    @property
    def part(self) -> str:
        """Its client id if that differs from the node name, else an empty string."""
        return "" if self.client_id == self.node else self.client_id

    @property
    def lifetime(self) -> str:
        """A name that differs from those of earlier and later sessions of the same client."""
        return f"{self.client_id}{_LIFETIME_SEPARATOR}{self.created!r}"

    @property
    def has_messages(self) -> bool:
        """Whether messages are queued or in flight."""
        return bool(self.outbox or self._in_flight)

    @property
    def waiting(self) -> int:
        """The number of queued messages."""
        return len(self.outbox)

    @property
    def waiting_bytes(self) -> int:
        """The size of the queued messages."""
        return self.outbox.waiting_bytes

    # Subscriptions

    def grant(self, id_: str, granted: SessionSubscription) -> None:
        """Add a subscription, replacing that of the same id."""
        self.revoke(id_)
        if self.granted is _NOTHING_GRANTED:
            self.granted = {}
        self.granted[id_] = granted
        count_subscription(self.usage, granted, 1)

    def revoke(self, id_: str) -> bool:
        """Remove a subscription; return whether there was one."""
        granted = self.granted.pop(id_, None)
        if granted is None:
            return False
        count_subscription(self.usage, granted, -1)
        return True

    def release_usage(self) -> None:
        """Count nothing for this session any more: it has ended."""
        for granted in self.granted.values():
            count_subscription(self.usage, granted, -1)
        self.usage = SessionUsage(self.client_id)

    # Connection

    def attach(self, connection: Connection) -> None:
        """Use a connection whose CONNECT was accepted."""
        self.connection, connection.session = connection, self
        if self.pace is not None:
            self.pace = LinkPace()
        self.update_direct_connection()

    def detach(self) -> None:
        """Continue without a connection."""
        if self.connection is not None:
            self.connection.session = None
        in_flight = self._in_flight or {}
        for delivery in list(in_flight.values()):
            if delivery.released and delivery.qos == 1:
                # It was dropped; a PUBACK could only have come over this connection.
                del in_flight[delivery.packet_id]
                self._lower_in_flight -= delivery.priority != 1
                self.usage.dequeue(delivery.size)
        self.connection = self.direct_connection = None

    @property
    def allowance(self) -> int | None:
        """How many bytes of messages may be sent before more are allowed; None: no pacing.

        The last message may exceed it; then the allowance is negative.
        """
        return self._allowance

    @allowance.setter
    def allowance(self, allowance: int | None) -> None:
        self._allowance = allowance
        self.update_direct_connection()

    def pace_link(self, paced: bool) -> None:
        """Keep what waits in the queue, written in portions as the link takes them; or no more."""
        if paced != (self.pace is not None):
            self.pace = LinkPace() if paced else None
            self.update_direct_connection()

    def link_measured(self, throughput_kbps: float) -> None:
        """Size the portions of a paced link to what it carries."""
        if self.pace is not None:
            self.pace.measured(throughput_kbps)
            self.update_direct_connection()

    def written(self) -> bool:
        """Note that the link was given all that was for it; return whether more waits."""
        if self.pace is None:
            return False
        self.pace.is_writing = False
        return bool(self.outbox)

    def update_direct_connection(self) -> None:
        """Recompute whether shared QoS 0 frames may bypass the outbox.

        All conditions against it are here; code that changes one of them must call this.
        """
        connection = self.connection
        if (
            connection is None
            or connection.closing
            or connection.blocked
            or connection.largest_packet  # the frame may be too large
            or connection.alias_most  # its topic may be written as an alias
            or connection.encoder is not None  # its payload may be encoded
            or connection.chains is not None  # it may come from a peer
            or self.outbox.unconfirmed  # it would overtake them
            or self._allowance is not None  # it has a share of the uplink
            or (self.pace is not None and (self.pace.is_thin or self.outbox.waiting_bytes))
        ):
            connection = None
        self.direct_connection = connection

    # To the client

    def put(
        self, delivery: QueuedDelivery, limits: Limits, journal: Journal
    ) -> Sequence[QueuedDelivery]:
        """Queue a message; return what was dropped for want of room, perhaps the message itself.

        One of QoS 0 for a client that is not connected is neither queued nor counted.
        """
        qos = delivery.qos
        if not qos and self.connection is None and self.reader is None:
            return _NONE
        outbox = self.outbox
        if outbox is _EMPTY or delivery.priority != 1 or delivery.deadline is not None:
            outbox = self._outbox_for(delivery)
        dropped = _NONE
        if not self.usage.enqueue(delivery.size):
            dropped = self._make_room(delivery, LossReason.SHARED, limits, journal)
        elif not outbox.put(delivery, limits):
            self.usage.dequeue(delivery.size)
            dropped = self._make_room(delivery, LossReason.FULL, limits, journal)
        if dropped and dropped[0] is delivery:
            return dropped
        if dropped:
            self.usage.add(Resource.QUEUED_BYTES, delivery.size)
            outbox.restore(delivery)
        if not qos:
            if delivery.priority != WITHHELD:
                self.direct_connection = None
        elif self.durable:
            store_delivery(self.client_id, delivery, journal)
        if self.pace is not None:
            self.direct_connection = None
        return dropped

    def fits(self, delivery: QueuedDelivery, limits: Limits) -> bool:
        """Whether there is room for a message, without dropping another that is to be sent."""
        return self.outbox.fits(delivery, limits) and self.usage.shortage(delivery.size) <= 0

    def put_anyway(self, delivery: QueuedDelivery, limits: Limits, journal: Journal) -> bool:
        """Queue a message of the broker itself although the queue may be full.

        False if even more is queued than what can be in flight besides.
        """
        outbox = self._outbox_for(delivery)
        if len(outbox) >= limits.queued + limits.in_flight:
            return False
        self.usage.add(Resource.QUEUED_BYTES, delivery.size)
        outbox.restore(delivery)
        if not delivery.qos or self.pace is not None:
            self.direct_connection = None
        if delivery.qos and self.durable:
            store_delivery(self.client_id, delivery, journal)
        return True

    def _make_room(
        self, delivery: QueuedDelivery, reason: str, limits: Limits, journal: Journal
    ) -> Sequence[QueuedDelivery]:
        """Drop the least urgent messages for a new one, or the new one alone; return them."""
        outbox, size = self.outbox, delivery.size
        excess = outbox.waiting_bytes + size - limits.queued_bytes
        excess = max(excess, self.usage.shortage(size))
        gone = outbox.make_room(delivery, len(outbox) + 1 - limits.queued, excess)
        for each in gone or ():
            self.lose(reason, priority=each.priority)
        if gone is None:
            self.lose(reason, priority=delivery.priority)
            return (delivery,)
        self._drop(gone, journal)
        return gone

    def reprioritise(self, priority_of: Callable[[QueuedDelivery], int]) -> None:
        """Give what waits and was not sent other priorities.

        What is stored of it stays: after a restart it is prioritised again.
        """
        outbox = self.outbox
        if not isinstance(outbox, PriorityOutbox):
            messages = outbox.messages()
            if all(each.was_sent or priority_of(each) == 1 for each in messages):
                return
            outbox = self.outbox = PriorityOutbox(self.priorities.share_bytes, messages)
        self.priorities.withheld += outbox.reprioritise(priority_of)
        self.update_direct_connection()

    def pump(self, now: float, limits: Limits, journal: Journal) -> None:
        """Write as many queued messages to the connection as can be sent now."""
        outbox, connection = self.outbox, self.connection
        if (
            not outbox.waiting_bytes
            or connection is None
            or connection.closing
            or connection.blocked
        ):
            return
        in_flight = self._in_flight
        if in_flight is None:
            in_flight = self._in_flight = {}
        places, unconfirmed, counted = self._places(limits), outbox.unconfirmed, self.priorities
        if self.usage.used[QUEUED_BYTES] - outbox.waiting_bytes >= limits.queued_bytes:
            # So many bytes are in flight: nothing is added until the client acknowledges some.
            places = 0
        gone_bytes = first = 0
        pace, allowance = self.pace, self._allowance
        if pace is not None:
            allowance = pace.allowance(allowance)
        while True:
            ready, expired, late = outbox.take(
                now, places, len(in_flight), self._lower_in_flight, allowance
            )
            unsent: list[QueuedDelivery] = []
            if expired or late:
                unsent += expired
                unsent += late
                for delivery in unsent:
                    gone_bytes += delivery.size
                    self._done(delivery, journal)
                for delivery in late:
                    self.lose(LossReason.DEADLINE, priority=delivery.priority)
            if allowance is not None:
                taken = sum(each.size for each in ready)
                allowance -= taken
                if self._allowance is not None:
                    self._allowance -= taken
            for delivery in ready:
                qos, again = delivery.qos, delivery.packet_id > 0
                if qos and not again:
                    delivery.packet_id = self._next_id(in_flight)
                self.account.packets_sent += 1
                if not write_delivery(delivery, connection, now, again):
                    self.account.packets_sent -= 1
                    self.lose(LossReason.TOO_LARGE, priority=delivery.priority)
                    gone_bytes += delivery.size
                    self._done(delivery, journal)
                    unsent.append(delivery)
                    if allowance is not None:
                        allowance += delivery.size
                        if self._allowance is not None:
                            self._allowance += delivery.size
                    continue
                if delivery.priority != 1:
                    self._lower_in_flight += qos > 0
                    counted.sent[delivery.priority] += not again
                elif not again:
                    first += 1
                if qos:
                    in_flight[delivery.packet_id] = delivery
                    if pace is not None:
                        pace.sent(delivery.packet_id, now)
                    if self.durable and not again:
                        # A QoS 2 message sent again under another packet id would be a second
                        # message.
                        sent = Sent(self.client_id, delivery.number, delivery.packet_id)
                        journal.note(sent, sync=qos == 2)
                else:
                    gone_bytes += delivery.size
            if not unsent:
                break
            # Messages that could not be sent leave room for others.
        counted.sent[1] += first
        self.usage.dequeue(gone_bytes)
        if pace is not None:
            pace.is_writing = pace.is_writing or bool(connection.out)
            self.update_direct_connection()
        elif unconfirmed and not outbox.unconfirmed:
            self.update_direct_connection()

    def _places(self, limits: Limits) -> int:
        """How many messages may be in flight."""
        places = min(self.receive_maximum, limits.in_flight)
        if self.pace is not None and not self.outbox.has_levels:
            # It has relevance: the first message of a lower priority is to find a place.
            return max(1, places - 1)
        return places

    def take(self, now: float, journal: Journal) -> Sequence[QueuedDelivery]:
        """Take all that waits out of the queue, for a reader; in the store it stays.

        A reader says by `finish_reading` what need not be read again after a restart.
        """
        taken, expired, late = self.outbox.take(now, LARGEST_PACKET_ID)
        self._drop((*expired, *late), journal)
        for delivery in late:
            self.lose(LossReason.DEADLINE, priority=delivery.priority)
        self.usage.dequeue(sum(each.size for each in taken))
        return taken

    def finish_reading(self, delivery: QueuedDelivery, journal: Journal) -> None:
        """Note that a message was read, and what it led to is in the journal."""
        self._done(delivery, journal)

    def lose(self, reason: str, count: int = 1, priority: int = 1) -> None:
        """Count messages that are dropped; its client is told the sums."""
        self.dropped += count
        self.priorities.dropped[priority] += count
        losses = self.losses = self.losses or {}
        key = LossReason.key(reason, priority)
        losses[key] = losses.get(key, 0) + count

    def has_room(self, limits: Limits) -> bool:
        """Whether the queue is at most half full."""
        return self.outbox.has_room(limits)

    def resume(self, now: float, journal: Journal) -> None:
        """Send unacknowledged messages again to a client that reconnected.

        If its receive maximum is smaller than before, the others wait, ahead of all new messages.
        """
        connection, in_flight = self.connection, self._in_flight or {}
        assert connection is not None
        sent, waiting = 0, []
        for packet_id, delivery in list(in_flight.items()):
            if delivery.released:
                connection.out.append(success(PacketType.PUBREL, packet_id))
                self.account.packets_sent += 1
            elif sent >= self.receive_maximum:
                waiting.append(in_flight.pop(packet_id))
                self._lower_in_flight -= delivery.priority != 1
            elif write_delivery(delivery, connection, now, dup=True):
                self.account.packets_sent += 1
                sent += 1
            else:
                self.lose(LossReason.TOO_LARGE, priority=delivery.priority)
                self._finish(delivery, journal)
        if waiting:
            if self.outbox is _EMPTY:
                self.outbox = Outbox()
            self.outbox.put_back(waiting)
            self.update_direct_connection()

    def acknowledged(self, packet_id: int, journal: Journal) -> None:
        """Handle PUBACK: a QoS 1 message is done."""
        delivery = self._in_flight.get(packet_id) if self._in_flight else None
        if delivery is not None and delivery.qos == 1:
            self._finish(delivery, journal)

    def refused_by_client(self, packet_id: int, journal: Journal) -> None:
        """Handle PUBREC with a failure code: a QoS 2 message is done."""
        delivery = self._in_flight.get(packet_id) if self._in_flight else None
        if delivery is not None and delivery.qos == 2:
            self._finish(delivery, journal)

    def completed(self, packet_id: int, journal: Journal) -> None:
        """Handle PUBCOMP: a released message is done."""
        delivery = self._in_flight.get(packet_id) if self._in_flight else None
        if delivery is not None and delivery.qos == 2 and delivery.released:
            self._finish(delivery, journal)

    def received_by_client(self, packet_id: int, journal: Journal) -> ReasonCode:
        """Handle PUBREC: release the message, and return the reason code for PUBREL."""
        delivery = self._in_flight.get(packet_id) if self._in_flight else None
        if delivery is None or delivery.qos != 2:
            return ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        if not delivery.released:
            self._release(delivery, journal)
        return ReasonCode.SUCCESS

    def granted_filter(self, topic_filter: str) -> SessionSubscription | None:
        """The subscription to a topic filter, if there is one."""
        return self.granted.get(SubscriptionId(self.client_id, topic_filter).text)

    def identifiers_of(self, subscriptions: Iterable[Subscription]) -> tuple[int, ...]:
        """The identifiers that the client gave to these subscriptions."""
        grants = (self.granted.get(each.id) for each in subscriptions)
        return tuple(g.identifier for g in grants if g is not None and g.identifier is not None)

    def drop_copies(self, live_key: str, limits: Limits, journal: Journal) -> None:
        """Drop queued copies of a withdrawn live event, except plain MQTT messages."""
        if not any(each.live_key == live_key for each in self.outbox.messages()):
            return
        connection, ready = self.connection, _NONE
        if connection is not None and not connection.closing and not connection.blocked:
            # These are sent at the end of the tick.
            allowance, pace = self._allowance, self.pace
            if pace is not None:
                allowance = pace.allowance(allowance)
            ready = self.outbox.ready(
                self._places(limits),
                len(self._in_flight or ()),
                self._lower_in_flight,
                allowance,
            )
        self._drop(self.outbox.withdraw(live_key, ready), journal)

    def drop_from(self, node: str, journal: Journal) -> int:
        """Drop a publisher's queued and in-flight messages; return how many."""
        return self.drop(lambda each: _node_of(each.message.publisher) == node, journal)

    def drop_unconfirmed(self, journal: Journal) -> Counter[int]:
        """Drop the queued messages of QoS 0; return how many, by priority."""
        gone = self.outbox.drop(lambda each: not each.qos)
        self._drop(gone, journal)
        return Counter(each.priority for each in gone)

    def drop(self, unwanted: Callable[[QueuedDelivery], bool], journal: Journal) -> int:
        """Drop queued and unreleased in-flight messages that match; return how many."""
        gone = self.outbox.drop(unwanted)
        self._drop(gone, journal)
        in_flight = (self._in_flight or {}).values()
        sent = [each for each in in_flight if not each.released and unwanted(each)]
        for delivery in sent:
            self._drop_sent(delivery, journal)
        return len(gone) + len(sent)

    def _drop_sent(self, delivery: QueuedDelivery, journal: Journal) -> None:
        """Drop a message in flight; its packet id stays in use if the client may still answer."""
        delivery.message = _DROPPED
        if delivery.qos == 2:
            self._release(delivery, journal)
        elif self.connection is None:
            self._finish(delivery, journal)
        else:
            self._done(delivery, journal)
            delivery.released, delivery.number = True, 0

    def _drop(self, gone: Iterable[QueuedDelivery], journal: Journal) -> None:
        for delivery in gone:
            self.usage.dequeue(delivery.size)
            self._done(delivery, journal)
        self.update_direct_connection()

    # From the client

    def receive(self, packet_id: int, journal: Journal) -> bool:
        """Note the packet id of a QoS 2 message; False if it is already known."""
        if self.received is None:
            self.received = set()
        if packet_id in self.received:
            return False
        self.received.add(packet_id)
        self.usage.add(PACKET_IDS, 1)
        if self.durable:
            journal.note(ReceivedPut(self.client_id, packet_id))
        return True

    def release(self, packet_id: int, journal: Journal) -> bool:
        """Handle PUBREL: free the packet id; return whether it was in use."""
        if self.received is None or packet_id not in self.received:
            return False
        self.received.discard(packet_id)
        self.usage.add(PACKET_IDS, -1)
        if self.durable:
            journal.note(ReceivedDropped(self.client_id, packet_id))
        return True

    def forget_received(self) -> None:
        """Free all packet ids of QoS 2 messages from the client."""
        self.usage.add(PACKET_IDS, -len(self.received or ()))
        self.received = None

    # From the store

    def restore_received(self, packet_id: int) -> None:
        """Restore the packet id of a QoS 2 message that the client has not released."""
        self.received = self.received or set()
        self.received.add(packet_id)
        self.usage.add(PACKET_IDS, 1)

    def restore(self, kept: Enqueued, message: OutboundMessage, now: float = 0.0) -> None:
        """Restore a queued or in-flight message after a restart."""
        pairs = tuple(zip(kept.names[::2], kept.names[1::2], strict=True))
        delivery = QueuedDelivery(
            message, kept.qos, kept.retain, kept.identifiers, pairs, kept.priority, now,
            kept.live_id, decoded_basis(kept.basis),
        )  # fmt: skip
        delivery.number, delivery.packet_id = kept.number, kept.packet
        delivery.released = kept.stage == Stage.RELEASED
        self.usage.add(Resource.QUEUED_BYTES, delivery.size)
        if kept.stage == Stage.WAITING:
            self._outbox_for(delivery).restore(delivery)
        else:
            if self._in_flight is None:
                self._in_flight = {}
            self._in_flight[kept.packet] = delivery
            self._lower_in_flight += delivery.priority != 1
            self._last_id = kept.packet

    def queued_deliveries(self) -> list[QueuedDelivery]:
        """What waits; what is to be sent again first, the rest in the order of arrival."""
        return self.outbox.messages()

    def sent_deliveries(self) -> list[QueuedDelivery]:
        """What was sent and is not acknowledged."""
        return [each for each in (self._in_flight or {}).values() if not each.released]

    def by_priority(self) -> dict[int, tuple[int, float]]:
        """How many messages of each priority wait, and since when the oldest does."""
        return self.outbox.by_priority()

    def statistics(self) -> dict[str, int]:
        """Counts of queued, in-flight, received and dropped messages."""
        return self.outbox.statistics() | {
            "in_flight": len(self._in_flight or ()),
            "received": len(self.received or ()),
            "dropped": self.dropped,
        }

    def validate_state(self, limits: Limits) -> None:
        """Assert the invariants."""
        outbox, in_flight = self.outbox, self._in_flight or {}
        outbox.validate_state()
        assert not _EMPTY
        assert not _NOTHING_GRANTED
        assert len(outbox) <= limits.queued + limits.in_flight
        assert all(0 < number <= LARGEST_PACKET_ID for number in in_flight)
        assert all(each.packet_id == number for number, each in in_flight.items())
        assert all(each.qos for each in in_flight.values())
        assert self._lower_in_flight == sum(each.priority != 1 for each in in_flight.values())
        assert WITHHELD not in {each.priority for each in in_flight.values()}
        in_flight_bytes = sum(each.size for each in in_flight.values())
        assert self.usage.used[QUEUED_BYTES] == outbox.waiting_bytes + in_flight_bytes
        assert self.usage.used[PACKET_IDS] == len(self.received or ())
        if self.connection is not None:
            assert self.connection.session is self
        direct_connection = self.direct_connection
        self.update_direct_connection()
        assert self.direct_connection is direct_connection

    def _outbox_for(
        self, delivery: QueuedDelivery
    ) -> Outbox[QueuedDelivery] | PriorityOutbox[QueuedDelivery]:
        """The outbox of this session, with levels if the message needs them."""
        outbox = self.outbox
        if needs_levels(delivery):
            if not isinstance(outbox, PriorityOutbox):
                outbox = PriorityOutbox(self.priorities.share_bytes, outbox.messages())
        elif outbox is _EMPTY:
            outbox = Outbox()
        self.outbox = outbox
        return outbox

    def _finish(self, delivery: QueuedDelivery, journal: Journal) -> None:
        assert self._in_flight is not None
        del self._in_flight[delivery.packet_id]
        if delivery.priority != 1:
            self._lower_in_flight -= 1
        self.usage.dequeue(delivery.size)
        self._done(delivery, journal)

    def _release(self, delivery: QueuedDelivery, journal: Journal) -> None:
        delivery.released = True
        if self.durable and delivery.number:
            # If this were lost, the message would be published again after the client freed its
            # packet id.
            journal.note(Released(self.client_id, delivery.number, delivery.packet_id))

    def _done(self, delivery: QueuedDelivery, journal: Journal) -> None:
        if delivery.qos and self.durable and delivery.number:
            journal.note(Dequeued(self.client_id, delivery.number), sync=False)

    def _next_id(self, in_flight: dict[int, QueuedDelivery]) -> int:
        packet_id = self._last_id
        while True:
            packet_id = packet_id % LARGEST_PACKET_ID + 1
            if packet_id not in in_flight:
                self._last_id = packet_id
                return packet_id


def client_of(lifetime: str) -> str:
    """The client id of a session, by `Session.lifetime`."""
    return lifetime.partition(_LIFETIME_SEPARATOR)[0]


def _node_of(client_id: str) -> str:
    return client_id.partition("~")[0]
