"""A group: the parts held together until a threshold is reached (seed E).

The output of a group depends on its parts in their order of arrival, and on nothing else: not on
when it is stored, loaded, or checked for expiry. That is what makes a stream, a history and a
broker agree. Old parts are dropped by the newest part's time; a repeated part is recognised by its
key, and one too old for that is too old to be gathered.
"""

import math
from array import array

import msgspec
from msgspec import Struct

from nearcast.core.gathering.aggregates.parts import Aggregate, Part, short_hash
from nearcast.core.gathering.aggregates.summary import aggregate
from nearcast.core.gathering.needs.thresholds import Threshold
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position

STATE_VERSION = 1


class Group:
    """The parts held in one group of one rule.

    `middle` is the position of the group, if known, and `alarm` the time of its host's next check,
    in the host's own units; both are stored with it.
    """

    def __init__(self, pattern: str, name: str) -> None:
        self.pattern = pattern
        self.name = name
        self.middle: Position | None = None
        self.alarm: int | None = None
        self._parts: dict[int, Part] = {}
        """Held parts, by the hash of their key, in order of arrival."""
        self._people: dict[str, int] = {}
        self._oldest = math.inf
        self._latest = -math.inf
        self._newest = -math.inf
        """The newest time of all parts that ever arrived, including dropped ones."""
        self._gone: dict[int, float] = {}
        """Released parts that might arrive again, with their times."""

    def add(self, part: Part, threshold: Threshold) -> Aggregate | None:
        """Add a part; return the aggregate if the threshold is reached.

        The caller must have called `expire` before, at the part's own time of ingest.
        """
        newest = max(self._newest, part.time)
        horizon = newest - threshold.within_s
        if part.time < horizon:
            return None
        self._newest = newest
        if self._oldest < horizon:
            self._let_go([key for key, each in self._parts.items() if each.time < horizon])
        key = short_hash(part.key)
        if key in self._parts or self._gone.get(key, -math.inf) >= horizon:
            return None
        if threshold.hides_people and len(self._parts) >= threshold.at_most:
            self._let_go([self._most_spared()])
        self._take(key, part)
        return self._release(threshold) if self._is_reached(threshold) else None

    def expire(self, now: float, threshold: Threshold) -> Aggregate | None:
        """Return the aggregate of parts that were held for the longest allowed time, if due."""
        due = self.due(threshold)
        return self._release(threshold) if due is not None and now >= due else None

    def due(self, threshold: Threshold) -> float | None:
        """Return the time of ingest at which the held parts must be released, None if never."""
        if threshold.wait_s is None or threshold.hides_people or not self._parts:
            return None
        return next(iter(self._parts.values())).ingested + threshold.wait_s

    def stale_after(self, threshold: Threshold) -> float:
        """Return the time after which a new part finds the group equivalent to a new one."""
        return self._newest + threshold.within_s

    def statistics(self) -> dict[str, int]:
        """Return the numbers of held parts, of people and of remembered keys."""
        return {"parts": len(self._parts), "people": len(self._people), "gone": len(self._gone)}

    def encoded(self) -> bytes:
        """Return its stored form."""
        return msgspec.msgpack.encode(
            GroupState(
                STATE_VERSION,
                list(self._parts.values()),
                self._newest,
                self.middle,
                array("Q", self._gone).tobytes(),
                array("d", self._gone.values()).tobytes(),
                self.alarm,
            )
        )

    @classmethod
    def decoded(cls, pattern: str, name: str, stored: bytes) -> "Group":
        """Return the group of a stored form."""
        state = _decoded(stored)
        group = cls(pattern, name)
        group.middle = state.middle
        group.alarm = state.alarm
        for part in state.parts:
            group._take(short_hash(part.key), part)
        group._newest = state.newest
        keys, times = array("Q", state.gone), array("d", state.gone_times)
        group._gone = dict(zip(keys, times, strict=True))
        return group

    def _is_reached(self, threshold: Threshold) -> bool:
        if threshold.kind == "people":
            return len(self._people) >= threshold.value
        if len(self._parts) >= threshold.at_most:
            return True
        if threshold.kind == "volume":
            return len(self._parts) >= threshold.value
        return self._latest - self._oldest >= threshold.value

    def _release(self, threshold: Threshold) -> Aggregate:
        parts = list(self._parts.values())
        released = aggregate(self.pattern, self.name, parts, threshold, self.middle)
        for key, part in self._parts.items():
            self._gone.pop(key, None)
            self._gone[key] = part.time
        self._forget(self._newest - threshold.within_s, threshold.at_most)
        self._parts.clear()
        self._people.clear()
        self._oldest, self._latest = math.inf, -math.inf
        return released

    def _take(self, key: int, part: Part) -> None:
        self._parts[key] = part
        self._people[part.publisher] = self._people.get(part.publisher, 0) + 1
        self._oldest = min(self._oldest, part.time)
        self._latest = max(self._latest, part.time)

    def _let_go(self, keys: list[int]) -> None:
        at_the_edge = False
        for key in keys:
            part = self._parts.pop(key)
            self._people[part.publisher] -= 1
            if not self._people[part.publisher]:
                del self._people[part.publisher]
            at_the_edge |= part.time in (self._oldest, self._latest)
        if at_the_edge:
            times = [part.time for part in self._parts.values()]
            self._oldest = min(times, default=math.inf)
            self._latest = max(times, default=-math.inf)

    def _forget(self, horizon: float, most: int) -> None:
        """Drop the keys released first, where they are too old or too many."""
        while self._gone:
            first = next(iter(self._gone))
            if len(self._gone) <= most and self._gone[first] >= horizon:
                return
            del self._gone[first]

    def _most_spared(self) -> int:
        """Return the first part whose publisher has another one, else the first part."""
        for key, part in self._parts.items():
            if self._people[part.publisher] > 1:
                return key
        return next(iter(self._parts))


class GroupState(Struct, array_like=True, gc=False):
    """The stored form of a group. Later releases add fields at the end, with defaults."""

    version: int
    parts: list[Part]
    newest: float
    middle: Position | None
    gone: bytes
    """Hashes of 8 bytes each."""
    gone_times: bytes
    alarm: int | None = None


_DECODER = msgspec.msgpack.Decoder(GroupState)


def _decoded(stored: bytes) -> GroupState:
    try:
        state = _DECODER.decode(stored)
    except msgspec.MsgspecError as error:
        raise ModelError(f"the stored state of a group cannot be read: {error}") from None
    if state.version > STATE_VERSION:
        raise ModelError(
            f"the stored state of a group has form {state.version}, from a later release; this "
            f"one reads up to {STATE_VERSION}"
        )
    return state
