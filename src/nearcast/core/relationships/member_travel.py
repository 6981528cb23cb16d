"""Travel of a member: which of its pairs must be looked at after a fix, by the law of continuity.

Two members that are some metres from where their state would change cannot change it before they
have travelled so far together (seed A). Each pair therefore gives its members an allowance; a
member adds up what it travels, and a pair is due when an allowance is used up. A fix costs what is
due, however many pairs there are.
"""

from heapq import heapify, heappop, heappush

from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position

DISTANCE_ERROR = 5e-5
"""More than the relative error of two distances."""
CAUTION, LEAST_M = 0.99, 0.01


class MemberTravel:
    """What a member travelled, and what it may travel for each of its pairs."""

    __slots__ = ("_at", "_due", "_due_of", "_metres", "pairs")

    def __init__(self) -> None:
        self.pairs: set[str] = set()
        """The names of all its pairs."""
        self._at: Position | None = None
        self._metres = 0.0
        """What it travelled since the beginning."""
        self._due_of: dict[str, float] = {}
        """The reading at which each pair is due."""
        self._due: list[tuple[float, str]] = []
        """The same as a heap, with readings that no longer hold."""

    def move(self, to: Position) -> list[str]:
        """Add the way to a new position; return the names of the pairs that are due."""
        at, self._at = self._at, to
        if at is not None:
            self._metres += distance_m(float(at.lat), float(at.lon), float(to.lat), float(to.lon))
        due, due_of, found = self._due, self._due_of, []
        while due and due[0][0] <= self._metres:
            reading, name = heappop(due)
            if due_of.get(name) == reading:
                del due_of[name]
                found.append(name)
        return found

    def stand(self, at: Position | None) -> None:
        """Take a position for granted, when all pairs are looked at anyway."""
        self._at = at

    def left(self, name: str) -> float:
        """The metres that it may still travel for a pair; 0 if it is due."""
        return max(0.0, self._due_of.get(name, self._metres) - self._metres)

    def allow(self, name: str, metres: float) -> None:
        """Set what it may travel for a pair from here."""
        reading = self._metres + metres
        self._due_of[name] = reading
        heappush(self._due, (reading, name))
        if len(self._due) > 2 * len(self._due_of) + 16:
            self._due = [(reading, name) for name, reading in self._due_of.items()]
            heapify(self._due)

    def end(self, name: str) -> None:
        """Forget a pair."""
        self._due_of.pop(name, None)


def share(name: str, slack_m: float, mover: MemberTravel, other: MemberTravel) -> None:
    """Divide what two members may travel together: the other keeps what it has, up to half."""
    theirs = other.left(name)
    if theirs > slack_m / 2.0 or theirs == 0.0:
        theirs = slack_m / 2.0
        other.allow(name, theirs)
    mover.allow(name, slack_m - theirs)


def slack_m(distance: float, limits: tuple[float, ...]) -> float:
    """Return what two members at a distance may travel before they can pass one of the limits."""
    least = min(abs(distance - limit) - DISTANCE_ERROR * max(distance, limit) for limit in limits)
    return max(0.0, CAUTION * least - LEAST_M)
