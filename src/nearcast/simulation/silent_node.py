"""A node that keeps silent with its peers over datagrams, in virtual time (seed A).

It runs the members' protocol of the core, one member for each peer, on any `DatagramSocket`. Its
clock may be off, and it may crash: then all is lost but the number of its starts.
"""

import math
from collections.abc import Callable, Mapping

import msgspec

from nearcast.core.relationships.silence.pair_member import (
    PairMember,
    PairSettings,
    PairStep,
    Transition,
)
from nearcast.core.relationships.silence.pair_message import Crossing, PairMessage
from nearcast.core.relationships.silence.regions.region import Point
from nearcast.simulation.network.datagrams import DatagramSocket, SocketStatistics
from nearcast.simulation.virtual_clock import Alarm, VirtualClock

Notify = Callable[[str, str, Transition], object]
"""Called with a node, its peer, and what this node learned of the two."""
Trace = Callable[[str, str, PairMessage], object]
"""Called with a node, its peer, and a message that it sends."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[PairMessage] = msgspec.msgpack.Decoder(PairMessage)


class SilentNode:
    """One start of a node."""

    def __init__(
        self,
        socket: DatagramSocket,
        clock: VirtualClock,
        peers: Mapping[str, PairSettings],
        *,
        incarnation: int = 1,
        clock_error_s: float = 0.0,
        notify: Notify = lambda node, peer, transition: None,
        trace: Trace = lambda node, peer, message: None,
    ) -> None:
        self.name = socket.address
        self.members = {
            peer: PairMember(self.name, settings, incarnation) for peer, settings in peers.items()
        }
        self.crossings = self.acks = 0
        self._socket = socket
        self._clock = clock
        self._clock_error_s = clock_error_s
        self._notify = notify
        self._trace = trace
        self._alarms: dict[str, Alarm] = {}
        self._is_up = True
        socket.receive = self._receive

    def fix(self, point: Point) -> None:
        """Take a fix for all peers."""
        for peer, member in self.members.items():
            self._carry_out(peer, member.fix(point, self._now()))

    def reconnect(self) -> None:
        """Take note that all peers can be reached again."""
        for peer, member in self.members.items():
            self._carry_out(peer, member.reconnect(self._now()))

    def statistics(self) -> SocketStatistics:
        """Return the counts of its socket."""
        return self._socket.statistics()

    def crash(self) -> None:
        """Stop at once."""
        self._is_up = False
        self._socket.close()
        for alarm in self._alarms.values():
            alarm.cancel()

    def _now(self) -> float:
        return self._clock.now() + self._clock_error_s

    def _receive(self, data: bytes, sender: str) -> None:
        member = self.members.get(sender)
        if member is not None:
            self._carry_out(sender, member.receive(_DECODER.decode(data), self._now()))

    def _elapse(self, peer: str) -> None:
        self._carry_out(peer, self.members[peer].elapse(self._now()))

    def _carry_out(self, peer: str, step: PairStep) -> None:
        if not self._is_up:
            return
        for message in step.messages:
            if isinstance(message, Crossing):
                self.crossings += 1
            else:
                self.acks += 1
            self._trace(self.name, peer, message)
            self._socket.send(_ENCODER.encode(message), peer)
        if step.transition is not None:
            self._notify(self.name, peer, step.transition)
        self._wake(peer)

    def _wake(self, peer: str) -> None:
        """Schedule what the member waits for."""
        at = self.members[peer].wake_at - self._clock_error_s
        alarm = self._alarms.get(peer)
        if alarm is not None:
            if alarm.at == at:
                return
            alarm.cancel()
            del self._alarms[peer]
        if math.isfinite(at):
            self._alarms[peer] = self._clock.at(at, lambda: self._ring(peer))

    def _ring(self, peer: str) -> None:
        self._alarms.pop(peer, None)
        self._elapse(peer)
