"""One connection of a virtual network: two ends, and an ordered byte stream between them.

Written bytes are buffered by the system up to a limit, and at the end beyond that, as with a
socket. Pieces are split anywhere, and arrive in order or, once the connection is cut, not at all.
The code that cuts a connection decides when each end learns of the loss.
"""

import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from msgspec import Struct

from nearcast.simulation.virtual_clock import VirtualClock

Tell = Callable[[str, str], None]
"""Called with the host and the action, for the trace of a run."""

SLICE_S = 0.1
"""On a slow link, a piece takes about this long to send."""
HIGH_BYTES, LOW_BYTES = 64 << 10, 16 << 10


class LinkQuality(Struct, frozen=True):
    """The properties of the path between two hosts."""

    least_delay_s: float = 0.001
    most_delay_s: float = 0.010
    bytes_per_s: float = math.inf
    pieces: float = 0.3
    """The probability that sent bytes are split in two, anywhere."""
    held_bytes: int = 64 << 10
    """The most bytes sent and unread; the rest waits at the sender's end."""
    loss: float = 0.0
    """The probability that a datagram is lost; connections lose nothing while they exist."""
    duplication: float = 0.0
    """The probability that a datagram arrives twice."""
    reordering: float = 0.0
    """The probability that a datagram is delayed and overtaken; others keep their order."""
    reordering_s: float = 0.1
    """The longest delay of such a datagram."""


class ConnectionListener(Protocol):
    """Callbacks of one end, like those of asyncio."""

    def received(self, data: bytes) -> None:
        """Bytes were received."""

    def lost(self) -> None:
        """The connection is lost; no more bytes follow."""

    def pause_writing(self) -> None:
        """The send buffer is full."""

    def resume_writing(self) -> None:
        """The send buffer has space again."""


class NetworkPaths(Protocol):
    """The interface of the network for an end."""

    clock: VirtualClock
    chance: Random

    def quality(self, host: str, other: str) -> LinkQuality:
        """Return the current quality of the path between two hosts."""

    def parted(self, host: str, other: str) -> bool:
        """Return True if two hosts are partitioned now."""

    def note_arrival(self, end: "End", data: bytes) -> None:
        """Record that an end received bytes."""


