"""A network in virtual time: hosts, the paths between them, and their failures.

As with TCP, bytes arrive in order and complete up to some point. A connection may be lost so that
both sides learn of it, or one of them only much later or never; hosts may be partitioned for a
while, in which nothing arrives and nothing is lost; a host may stop at once. Besides connections
there are `datagrams`, for which none of that is guaranteed.
"""

from collections.abc import Callable
from zlib import crc32

from nearcast.simulation.network.virtual_connection import (
    ConnectionListener,
    End,
    LinkQuality,
    Tell,
)
from nearcast.simulation.network.virtual_datagrams import VirtualDatagrams
from nearcast.simulation.virtual_clock import VirtualClock

Accept = Callable[[End], ConnectionListener]
Opened = Callable[[End | None], ConnectionListener | None]
"""Called with an open end, or None if no host was reached; returns its listener."""

CONNECT_WITHIN_S = 3.0
"""The timeout for connecting to an unreachable host."""


class VirtualNetwork:
    """Hosts by name, and the connections between them."""

    def __init__(
        self,
        clock: VirtualClock,
        quality: LinkQuality | None = None,
        tell: Tell = lambda who, what: None,
    ) -> None:
        self.clock = clock
        self.chance = clock.chance("network")
        self._usual = LinkQuality() if quality is None else quality
        self._tell = tell
        self._qualities: dict[frozenset[str], LinkQuality] = {}
        self._parted: set[frozenset[str]] = set()
        self._listening: dict[str, Accept] = {}
        self._ends: dict[int, End] = {}
        """One end of every connection, that of the initiator."""
        self._numbers = 0
        self.datagrams = VirtualDatagrams(self, tell)

    # Hosts

    def listen(self, host: str, accept: Accept) -> None:
        """Accept connections to a host."""
        self._listening[host] = accept

    def stop_listening(self, host: str) -> None:
        """Accept no more connections; existing ones stay open."""
        self._listening.pop(host, None)

    def connect(self, host: str, to: str, opened: Opened) -> None:
        """Connect to a host; `opened` is called with the result."""
        quality = self.quality(host, to)
        delay_s = self.chance.uniform(quality.least_delay_s, quality.most_delay_s)
        self.clock.after(delay_s, lambda: self._reach(host, to, opened))

    def crash(self, host: str, *, told: bool = True) -> None:
        """Stop a host at once; without `told` the others learn of it only when they send."""
        self._listening.pop(host, None)
        self.datagrams.crash(host)
        for end in self._of(host):
            mine = end if end.host == host else end.other
            mine.vanish()
            if told:
                mine.reset_other()

    # Paths

    def quality(self, host: str, other: str) -> LinkQuality:
        """The current quality of the path between two hosts."""
        return self._qualities.get(frozenset((host, other)), self._usual)

    def set_usual(self, quality: LinkQuality) -> None:
        """Set the quality of all paths that have none of their own."""
        self._usual = quality

    def set_quality(self, host: str, other: str, quality: LinkQuality | None) -> None:
        """Change the quality of the path between two hosts; None restores the default."""
        if quality is None:
            self._qualities.pop(frozenset((host, other)), None)
        else:
            self._qualities[frozenset((host, other))] = quality

    def part(self, host: str, other: str) -> None:
        """Partition two hosts until `heal`."""
        self._parted.add(frozenset((host, other)))

    def heal(self, host: str, other: str) -> None:
        """End a partition: held bytes are delivered, and all that follow."""
        self._parted.discard(frozenset((host, other)))
        for end in self._of(host):
            if other in (end.host, end.other.host):
                end.go_on()
                end.other.go_on()

    def parted(self, host: str, other: str) -> bool:
        """Return True if two hosts are partitioned now."""
        return bool(self._parted) and frozenset((host, other)) in self._parted

    def lose(self, host: str, *, learns_s: float | None, other_learns_s: float | None) -> int:
        """Lose the connections of a host; each side learns after a delay, or never (None).

        Return the number of connections.
        """
        found = self._of(host)
        for end in found:
            mine = end if end.host == host else end.other
            mine.cut = mine.other.cut = True
            for side, after_s in ((mine, learns_s), (mine.other, other_learns_s)):
                if after_s is not None:
                    self.clock.after(after_s, side.learn)
        return len(found)

    def note_arrival(self, end: End, data: bytes) -> None:
        """Record that an end received bytes."""
        self._tell(end.host, f"got {len(data)} bytes ({crc32(data):08x}) on {end.number}")

    def _of(self, host: str) -> list[End]:
        """The connections of a host that at least one side considers alive."""
        over = [n for n, end in self._ends.items() if not (end.is_alive or end.other.is_alive)]
        for number in over:
            del self._ends[number]
        return [
            end for end in self._ends.values() if host in (end.host, end.other.host) and not end.cut
        ]

    def _reach(self, host: str, to: str, opened: Opened) -> None:
        accept = self._listening.get(to)
        quality = self.quality(host, to)
        delay_s = self.chance.uniform(quality.least_delay_s, quality.most_delay_s)
        if accept is None or self.parted(host, to):
            wait_s = CONNECT_WITHIN_S if self.parted(host, to) else delay_s
            self.clock.after(wait_s, lambda: opened(None))
            return
        self._numbers += 1
        mine, theirs = End(self, host, self._numbers), End(self, to, self._numbers)
        mine.other, theirs.other = theirs, mine
        self._ends[self._numbers] = mine
        theirs.listener = accept(theirs)
        self.clock.after(delay_s, lambda: self._open(mine, opened))

    def _open(self, end: End, opened: Opened) -> None:
        if not end.is_open or end.cut or self.parted(end.host, end.other.host):
            end.vanish()
            end.reset_other()
            opened(None)
            return
        end.listener = opened(end)
        if end.listener is None:
            end.abort()
