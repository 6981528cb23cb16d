"""A session: what the broker owes one client, whether it is there or not.

A state machine without I/O. Messages wait in order; as many as the client accepts at once are in
flight, and what was not acknowledged is sent again when the client comes back.
"""

from collections import deque

from msgspec import Struct

from nearcast.wire.mqtt import (
    PacketType,
    PublishFrame,
    ReasonCode,
    TopicFilter,
    message_expiry,
    subscription_identifiers,
    success,
)

MOST_WAITING = 10_000
"""More messages than this do not wait: the newest is dropped, and counted."""
LARGEST_PACKET_ID = 65_535


class Granted(Struct, frozen=True, gc=False):
    """A subscription as it was granted."""

    wanted: TopicFilter
    identifier: int | None = None


class Outgoing(Struct, gc=False):
    """A message on its way to a client."""

    frame: PublishFrame
    qos: int
    retain: bool = False
    identifiers: tuple[int, ...] = ()
    expires_at: float | None = None
    released: bool = False
    """The client has it (QoS 2): only the release is still to be confirmed."""


class Session:
    """One client's subscriptions and messages."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.version = 0
        self.expiry_s = 0.0
        self.receive_maximum = LARGEST_PACKET_ID
        self.largest_packet = 0
        self.granted: dict[str, Granted] = {}
        self.received: set[int] = set()
        """Packet ids of QoS 2 messages that the client has not released yet."""
        self.dropped = 0
        self._waiting: deque[Outgoing] = deque()
        self._in_flight: dict[int, Outgoing] = {}
        self._last_id = 0

    def put(self, message: Outgoing, connected: bool) -> None:
        """Let a message wait; QoS 0 waits for nobody who is away."""
        if not message.qos and not connected:
            return
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(message)

    def pump(self, now: float) -> list[bytes]:
        """What can be sent now."""
        out: list[bytes] = []
        waiting = self._waiting
        while waiting:
            message = waiting[0]
            if message.qos and len(self._in_flight) >= self.receive_maximum:
                break
            waiting.popleft()
            if message.expires_at is not None and message.expires_at <= now:
                continue
            if not self._fits(message, now):
                self.dropped += 1
                continue
            if message.qos:
                packet_id = self._next_id()
                self._in_flight[packet_id] = message
                out.extend(self._pieces(message, packet_id, now))
            else:
                out.append(
                    message.frame.at_most_once(
                        self.version, message.retain, self._additions(message, now)
                    )
                )
        return out

    def resume(self, now: float) -> list[bytes]:
        """What a client that came back has not acknowledged, again."""
        out: list[bytes] = []
        for packet_id, message in self._in_flight.items():
            if message.released:
                out.append(success(PacketType.PUBREL, packet_id))
            else:
                out.extend(self._pieces(message, packet_id, now, dup=True))
        return out

    def acknowledged(self, packet_id: int) -> None:
        """PUBACK, PUBCOMP, or a PUBREC that refuses: done with it."""
        self._in_flight.pop(packet_id, None)

    def received_by_client(self, packet_id: int) -> ReasonCode:
        """PUBREC: release it."""
        message = self._in_flight.get(packet_id)
        if message is None or message.qos != 2:
            return ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        message.released = True
        return ReasonCode.SUCCESS

    def statistics(self) -> dict[str, int]:
        """How much waits."""
        return {
            "waiting": len(self._waiting),
            "in_flight": len(self._in_flight),
            "dropped": self.dropped,
        }

    def _fits(self, message: Outgoing, now: float) -> bool:
        if not self.largest_packet:
            return True
        size = message.frame.size(self.version, message.qos, self._additions(message, now))
        return size <= self.largest_packet

    def _pieces(
        self, message: Outgoing, packet_id: int, now: float, dup: bool = False
    ) -> tuple[bytes, ...]:
        return message.frame.acknowledged(
            self.version, message.qos, packet_id, message.retain, dup, self._additions(message, now)
        )

    def _additions(self, message: Outgoing, now: float) -> bytes:
        additions = b""
        if message.identifiers:
            additions = subscription_identifiers(message.identifiers)
        if message.expires_at is not None:
            additions += message_expiry(max(0, int(message.expires_at - now)))
        return additions

    def _next_id(self) -> int:
        packet_id = self._last_id
        while True:
            packet_id = packet_id % LARGEST_PACKET_ID + 1
            if packet_id not in self._in_flight:
                self._last_id = packet_id
                return packet_id