class End:
    """One side of a connection."""

    def __init__(self, paths: NetworkPaths, host: str, number: int) -> None:
        self.host = host
        self.number = number
        self.listener: ConnectionListener | None = None
        self.other: End = self
        self.cut = False
        """True if no bytes pass any more, whether the ends know it or not."""
        self._paths = paths
        self._clock = paths.clock
        self._open = True
        self._closing = False
        self._reading = True
        self._unsent = bytearray()
        self._held = 0
        self._high, self._low = HIGH_BYTES, LOW_BYTES
        self._paused = False
        self._line_free_at = self._last_arrival = -math.inf
        self._pumping = False
        self._stuck: deque[bytes] = deque()
        """Pieces held up by a partition; an empty piece is the end of the stream."""
        self._unread: deque[bytes] = deque()

    @property
    def is_open(self) -> bool:
        """True if it can be written to."""
        return self._open and not self._closing

    @property
    def is_alive(self) -> bool:
        """True if this side still considers it connected."""
        return self._open

    @property
    def is_whole(self) -> bool:
        """True if both sides are connected, and bytes pass."""
        return self.is_open and self.other.is_open and not self.cut

    @property
    def unsent_bytes(self) -> int:
        """The number of written bytes that wait here."""
        return len(self._unsent)

    def limit(self, high: int, low: int) -> None:
        """Set the limits at which writing pauses and resumes."""
        self._high, self._low = high, low

    def write(self, data: bytes) -> None:
        """Send bytes, in order."""
        if not self.is_open:
            return
        self._unsent += data
        self._pump()
        if len(self._unsent) > self._high and not self._paused:
            self._paused = True
            if self.listener is not None:
                self.listener.pause_writing()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        if self.is_open:
            self._closing = True
            self._pump()

    def abort(self) -> None:
        """Close the connection at once, dropping unsent bytes."""
        if self._open:
            self._unsent.clear()
            self._leave()
            self._notify_other()

    def pause_reading(self) -> None:
        """Stop reading; received bytes are kept."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        self._reading = True
        self._clock.soon(self._read)

    # Called by the network

    def learn(self) -> None:
        """The system reports that the connection is lost."""
        if self._open:
            self._unsent.clear()
            self._leave()

    def vanish(self) -> None:
        """The host has crashed: no callback is made here."""
        self._open = False
        self._unsent.clear()
        self.listener = None

    def reset_other(self) -> None:
        """Notify the other side that this host no longer has the connection."""
        self._notify_other()

    def go_on(self) -> None:
        """The partition is healed: held pieces arrive before all later ones."""
        stuck, self._stuck = self._stuck, deque()
        for piece in stuck:
            self._deliver(piece)

    # From here to the other end

    def _pump(self) -> None:
        """Pass bytes to the system up to its limit, in slices if the link is slow."""
        if self._pumping or not self._open:
            return
        paths, now = self._paths, self._clock.now()
        quality = paths.quality(self.host, self.other.host)
        while self._unsent and self._held < quality.held_bytes:
            if self._line_free_at > now:
                self._pumping = True
                self._clock.at(self._line_free_at, self._pump_again)
                return
            size = min(len(self._unsent), quality.held_bytes - self._held)
            if quality.bytes_per_s != math.inf:
                size = min(size, max(1, int(quality.bytes_per_s * SLICE_S)))
            if size > 1 and paths.chance.random() < quality.pieces:
                size = paths.chance.randrange(1, size)
            takes_s = size / quality.bytes_per_s
            if takes_s:
                self._line_free_at = now + takes_s
            piece = bytes(self._unsent[:size])
            del self._unsent[:size]
            self._held += size
            self._send(piece, takes_s)
        if self._paused and len(self._unsent) <= self._low:
            self._paused = False
            if self.listener is not None:
                self.listener.resume_writing()
        if self._closing and not self._unsent:
            self._send(b"", 0.0)
            self._leave()

    def _pump_again(self) -> None:
        self._pumping = False
        self._pump()

    def _send(self, piece: bytes, takes_s: float) -> None:
        paths = self._paths
        quality = paths.quality(self.host, self.other.host)
        delay_s = paths.chance.uniform(quality.least_delay_s, quality.most_delay_s)
        at = max(self._last_arrival, self._clock.now() + takes_s + delay_s)
        self._last_arrival = at
        self._clock.at(at, lambda: self._arrive(piece))

    def _arrive(self, piece: bytes) -> None:
        if self.cut:
            return
        if self._paths.parted(self.host, self.other.host):
            self._stuck.append(piece)
        else:
            self._deliver(piece)

    def _deliver(self, piece: bytes) -> None:
        other = self.other
        if not other._open:
            # A host that does not know the connection resets it.
            if piece:
                self._clock.after(
                    self._paths.quality(self.host, other.host).most_delay_s, self.learn
                )
            return
        other._unread.append(piece)
        other._read()

    def _read(self) -> None:
        while self._unread and self._reading and self._open:
            piece = self._unread.popleft()
            if not piece:
                self._leave()
                return
            self.other._taken(len(piece))
            self._paths.note_arrival(self, piece)
            if self.listener is not None:
                self.listener.received(piece)

    def _taken(self, size: int) -> None:
        """The other side has read this many bytes."""
        self._held -= size
        if self._unsent:
            self._clock.soon(self._pump)

    def _leave(self) -> None:
        self._open = False
        listener, self.listener = self.listener, None
        if listener is not None:
            self._clock.soon(listener.lost)

    def _notify_other(self) -> None:
        """The other side learns of the loss, unless the path is cut."""
        if not self.cut:
            delay_s = self._paths.quality(self.host, self.other.host).most_delay_s
            self._clock.after(delay_s, self._reset)

    def _reset(self) -> None:
        if not self.cut and not self._paths.parted(self.host, self.other.host):
            self.other.learn()
