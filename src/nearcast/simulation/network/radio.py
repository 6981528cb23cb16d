"""A radio channel in virtual time: who hears whom follows from where they are (seed D).

A frame takes its time on the air. Whoever is within range when it begins hears it at its end,
unless it is lost by chance, or another frame that it hears overlaps. A sender that hears a frame
waits until it has ended and a random while longer; those who cannot hear each other may collide at
somebody between them.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.network.datagrams import (
    LARGEST_BYTES,
    DatagramTooLargeError,
    Receive,
    SocketStatistics,
)
from nearcast.simulation.virtual_clock import VirtualClock

Where = Callable[[str], Position | None]
"""Called with the name of a host; returns where it is now."""

FRAME_BYTES = 60
"""What a frame has beside its datagram: preamble, headers, checksum, as bytes of air time."""


class RadioSettings(Struct, frozen=True):
    """The channel."""

    range_m: float = 200.0
    loss: float = 0.0
    """The chance that a receiver does not get a frame."""
    bytes_per_s: float = 687_500.0
    """The rate of frames: 5.5 Mbit/s by default."""
    contention: bool = True
    """False: frames take no time and never collide."""
    slot_s: float = 20e-6
    most_slots: int = 64
    """A sender that found the channel busy waits for fewer slots than this."""


class RadioStatistics(Struct):
    """Counts of frames."""

    sent: int = 0
    deferred: int = 0
    """Times that a sender waited for the channel."""
    heard: int = 0
    """Receptions; one frame is heard by many."""
    lost: int = 0
    collided: int = 0


class _Frame(Struct):
    sender: str
    data: bytes
    to: str
    begins: float
    ends: float
    hearers: list[str]
    spoilt: set[str] = set()
    """Those who heard another frame meanwhile."""


class Radio:
    """All hosts on one channel."""

    def __init__(self, clock: VirtualClock, where: Where, settings: RadioSettings) -> None:
        self.settings = settings
        self.counts = RadioStatistics()
        self._clock = clock
        self._where = where
        self._chance = clock.chance("radio")
        self._sockets: dict[str, RadioSocket] = {}
        self._waiting: dict[str, deque[tuple[bytes, str]]] = {}
        self._on_air: list[_Frame] = []

    def open(self, host: str, receive: Receive = lambda data, sender: None) -> "RadioSocket":
        """Open the socket of a host."""
        if host in self._sockets:
            raise OSError(f"{host!r} has an open socket already")
        self._sockets[host] = RadioSocket(self, host, receive)
        return self._sockets[host]

    def hears(self, receiver: str, sender: str) -> bool:
        """Return whether one host is in range of another now."""
        here, there = self._where(receiver), self._where(sender)
        return here is not None and there is not None and self._reaches(here, there)

    # Called by sockets

    def close(self, host: str) -> None:
        """Remove a socket; what it is sending is lost."""
        del self._sockets[host]
        self._waiting.pop(host, None)
        self._on_air = [frame for frame in self._on_air if frame.sender != host]

    def send(self, sender: str, data: bytes, to: str) -> None:
        """Send a frame when the channel is free."""
        if not self.settings.contention:
            now = self._clock.now()
            frame = _Frame(sender, data, to, now, now, self._hearers(sender))
            self.counts.sent += 1
            self._clock.soon(lambda: self._arrive(frame))
            return
        waiting = self._waiting.setdefault(sender, deque())
        waiting.append((data, to))
        if len(waiting) == 1:
            self._transmit(sender)

    def _transmit(self, sender: str) -> None:
        """Send the first frame that waits, as soon as the channel is free."""
        waiting = self._waiting.get(sender)
        if not waiting:
            return
        data, to = waiting[0]
        settings, now = self.settings, self._clock.now()
        busy_until = max(
            (
                frame.ends
                for frame in self._on_air
                # Who begins in the same moment is not heard yet.
                if frame.sender == sender or (frame.begins < now and sender in frame.hearers)
            ),
            default=now,
        )
        if busy_until > now:
            self.counts.deferred += 1
            slots = self._chance.randrange(1, settings.most_slots)
            at = busy_until + slots * settings.slot_s
            self._clock.at(at, lambda: self._transmit(sender))
            return
        ends = now + (len(data) + FRAME_BYTES) / settings.bytes_per_s
        frame = _Frame(sender, data, to, now, ends, self._hearers(sender))
        for other in self._on_air:
            both = set(other.hearers) & set(frame.hearers)
            both |= {sender} & set(other.hearers)
            other.spoilt |= both
            frame.spoilt |= both | ({other.sender} & set(frame.hearers))
        self._on_air.append(frame)
        self.counts.sent += 1
        self._clock.at(ends, lambda: self._arrive(frame))

    def _arrive(self, frame: _Frame) -> None:
        if self.settings.contention:
            if frame not in self._on_air:
                return
            self._on_air.remove(frame)
            waiting = self._waiting[frame.sender]
            waiting.popleft()
            if waiting:
                slots = self._chance.randrange(1, self.settings.most_slots)
                at = self._clock.now() + slots * self.settings.slot_s
                self._clock.at(at, lambda: self._transmit(frame.sender))
        for name in frame.hearers:
            socket = self._sockets.get(name)
            if socket is None or not socket.listens_to(frame.to):
                continue
            if name in frame.spoilt:
                self.counts.collided += 1
            elif self.settings.loss and self._chance.random() < self.settings.loss:
                self.counts.lost += 1
            else:
                self.counts.heard += 1
                socket.take(frame.data, frame.sender)

    def _hearers(self, sender: str) -> list[str]:
        there = self._where(sender)
        if there is None:
            return []
        return [
            name
            for name in self._sockets
            if name != sender
            and (here := self._where(name)) is not None
            and self._reaches(here, there)
        ]

    def _reaches(self, here: Position, there: Position) -> bool:
        return here.distance_m(there) <= self.settings.range_m


class RadioSocket:
    """The socket of one host on a radio channel: a `DatagramSocket`."""

    def __init__(self, radio: Radio, address: str, receive: Receive) -> None:
        self.receive = receive
        self._radio = radio
        self._address = address
        self._is_open = True
        self._groups: set[str] = set()
        self._sent = self._sent_bytes = self._received = self._received_bytes = 0

    @property
    def address(self) -> str:
        """The name of its host."""
        return self._address

    @property
    def largest_bytes(self) -> int:
        """The largest datagram that it sends."""
        return LARGEST_BYTES

    def send(self, data: bytes, to: str) -> None:
        """Send to all other members of a group that are in range, or to a host."""
        self._check_open()
        if len(data) > LARGEST_BYTES:
            raise DatagramTooLargeError(len(data), to, LARGEST_BYTES)
        self._sent += 1
        self._sent_bytes += len(data)
        self._radio.send(self._address, bytes(data), to)

    def join(self, group: str) -> None:
        """Join a group to receive its datagrams."""
        self._check_open()
        self._groups.add(group)

    def leave(self, group: str) -> None:
        """Leave a group."""
        self._check_open()
        self._groups.discard(group)

    def close(self) -> None:
        """Leave all groups, and send and receive nothing more."""
        if self._is_open:
            self._is_open = False
            self._groups.clear()
            self._radio.close(self._address)

    def statistics(self) -> SocketStatistics:
        """Return the counts of the socket."""
        return SocketStatistics(self._sent, self._sent_bytes, self._received, self._received_bytes)

    def listens_to(self, to: str) -> bool:
        """Return whether a frame to that address or group is for this host."""
        return self._is_open and (to in self._groups or to == self._address)

    def take(self, data: bytes, sender: str) -> None:
        """Handle a received datagram."""
        self._received += 1
        self._received_bytes += len(data)
        self.receive(data, sender)

    def _check_open(self) -> None:
        if not self._is_open:
            raise OSError(f"the socket of {self._address!r} is closed")
