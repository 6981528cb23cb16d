"""Stages of a disk that fills up: entered at once, left only when there is clearly more space."""

from pathlib import Path

import pytest

from nearcast.broker.config.settings import DiskSection
from nearcast.broker.durability.disk_space import DiskSpace, DiskStage, DiskUsage, disk_usage

SECTION = DiskSection(
    warn_free_bytes=400, reclaim_free_bytes=300, low_free_bytes=200, critical_free_bytes=100
)
LARGE = 1 << 40


class Disk:
    """A disk whose free space is said by the test."""

    def __init__(self, total: int = LARGE) -> None:
        self.total = total
        self.free = total
        self.broken = False

    def __call__(self, directory: Path) -> DiskUsage:
        if self.broken:
            raise OSError
        return DiskUsage(self.total, self.free)


def stages(disk: Disk, frees: list[int], section: DiskSection = SECTION) -> list[int]:
    space = DiskSpace(Path(), section, disk)
    found = []
    for disk.free in frees:
        space.look()
        found.append(int(space.stage))
    return found


def test_less_space_is_a_higher_stage_at_once() -> None:
    assert stages(Disk(), [400, 399, 299, 199, 99]) == [0, 1, 2, 3, 4]
    assert stages(Disk(), [1_000, 0]) == [0, 4]


def test_a_stage_is_left_only_with_a_quarter_more_than_its_threshold() -> None:
    assert stages(Disk(), [99, 100, 124, 125, 249, 250]) == [4, 4, 4, 3, 3, 2]
    assert stages(Disk(), [0, LARGE]) == [4, 0]
    # Coming and going round a threshold changes nothing.
    assert stages(Disk(), [199, 201, 199, 210, 190]) == [3] * 5


def test_thresholds_fit_a_small_disk() -> None:
    assert stages(Disk(1_000), [101, 99, 59, 39, 19], DiskSection()) == [0, 1, 2, 3, 4]


def test_a_threshold_of_zero_leaves_its_stage_out() -> None:
    section = DiskSection(
        warn_free_bytes=0, reclaim_free_bytes=0, low_free_bytes=0, critical_free_bytes=0
    )
    assert stages(Disk(), [0], section) == [0]


def test_a_disk_that_cannot_be_measured_stays_as_it_was() -> None:
    disk = Disk()
    space = DiskSpace(Path(), SECTION, disk)
    disk.free = 150
    assert space.look()
    assert not space.look()
    disk.broken = True
    assert not space.look()
    assert space.stage is DiskStage.UNRECORDED


def test_what_is_to_be_freed_leaves_the_stage() -> None:
    disk = Disk()
    space = DiskSpace(Path(), SECTION, disk)
    disk.free = 250
    space.look()
    assert space.wanted_bytes == 125
    disk.free += space.wanted_bytes
    space.look()
    assert space.stage is DiskStage.WARNED
    assert space.wanted_bytes == 0


def test_a_failure_to_write_refuses_whatever_is_free() -> None:
    space = DiskSpace(Path(), SECTION, Disk())
    space.look()
    assert space.condition().stage is DiskStage.AMPLE
    failing = space.condition("an error")
    assert (failing.stage, failing.failing) == (DiskStage.REFUSING, True)


@pytest.mark.parametrize("directory", [Path("/"), Path()])
def test_a_real_disk_is_measured(directory: Path) -> None:
    usage = disk_usage(directory)
    assert 0 <= usage.free <= usage.total
    assert usage.total > 0
