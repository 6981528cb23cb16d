"""A plain model of a session, and a client that follows MQTT: twins of the real ones."""

from collections.abc import Collection

import pytest
from msgspec import Struct
from msgspec.structs import replace

from nearcast.broker.config.settings import Limits
from nearcast.broker.sessions.outbound_message import OutboundMessage
from nearcast.broker.sessions.session import Session
from nearcast.store import (
    Change,
    Dequeued,
    Enqueued,
    MessagePut,
    ReceivedDropped,
    ReceivedPut,
    Released,
    Sent,
    Stage,
    StoredMessage,
)
from nearcast.wire.mqtt import (
    MQTT_5,
    Decoder,
    Packet,
    PubAck,
    PubComp,
    Publish,
    PublishFrame,
    PubRec,
    PubRel,
    Sender,
)

LIMITS = Limits(queued=6, queued_bytes=1_800, in_flight=3)
LARGEST_PACKET = 60
LARGE = b"x" * LARGEST_PACKET
PUBLISHERS = ("alice", "bob")


class Owed(Struct, eq=False):
    """A message in the model."""

    payload: bytes
    qos: int
    publisher: str
    size: int
    expires_at: float | None
    was_sent: bool = False
    released: bool = False

    @property
    def is_large(self) -> bool:
        return self.payload.endswith(LARGE)


class Model:
    """What a session owes, as lists."""

    def __init__(self) -> None:
        self.waiting: list[Owed] = []
        self.in_flight: list[Owed] = []
        self.dropped = 0

    def put(self, message: Owed) -> list[Owed]:
        """Return what is dropped for it: as many of the oldest as needed, else itself."""
        gone: list[Owed] = []
        for oldest in [each for each in self.waiting if not each.was_sent] + [message]:
            left = [each for each in [*self.waiting, message] if each not in gone]
            if len(left) <= LIMITS.queued and (
                sum(each.size for each in left) <= LIMITS.queued_bytes
            ):
                break
            gone.append(oldest)
        if message in gone:
            gone = [message]
        self.waiting = [each for each in [*self.waiting, message] if each not in gone]
        self.dropped += len(gone)
        return gone

    def pump(self, now: float, window: int, largest: int, allowance: int | None) -> int | None:
        """Send what can go; return what is left of the allowance."""
        while self.waiting:
            first = self.waiting[0]
            if allowance is not None and allowance <= 0:
                break
            if first.qos and len(self.in_flight) >= window:
                break
            self.waiting.pop(0)
            if first.expires_at is not None and first.expires_at <= now and not first.was_sent:
                continue
            if largest and first.is_large:
                self.dropped += 1
                continue
            if allowance is not None:
                allowance -= first.size
            if first.qos:
                first.was_sent = True
                self.in_flight.append(first)
        return allowance

    def resume(self, receive_maximum: int, largest: int) -> None:
        """Send again what was not acknowledged, as far as the client takes it at once."""
        kept, back = [], []
        for each in self.in_flight:
            if each.released:
                kept.append(each)
            elif sum(not other.released for other in kept) >= receive_maximum:
                back.append(each)
            elif largest and each.is_large:
                self.dropped += 1
            else:
                kept.append(each)
        self.in_flight, self.waiting = kept, back + self.waiting

    def finish(self, payloads: Collection[bytes]) -> None:
        self.in_flight = [each for each in self.in_flight if each.payload not in payloads]

    def drop(self, publisher: str) -> set[bytes]:
        """Drop messages; the packet ids of those that a client may have are taken until later."""
        in_flight = [each for each in self.in_flight if not each.released]
        gone = [each for each in self.waiting + in_flight if each.publisher == publisher]
        self.waiting = [each for each in self.waiting if each not in gone]
        for each in gone:
            each.released = each in in_flight
        return {each.payload for each in gone}

    def lose_connection(self) -> None:
        self.in_flight = [each for each in self.in_flight if each.qos == 2 or not each.released]


class Client:
    """The other end of all connections of the session."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, bytes]] = []
        """QoS and payload of each message, when it was seen first."""
        self.open: dict[int, bytes] = {}
        """Messages of QoS 2 that are not released yet."""
        self.answers: list[Packet] = []
        self.unfinished: set[int] = set()
        """Packet ids on this connection that are without a final answer."""
        self.receive_maximum = 0
        self.connect(1)

    def connect(self, receive_maximum: int) -> None:
        self.decoder = Decoder(sender=Sender.SERVER, version=MQTT_5)
        self.receive_maximum = receive_maximum
        self.answers.clear()
        self.unfinished.clear()

    def read(self, data: bytes) -> None:
        for packet in self.decoder.feed(data):
            if isinstance(packet, PubRel):
                self.open.pop(packet.packet_id, None)
                self.answers.append(PubComp(packet.packet_id))
            else:
                assert isinstance(packet, Publish)
                self._read_message(packet)

    def _read_message(self, packet: Publish) -> None:
        number, payload = packet.packet_id, packet.payload
        if packet.qos:
            self.unfinished.add(number)
            assert len(self.unfinished) <= self.receive_maximum
        is_new = (packet.qos, payload) not in self.seen
        assert is_new or (packet.qos and packet.dup), "sent twice"
        if packet.qos == 1:
            self.answers.append(PubAck(number))
        elif packet.qos == 2:
            is_open = number in self.open
            assert self.open.setdefault(number, payload) == payload, "an id with two meanings"
            assert is_open is not is_new, "a message of QoS 2 that was released comes again"
            self.answers.append(PubRec(number))
        if is_new:
            self.seen.append((packet.qos, payload))


class Kept:
    """What a store makes of the journal's changes."""

    def __init__(self) -> None:
        self.messages: dict[int, StoredMessage] = {}
        self.queue: dict[int, Enqueued] = {}
        self.received: set[int] = set()

    def apply(self, change: Change) -> None:
        match change:
            case MessagePut(number, message):
                self.messages[number] = message
            case Enqueued():
                self.queue[change.number] = change
            case Sent(_, number, packet):
                self.queue[number] = replace(self.queue[number], stage=Stage.SENT, packet=packet)
            case Released(_, number, _):
                self.queue[number] = replace(self.queue[number], stage=Stage.RELEASED)
            case Dequeued(_, number):
                del self.queue[number]
            case ReceivedPut(_, packet):
                self.received.add(packet)
            case ReceivedDropped(_, packet):
                self.received.remove(packet)
            case _:
                pytest.fail(f"{change} is not about a session's messages")

    def session(self) -> Session:
        session = Session("phone")
        session.durable = session.is_kept = True
        for packet_id in self.received:
            session.restore_received(packet_id)
        for each in sorted(self.queue.values(), key=lambda each: each.number):
            stored = self.messages[each.message]
            frame = PublishFrame(stored.topic, stored.payload, stored.extra)
            message = OutboundMessage(
                frame, stored.publisher, stored.expires, each.message, deadline=stored.deadline
            )
            session.restore(each, message)
        return session
