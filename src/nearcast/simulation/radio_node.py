"""A node without a broker in virtual time: the core's node on any `DatagramSocket` (seed D)."""

import math
from collections.abc import Callable, Mapping, Sequence

from nearcast.core.engine.proximity_engine import ProximityEngine, ProximityOutcome
from nearcast.core.language.filter import parse
from nearcast.core.model.event import Delivery, Subscription
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.simulation.network.datagrams import DatagramSocket, SocketStatistics
from nearcast.simulation.virtual_clock import Alarm, VirtualClock
from nearcast.wire.beacons.datagram_codec import DatagramCodec
from nearcast.wire.beacons.group_key import GroupKey, KeyRing
from nearcast.wire.beacons.signatures import Member, Signatures, SigningKey

Deliver = Callable[[str, Delivery], object]
"""Called with the name of a node, and what its application gets."""

BEACONS = "beacons"
"""The group in which everybody listens for beacons."""


class RadioNode:
    """One start of a node."""

    def __init__(
        self,
        socket: DatagramSocket,
        clock: VirtualClock,
        settings: ProximitySettings | None = None,
        *,
        incarnation: int = 1,
        keys: Sequence[GroupKey] = (),
        sign: SigningKey | None = None,
        members: Mapping[str, Member] | None = None,
        clock_error_s: float = 0.0,
        deliver: Deliver = lambda node, delivery: None,
    ) -> None:
        run = f"{socket.address}/{incarnation}".encode()[-6:]
        ring = KeyRing(keys, run)
        self.node = ProximityEngine(socket.address, settings, incarnation, node_of=ring.node_of)
        signatures = Signatures(socket.address, sign, members, ring.node_of)
        self.codec = DatagramCodec(ring, socket.largest_bytes, signatures)
        self.delivered: list[Delivery] = []
        self._socket = socket
        self._clock = clock
        self._clock_error_s = clock_error_s
        self._deliver = deliver
        self._alarm: Alarm | None = None
        self._is_up = True
        self._names = 0
        socket.receive = self._receive
        socket.join(BEACONS)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    def move(self, position: Position) -> None:
        """Take a fix."""
        self._carry_out(self.node.move(position, self._now()))

    def announce(self, event_type: EventType, area: Area, grow_s: float = 0.0) -> None:
        """Announce a type of events in an area."""
        self._carry_out(self.node.announce(event_type, area, self._now(), grow_s))

    def rename(self, alias: str) -> None:
        """Be known to others by another name."""
        self._carry_out(self.node.vanish(self._now()))
        self._carry_out(self.node.rename(alias, self._now()))

    def unannounce(self, subject: str) -> None:
        """End an announcement."""
        self._carry_out(self.node.unannounce(subject, self._now()))

    def raise_event(self, subject: str, attributes: Mapping[str, object]) -> str:
        """Raise an event; return its id."""
        name, step = self.node.raise_event(subject, attributes, self._now())
        self._carry_out(step)
        return name

    def subscribe(
        self,
        subject: str,
        where: str | None = None,
        from_: Area | None = None,
        within: Area | None = None,
    ) -> Subscription:
        """Subscribe; return the subscription."""
        self._names += 1
        condition = None if where is None else parse(where)
        subscription = Subscription(
            f"{self.name}/{self._names}", self.name, subject, condition, from_, no_local=True
        )
        self._carry_out(self.node.subscribe(subscription, self._now(), within))
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription."""
        self._carry_out(self.node.unsubscribe(subscription, self._now()))

    def statistics(self) -> SocketStatistics:
        """Return the counts of its socket."""
        return self._socket.statistics()

    def crash(self) -> None:
        """Stop at once."""
        self._is_up = False
        self._socket.close()
        if self._alarm is not None:
            self._alarm.cancel()

    def _now(self) -> float:
        return self._clock.now() + self._clock_error_s

    def _receive(self, data: bytes, sender: str) -> None:
        message = self.codec.decode(data, self._now())
        if message is not None:
            self._carry_out(self.node.receive(message, self._now()))

    def _carry_out(self, step: ProximityOutcome) -> None:
        if not self._is_up:
            return
        for group in step.joins:
            self._socket.join(group_name(group))
        for group in step.leaves:
            self._socket.leave(group_name(group))
        for send in step.sends:
            to = BEACONS if send.group is None else group_name(send.group)
            for datagram in self.codec.encode(send.message):
                self._socket.send(datagram, to)
        for delivery in step.deliveries:
            self.delivered.append(delivery)
            self._deliver(self.name, delivery)
        self._wake()

    def _wake(self) -> None:
        """Schedule what the node waits for."""
        at = self.node.wake_at - self._clock_error_s
        if self._alarm is not None:
            if self._alarm.at == at:
                return
            self._alarm.cancel()
            self._alarm = None
        if math.isfinite(at):
            self._alarm = self._clock.at(at, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._carry_out(self.node.elapse(self._now()))


def group_name(group: int) -> str:
    """Return the name of a proximity group on the channel."""
    return f"{group:06x}"
