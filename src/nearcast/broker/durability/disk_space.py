"""Free space on the disk of the data directory, and the stage that follows from it.

Each stage includes those before it: warn, drop covered segments of the log, stop recording events
of QoS 0, refuse messages of QoS 1 and 2. A stage is left only when there is clearly more space than
it needs, so that it does not come and go with every file.
"""

import shutil
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

from msgspec import Struct

from nearcast.broker.config.settings import DiskSection

RELEASE = 1.25
"""A stage is left when so many times its threshold is free."""
LARGEST_PARTS = (0.10, 0.06, 0.04, 0.02)
"""The most that a threshold may be of the whole disk, so that the defaults fit small ones too."""


class DiskStage(IntEnum):
    """What little space on the disk leads to."""

    AMPLE = 0
    WARNED = 1
    RECLAIMING = 2
    """Segments that nobody needs are dropped before their time."""
    UNRECORDED = 3
    """Events of QoS 0 are not recorded, and those decided in Spark are refused."""
    REFUSING = 4
    """Messages of QoS 1 and 2, and all that would have to be stored, are refused."""


class DiskCondition(Struct, frozen=True):
    """The stage of a disk, and the reason, in words for clients and operators."""

    stage: DiskStage = DiskStage.AMPLE
    why: str = ""
    failing: bool = False
    """True if writing failed: nothing can be promised now."""


class DiskUsage(Struct, frozen=True):
    """The size of a disk, and what is free for the broker's user."""

    total: int
    free: int


def disk_usage(directory: Path) -> DiskUsage:
    """Return the usage of the disk that holds a directory; raises `OSError`."""
    found = shutil.disk_usage(directory)
    return DiskUsage(found.total, found.free)


class DiskSpace:
    """The stage of one disk; `usage` measures it."""

    def __init__(
        self,
        directory: Path,
        section: DiskSection,
        usage: Callable[[Path], DiskUsage] = disk_usage,
    ) -> None:
        self._directory = directory
        self._thresholds = (
            section.warn_free_bytes,
            section.reclaim_free_bytes,
            section.low_free_bytes,
            section.critical_free_bytes,
        )
        self._usage = usage
        self._found = DiskUsage(0, 0)
        self.stage = DiskStage.AMPLE

    @property
    def free_bytes(self) -> int:
        """What was free at the last look."""
        return self._found.free

    @property
    def wanted_bytes(self) -> int:
        """How much has to be freed so that nothing more is dropped before its time."""
        wanted = int(self._threshold(DiskStage.RECLAIMING) * RELEASE)
        return max(0, wanted - self._found.free)

    def look(self) -> bool:
        """Measure; return True if the stage has changed."""
        try:
            self._found = self._usage(self._directory)
        except OSError:
            # Whether it can be written to is found out by writing.
            return False
        before = self.stage
        needed = max((s for s in DiskStage if s and self._is_below(s)), default=DiskStage.AMPLE)
        while self.stage > needed and not self._is_below(self.stage, RELEASE):
            self.stage = DiskStage(self.stage - 1)
        self.stage = max(self.stage, needed)
        return self.stage != before

    def condition(self, failure: str | None = None) -> DiskCondition:
        """Return the condition; `failure`: why writing fails, if it does."""
        if failure is not None:
            return DiskCondition(DiskStage.REFUSING, "the broker cannot write to its disk", True)
        if self.stage is DiskStage.AMPLE:
            return DiskCondition()
        why = f"the broker is short of disk space ({self._found.free >> 20} MiB are free)"
        return DiskCondition(self.stage, why)

    def _is_below(self, stage: DiskStage, times: float = 1.0) -> bool:
        return self._found.free < self._threshold(stage) * times

    def _threshold(self, stage: DiskStage) -> float:
        chosen = self._thresholds[stage - 1]
        return min(chosen, self._found.total * LARGEST_PARTS[stage - 1])
