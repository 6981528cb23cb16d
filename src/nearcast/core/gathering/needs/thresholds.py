"""Thresholds: how many parts a group needs before it is released (seed E's aggregability).

{volume: n} is a number of messages, {time: s} the seconds between the oldest and the newest of
them, {people: n} a number of different publishers. Further fields bound the held parts: their age,
their number, and how long the first is held.
"""

from typing import Literal

from msgspec import Struct

ThresholdKind = Literal["volume", "time", "people"]

WITHIN_S = 3600.0
AT_MOST = 1000
GRACE_S = 60.0
"""The overrun of a time threshold after which held parts are released without reaching it."""


class Threshold(Struct, frozen=True):
    """When a group is released, and the bounds on its parts until then."""

    kind: ThresholdKind
    value: float
    within_s: float = WITHIN_S
    """A part that is older than the newest by more than this is dropped."""
    at_most: int = AT_MOST
    """The limit of held parts. At the limit they are released; with `people` some are dropped."""
    wait_s: float | None = None
    """The longest time the first part is held, by the time of ingest: at most `within_s`."""

    @property
    def hides_people(self) -> bool:
        """True if an aggregate must not reveal any single person."""
        return self.kind == "people"
