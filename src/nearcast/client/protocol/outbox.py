"""Outgoing messages: queued, in flight, and to be sent again.

Everything is sent in the order of the calls. A message of QoS 1 or 2 is kept until its last
acknowledgement: after a reconnection it is sent again, with its packet identifier and DUP if the
server has the session, as a new message if not. After a lost session a message of QoS 2 can thus
arrive twice, but nothing is lost.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from nearcast.client.errors import QueueFullError
from nearcast.client.protocol.outgoing import Item, OutgoingMessage, OutgoingRequest
from nearcast.client.protocol.packet_ids import PacketIds
from nearcast.wire.mqtt import PacketType, ReasonCode, encode, success
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET


class ServerLimits(Struct, frozen=True):
    """The limits of a server, from its CONNACK."""

    receive_maximum: int = 0xFFFF
    maximum_packet_size: int = LARGEST_PACKET
    maximum_qos: int = 2
    retain_available: bool = True

    def problem_with(self, item: Item) -> ReasonCode | None:
        """Return why the server would refuse an item, or None if it would not."""
        if item.size > self.maximum_packet_size:
            return ReasonCode.PACKET_TOO_LARGE
        if isinstance(item, OutgoingMessage):
            if item.qos > self.maximum_qos:
                return ReasonCode.QOS_NOT_SUPPORTED
            if item.retain and not self.retain_available:
                return ReasonCode.RETAIN_NOT_SUPPORTED
        return None


class ClientOutbox:
    """Messages and requests of one client, over all its connections."""

    def __init__(self, version: int, most: int, most_bytes: int, first_packet_id: int = 1) -> None:
        self._version = version
        self._most = most
        self._most_bytes = most_bytes
        self._ids = PacketIds(first_packet_id)
        self._waiting: deque[Item] = deque()
        self._resending: deque[OutgoingMessage] = deque()
        self._unacknowledged: dict[int, OutgoingMessage] = {}
        self._released: dict[int, OutgoingMessage] = {}
        self._requests: dict[int, OutgoingRequest] = {}
        # Identifiers sent with DUP that cannot be sent again, but that the server may remember.
        self._abandoned: set[int] = set()
        # Messages that count towards the server's Receive Maximum on this connection.
        self._counted: set[int] = set()
        self.held_bytes = 0

    @property
    def waiting(self) -> int:
        """The number of messages and requests not sent yet."""
        return len(self._waiting) + len(self._resending)

    @property
    def in_flight(self) -> int:
        """The number of those sent and not answered."""
        sent = len(self._unacknowledged) - len(self._resending)
        return sent + len(self._released) + len(self._requests)

    def add(self, item: Item, unsent_bytes: int) -> None:
        """Queue an item, or raise `QueueFullError`; `unsent_bytes` are outside of this queue."""
        if self.waiting + self.in_flight >= self._most:
            raise QueueFullError(
                f"{self._most} messages wait to be sent or acknowledged; that is the limit"
            )
        if self.held_bytes + unsent_bytes + item.size > self._most_bytes:
            raise QueueFullError(
                f"{self.held_bytes + unsent_bytes} bytes wait to be sent or acknowledged, and "
                f"{item.size} more are over the limit of {self._most_bytes}"
            )
        self._waiting.append(item)
        self.held_bytes += item.size

    def lost(self) -> None:
        """Handle a lost transport; unanswered requests will be sent again."""
        self._counted.clear()
        self._resending.clear()
        again = sorted(self._requests.values(), key=_token)
        for packet_id in self._requests:
            self._ids.free(packet_id)
        self._requests.clear()
        self._waiting.extendleft(reversed(again))

    def resume(self) -> bytes:
        """Return the PUBRELs of a resumed session, and queue the other messages again."""
        self._resending.extend(self._unacknowledged.values())
        return b"".join([success(PacketType.PUBREL, packet_id) for packet_id in self._released])

    def begin_anew(self, renewals: list[Item]) -> None:
        """Send everything as new, after the renewals: the server has lost the session."""
        kept = (*self._unacknowledged.values(), *self._released.values(), *self._waiting)
        self.held_bytes -= sum(item.size for item in kept if not item.token)
        anew = sorted((item for item in kept if item.token), key=_token)
        for item in anew:
            if isinstance(item, OutgoingMessage):
                item.packet_id = 0
        self._unacknowledged.clear()
        self._released.clear()
        self._abandoned.clear()
        self._ids.forget()
        self._waiting = deque(anew)
        self.renew(renewals)

    def renew(self, renewals: list[Item]) -> None:
        """Queue items that are sent again, ahead of all others."""
        self.held_bytes += sum(item.size for item in renewals)
        self._waiting.extendleft(reversed(renewals))

    def write(self, limits: ServerLimits) -> Iterator[bytes | tuple[Item, ReasonCode]]:
        """Yield packets that may be sent now, and items that this server would refuse."""
        while self._resending:
            if len(self._counted) >= limits.receive_maximum:
                return
            message = self._resending.popleft()
            problem = limits.problem_with(message)
            if problem is None:
                yield self._frame(message, dup=True)
            else:
                self._abandon(message)
                yield message, problem
        while self._waiting:
            item = self._waiting[0]
            problem = limits.problem_with(item)
            if problem is not None:
                self._waiting.popleft()
                self.held_bytes -= item.size
                yield item, problem
                continue
            data = self._first_time(item, limits)
            if data is None:
                return
            yield data

    def _first_time(self, item: Item, limits: ServerLimits) -> bytes | None:
        """Return the packet of the first item; None if it has to wait."""
        if isinstance(item, OutgoingMessage) and not item.qos:
            self._waiting.popleft()
            self.held_bytes -= item.size
            return item.frame.at_most_once(self._version, item.retain)
        if isinstance(item, OutgoingMessage) and len(self._counted) >= limits.receive_maximum:
            return None
        packet_id = self._ids.take()
        if packet_id is None:
            return None
        self._waiting.popleft()
        if isinstance(item, OutgoingRequest):
            self._requests[packet_id] = item
            return encode(replace(item.packet, packet_id=packet_id), self._version)
        item.packet_id = packet_id
        self._unacknowledged[packet_id] = item
        return self._frame(item, dup=False)

    def _frame(self, item: OutgoingMessage, *, dup: bool) -> bytes:
        self._counted.add(item.packet_id)
        return item.frame.encode(
            self._version, qos=item.qos, retain=item.retain, dup=dup, packet_id=item.packet_id
        )

    def _abandon(self, item: OutgoingMessage) -> None:
        """Drop a message; a QoS 2 identifier stays in use, lest a new message look like it."""
        del self._unacknowledged[item.packet_id]
        self.held_bytes -= item.size
        if item.qos == 2:
            self._abandoned.add(item.packet_id)
        else:
            self._ids.free(item.packet_id)

    def sent(self, packet_id: int) -> OutgoingMessage | None:
        """Return the message that waits for a PUBACK or PUBREC with this identifier."""
        return self._unacknowledged.get(packet_id)

    def released(self, packet_id: int) -> OutgoingMessage | None:
        """Return the message that waits for a PUBCOMP with this identifier."""
        return self._released.get(packet_id)

    def release(self, item: OutgoingMessage, reason_code: ReasonCode) -> None:
        """Note a PUBREC: the message will not be sent again, only its PUBREL."""
        self._unacknowledged.pop(item.packet_id)
        self._forget_to_resend(item)
        item.reason_code = reason_code
        self._released[item.packet_id] = item

    def done(self, item: OutgoingMessage) -> None:
        """Drop a message after its last acknowledgement."""
        for where in (self._unacknowledged, self._released):
            where.pop(item.packet_id, None)
        self._forget_to_resend(item)
        self._ids.free(item.packet_id)
        self._counted.discard(item.packet_id)
        self.held_bytes -= item.size

    def _forget_to_resend(self, item: OutgoingMessage) -> None:
        # A server may answer from its state before it gets the message again.
        if item in self._resending:
            self._resending.remove(item)

    def answered(self, packet_id: int) -> OutgoingRequest | None:
        """Remove and return the request that a SUBACK or UNSUBACK answers."""
        request = self._requests.pop(packet_id, None)
        if request is not None:
            self._ids.free(packet_id)
            self.held_bytes -= request.size
        return request

    def validate_state(self, limits: ServerLimits | None) -> None:
        """Assert the invariants; `limits` is None while there is no connection."""
        parts = (self._unacknowledged, self._released, self._requests, self._abandoned)
        ids = [packet_id for part in parts for packet_id in part]
        assert len(ids) == len(set(ids)), "a packet identifier is used twice"
        assert set(ids) == self._ids.taken, "identifiers in use and identifiers taken differ"
        assert all(1 <= packet_id <= 0xFFFF for packet_id in ids)
        flying = (*self._unacknowledged.values(), *self._released.values())
        assert all(item.qos for item in flying), "QoS 0 is not acknowledged"
        assert all(item.qos == 2 for item in self._released.values()), "only QoS 2 is released"
        for part in (self._unacknowledged, self._released):
            assert all(item.packet_id == packet_id for packet_id, item in part.items())
        tokens = [item.token for item in self._waiting]
        assert tokens == sorted(tokens), "what waits is out of order"
        sent = [item.token for item in self._unacknowledged.values() if item.token]
        assert sent == sorted(sent), "what was sent is out of order"
        waiting = [x.token for x in self._waiting if x.token and isinstance(x, OutgoingMessage)]
        assert not waiting or not sent or sent[-1] < waiting[0], "a message was overtaken"
        assert all(self._unacknowledged.get(x.packet_id) is x for x in self._resending)
        assert self._counted <= {item.packet_id for item in flying}
        held = (*flying, *self._waiting, *self._requests.values())
        assert sum(item.size for item in held) == self.held_bytes, "bytes are miscounted"
        if limits is None:
            assert not self._counted, "messages are on the way without a connection"
            assert not self._requests, "requests are on the way without a connection"
            assert not self._resending, "messages are being resent without a connection"
        else:
            assert len(self._counted) <= limits.receive_maximum, "more than the server takes"


def _token(item: Item) -> int:
    return item.token
