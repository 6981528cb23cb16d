"""A network in virtual time: hosts, ways between them, and everything that goes wrong on those.

As with TCP, what arrives arrives in order and whole up to some point. A connection may be lost so
that both sides learn of it, or one of them only much later or never; hosts may be parted from
each other for a while, in which nothing arrives and nothing is lost; a host may stop at once.
Beside connections there are `datagrams`, for which none of that is promised.
"""

from collections.abc import Callable
from zlib import crc32

from nearcast.simulation.virtual_clock import VirtualClock
from nearcast.simulation.virtual_connection import ConnectionListener, End, LinkQuality, Tell
from nearcast.simulation.virtual_datagrams import VirtualDatagrams

Accept = Callable[[End], ConnectionListener]
Opened = Callable[[End | None], ConnectionListener | None]
"""Gets an open end, or None if no host was reached, and returns its listener."""

CONNECT_WITHIN_S = 3.0
"""A host that cannot be reached is given up after this."""


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
        """One end of every connection, the one that began it."""
        self._numbers = 0
        self.datagrams = VirtualDatagrams(self, tell)

    # Hosts

    def listen(self, host: str, accept: Accept) -> None:
        """Take connections to a host."""
        self._listening[host] = accept

    def stop_listening(self, host: str) -> None:
        """Take no more connections; those that are there go on."""
        self._listening.pop(host, None)

    def connect(self, host: str, to: str, opened: Opened) -> None:
        """Connect to a host; `opened` is called when that is decided."""
        quality = self.quality(host, to)
        delay_s = self.chance.uniform(quality.least_delay_s, quality.most_delay_s)
        self.clock.after(delay_s, lambda: self._reach(host, to, opened))

    def crash(self, host: str, *, told: bool = True) -> None:
        """Stop a host at once; without `told` the others learn nothing before they ask."""
        self._listening.pop(host, None)
        self.datagrams.crash(host)
        for end in self._of(host):
            mine = end if end.host == host else end.other
            mine.vanish()
            if told:
                mine.reset_other()

    # Ways

    def quality(self, host: str, other: str) -> LinkQuality:
        """What the way between two hosts is like now."""
        return self._qualities.get(frozenset((host, other)), self._usual)

    def set_usual(self, quality: LinkQuality) -> None:
        """Set the quality of all paths that have none of their own."""
        self._usual = quality

    def set_quality(self, host: str, other: str, quality: LinkQuality | None) -> None:
        """Make the way between two hosts better or worse; None: as usual."""
        if quality is None:
            self._qualities.pop(frozenset((host, other)), None)
        else:
            self._qualities[frozenset((host, other))] = quality

    def part(self, host: str, other: str) -> None:
        """Let nothing pass between two hosts until it is healed."""
        self._parted.add(frozenset((host, other)))

    def heal(self, host: str, other: str) -> None:
        """Let pass what waits, and all that follows."""
        self._parted.discard(frozenset((host, other)))
        for end in self._of(host):
            if other in (end.host, end.other.host):
                end.go_on()
                end.other.go_on()

    def parted(self, host: str, other: str) -> bool:
        """Decide whether nothing passes between two hosts now."""
        return bool(self._parted) and frozenset((host, other)) in self._parted

    def lose(self, host: str, *, learns_s: float | None, other_learns_s: float | None) -> int:
        """Lose the connections of a host; each side learns after a while, or never (None).

        Return how many there were.
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
        """Note that an end got bytes."""
        self._tell(end.host, f"got {len(data)} bytes ({crc32(data):08x}) on {end.number}")

    def _of(self, host: str) -> list[End]:
        """The connections of a host that still are one, for at least one side."""
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
