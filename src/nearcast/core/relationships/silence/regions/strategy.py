"""Strategies of silence: which regions the members of a pair agree on.

All strategies propose regions that fit and that hold the two points they are given; they differ in
how long members stay inside. So any of them detects what a raw stream of fixes shows, and each has
a price in messages.
"""

from typing import Protocol

from nearcast.core.relationships.silence.regions.region import Regions
from nearcast.core.relationships.silence.report import Report


class SilenceStrategy(Protocol):
    """One way of choosing regions."""

    @property
    def name(self) -> str:
        """Its name in settings and results."""

    @property
    def smoothing_s(self) -> float:
        """The time over which a member's velocity is smoothed."""

    @property
    def stale_intervals(self) -> float:
        """The age of a fix, in intervals of fixes, at which its velocity no longer counts."""

    def propose(
        self, mine: Report, theirs: Report, within: float, theirs_age_s: float | None
    ) -> Regions:
        """Return regions for me, who tells them, and for my peer.

        `theirs` is the peer's last report; `theirs_age_s` its age, None if it is of this moment.
        """

    def is_worth_answering(
        self, regions: Regions, mine: Report, theirs: Report, within: float
    ) -> bool:
        """Return whether regions told by the peer, in which I am, are worth a message to change."""
