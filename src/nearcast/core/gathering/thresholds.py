"""Thresholds: how much must wait before it goes out together (seed E's aggregability).

{volume: n} is a number of messages, {time: s} the seconds between the oldest and the newest of
them, {people: n} a number of different publishers. Beside it stand the bounds of what waits:
how old a part may get, how many there may be, and how long the first may wait.
"""

from typing import Literal

from msgspec import Struct

ThresholdKind = Literal["volume", "time", "people"]

WITHIN_S = 3600.0
AT_MOST = 1000
GRACE_S = 60.0
"""By how much a time threshold may be overdue before what waits goes out without it."""


class Threshold(Struct, frozen=True):
    """When a group is released, and what bounds it until then."""

    kind: ThresholdKind
    value: float
    within_s: float = WITHIN_S
    """A part that is older than the newest by more than this is let go."""
    at_most: int = AT_MOST
    """How many parts may wait. More of them go out at once; with `people` some are let go."""
    wait_s: float | None = None
    """The longest that the first part waits, by the time of ingest: at most `within_s`."""

    @property
    def hides_people(self) -> bool:
        """Whether what goes out must not tell of any one person."""
        return self.kind == "people"
