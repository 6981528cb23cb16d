"""One connection of a virtual network: two ends, and bytes in order between them.

What is written goes into the system's hands as far as those hold it, and waits at its end beyond
that, as with a socket. Pieces are cut anywhere, and arrive in order or, once the connection is
cut, not at all. What an end is told about the loss of a connection, and when, is up to whoever
cuts it.
"""

import math
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from msgspec import Struct

from nearcast.simulation.virtual_clock import VirtualClock

Tell = Callable[[str, str], None]
"""Gets who did something, and what, for the trace of a run."""

SLICE_S = 0.1
"""On a slow link, a piece takes about this long to send."""
HIGH_BYTES, LOW_BYTES = 64 << 10, 16 << 10


class LinkQuality(Struct, frozen=True):
    """What the way between two hosts is like."""

    least_delay_s: float = 0.001
    most_delay_s: float = 0.010
    bytes_per_s: float = math.inf
    pieces: float = 0.3
    """How likely what is sent is cut in two, anywhere."""
    held_bytes: int = 64 << 10
    """So much may be sent and unread; the rest waits at the sender's end."""
    loss: float = 0.0
    """How likely a datagram is lost; connections lose nothing on a way that holds."""
    duplication: float = 0.0
    """How likely a datagram arrives twice."""
    reordering: float = 0.0
    """How likely a datagram is held up, so that later ones overtake it; others keep their order."""
    reordering_s: float = 0.1
    """So long a datagram is held up at most."""


class ConnectionListener(Protocol):
    """Callbacks of one end, as those of asyncio."""

    def received(self, data: bytes) -> None:
        """Bytes have come."""

    def lost(self) -> None:
        """The connection is gone; nothing more comes."""

    def pause_writing(self) -> None:
        """Too much waits to be sent."""

    def resume_writing(self) -> None:
        """There is room again."""


class NetworkPaths(Protocol):
    """What an end asks of its network."""

    clock: VirtualClock
    chance: Random

    def quality(self, host: str, other: str) -> LinkQuality:
        """Return what the way between two hosts is like now."""

    def parted(self, host: str, other: str) -> bool:
        """Decide whether nothing passes between two hosts now."""

    def note_arrival(self, end: "End", data: bytes) -> None:
        """Note that an end got bytes."""


class End:
    """One side of a connection."""

    def __init__(self, paths: NetworkPaths, host: str, number: int) -> None:
        self.host = host
        self.number = number
        self.listener: ConnectionListener | None = None
        self.other: End = self
        self.cut = False
        """Nothing passes any more, whether the ends know it or not."""
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
        """What arrived at the place where the way is parted; no bytes stand for the end."""
        self._unread: deque[bytes] = deque()

    @property
    def is_open(self) -> bool:
        """Whether it can be written to."""
        return self._open and not self._closing

    @property
    def is_alive(self) -> bool:
        """Whether this side still takes it for a connection."""
        return self._open

    @property
    def is_whole(self) -> bool:
        """Whether it is a connection for both sides, and bytes pass."""
        return self.is_open and self.other.is_open and not self.cut

    @property
    def unsent_bytes(self) -> int:
        """What was written and waits here."""
        return len(self._unsent)

    def limit(self, high: int, low: int) -> None:
        """Set when writing pauses, and when it resumes."""
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
        """End the connection once everything is sent."""
        if self.is_open:
            self._closing = True
            self._pump()

    def abort(self) -> None:
        """End the connection at once, whatever waits."""
        if self._open:
            self._unsent.clear()
            self._leave()
            self._notify_other()

    def pause_reading(self) -> None:
        """Leave what comes where it is."""
        self._reading = False

    def resume_reading(self) -> None:
        """Read again."""
        self._reading = True
        self._clock.soon(self._read)

    # What a network does with it

    def learn(self) -> None:
        """The system reports that the connection is gone."""
        if self._open:
            self._unsent.clear()
            self._leave()

    def vanish(self) -> None:
        """The host is no more: nobody here learns anything."""
        self._open = False
        self._unsent.clear()
        self.listener = None

    def reset_other(self) -> None:
        """Tell the other side that nobody is here."""
        self._notify_other()

    def go_on(self) -> None:
        """The way is open again: what waited there arrives before all that was sent later."""
        stuck, self._stuck = self._stuck, deque()
        for piece in stuck:
            self._deliver(piece)

    # From here to the other end

    def _pump(self) -> None:
        """Hand to the system what it holds, a slice at a time where the link is slow."""
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
            # A host that does not know the connection says so.
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
        """The other side has read so much."""
        self._held -= size
        if self._unsent:
            self._clock.soon(self._pump)

    def _leave(self) -> None:
        self._open = False
        listener, self.listener = self.listener, None
        if listener is not None:
            self._clock.soon(listener.lost)

    def _notify_other(self) -> None:
        """The other side learns, unless the way to it is cut."""
        if not self.cut:
            delay_s = self._paths.quality(self.host, self.other.host).most_delay_s
            self._clock.after(delay_s, self._reset)

    def _reset(self) -> None:
        if not self.cut and not self._paths.parted(self.host, self.other.host):
            self.other.learn()
