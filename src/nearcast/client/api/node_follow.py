"""Following: a node that reports its position only when somebody must know it.

The broker tells the node regions in which none of its relationships can change, as far as its
members may see each other. Inside them, and near its last report, the node keeps silent.
"""

import math
from collections.abc import AsyncIterable, Iterable

from msgspec import Struct

from nearcast.client.api.areas import PositionLike
from nearcast.client.errors import OptionsError
from nearcast.client.receive.streams import StreamContext

ACCURACY_M = 50.0
FixSource = AsyncIterable[PositionLike] | Iterable[PositionLike]
"""Fixes as they come: positions, or pairs of latitude and longitude."""


class FollowStatistics(Struct, frozen=True):
    """What became of the fixes of a source."""

    fixes: int
    reports: int
    """Messages sent for them, with a position or without."""


class NodeFollow:
    """The following half of a node."""

    def __init__(self, context: StreamContext) -> None:
        self._follow_context = context

    async def follow(
        self, source: FixSource, *, accuracy_m: float | None = ACCURACY_M
    ) -> FollowStatistics:
        """Follow a source of fixes until it ends, and report those that somebody must know.

        A fix is reported if it leaves a region of one of the node's relationships, or is
        `accuracy_m` metres from the last one reported; with None, for relationships alone, and
        everything else then knows a position that may be far off. Relationships whose members may
        not all see each other's position need every fix. While it follows and is connected, the
        position of the node does not age. One part of a node can follow at a time.

        Raises `ModelError` for an invalid fix, and what reading the source raises.
        """
        if accuracy_m is not None and not 0.0 <= accuracy_m < math.inf:
            raise OptionsError(f"an accuracy is 0 or more metres, or None, not {accuracy_m}")
        # Regions need compiled geometry, which most programs do without.
        from nearcast.client.api.following import Following

        following = Following(self._follow_context, accuracy_m)
        await following.run(source)
        return FollowStatistics(following.fixes, following.reports)
