"""What a pair says: the members' own protocol over a link without delay, counted as in the text.

Set-up, acknowledgements and notices are apart; every other message carries a position and counts.
After each instant the state of both is compared with that of the raw stream, which compares each
fix with the peer's latest however old. In an instant in which both have a fix, the one whose name
comes second looks at its own after it has heard what the first said.
"""

import math
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from nearcast.core.relationships.silence.pair_member import PairMember, PairSettings, PairStep
from nearcast.core.relationships.silence.pair_message import Crossing
from nearcast.core.relationships.silence.regions.region import Point, distance
from nearcast.experiments.fulcrum.tracks import PairTrack

_ENCODER = msgspec.msgpack.Encoder()


class PairCount(Struct):
    """The counts of one pair, or of many."""

    pairs: int = 0
    raw: int = 0
    """Fixes: each would be a message to the peer."""
    messages: int = 0
    acks: int = 0
    bytes: int = 0
    """Of messages and acknowledgements."""
    changes: int = 0
    """Times at which near or apart began, after the first state."""
    wrong: int = 0
    """Instants at which the state of a member was not that of the raw stream."""
    near_s: float = 0.0
    together_s: float = 0.0

    def add(self, other: "PairCount") -> None:
        """Add the counts of another pair."""
        for field in self.__struct_fields__:
            setattr(self, field, getattr(self, field) + getattr(other, field))


def count_pair(track: PairTrack, settings: PairSettings, *, weighs: bool = False) -> PairCount:
    """Return what a pair says on its tracks; bytes only if it weighs them."""
    count = PairCount(pairs=1)
    first, second = members = (
        PairMember("a", settings),
        PairMember("b", settings),
    )
    at: list[Point | None] = [None, None]
    near: bool | None = None
    before = math.nan

    def exchange(who: int, step: PairStep, now: float) -> None:
        waiting = [(1 - who, message) for message in step.messages]
        while waiting:
            receiver, message = waiting.pop(0)
            if not isinstance(message, Crossing):
                count.acks += 1
            elif near is not None:
                count.messages += 1
            if weighs and near is not None:
                count.bytes += len(_ENCODER.encode(message))
            answer = members[receiver].receive(message, now)
            waiting += [(1 - receiver, each) for each in answer.messages]

    for time, a, b in _instants(track):
        if a is not None:
            count.raw += 1
            at[0] = a
            first.take(a, time)
        if b is not None:
            count.raw += 1
            at[1] = b
            second.take(b, time)
        if at[0] is None or at[1] is None:
            # The relationship is defined when both have a position.
            continue
        step = first.elapse(time)
        if step.messages:
            exchange(0, step, time)
        step = second.elapse(time)
        if step.messages:
            exchange(1, step, time)
        is_near = distance(at[0], at[1]) <= settings.within
        if near is not None:
            count.together_s += time - before
            count.near_s += time - before if near else 0.0
            count.changes += is_near is not near
        count.wrong += first.near is not is_near or second.near is not is_near
        near, before = is_near, time
    return count


def _instants(track: PairTrack) -> Iterable[tuple[float, Point | None, Point | None]]:
    def points(columns: list[list[float]]) -> Iterable[Point | None]:
        return ((x, y, z) if x == x else None for x, y, z in columns)

    return zip(
        track.times.tolist(), points(track.first.tolist()), points(track.second.tolist()),
        strict=True,
    )  # fmt: skip
