"""Seen events: each is taken once from each group, however often it arrives.

An event is remembered as long as it may still be accepted, so that a copy, or a replay of what was
recorded, is recognised; what is older is refused by its age.
"""

from collections import OrderedDict
from hashlib import blake2b

EventKey = tuple[str, int, int]
"""Producer, its incarnation, and the number of the event."""


class SeenEvents:
    """Keys of events, each with the time until which it is remembered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._until: OrderedDict[tuple[EventKey, int], float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, key: tuple[EventKey, int]) -> bool:
        return key in self._until

    def add(self, key: EventKey, group: int, until: float, now: float) -> None:
        """Remember an event of a group."""
        while self._until:
            _, first = next(iter(self._until.items()))
            if first > now and len(self._until) < self._most:
                break
            self._until.popitem(last=False)
        self._until[key, group] = until


def share_of(key: EventKey, node: str) -> float:
    """Return a number from 0 to 1 that is random for each event and node, and always the same."""
    digest = blake2b(f"{key}/{node}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32
