"""In which stage of memory shortage a broker is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.quotas.memory_budget import (
    ENTERED_AT,
    MARGIN,
    MemoryStage,
    allowed_by_system,
    memory_limit,
    next_stage,
    resident_bytes,
)

LIMIT = 1_000


def stages(*used: int) -> list[str]:
    stage, found = MemoryStage.NORMAL, []
    for each in used:
        stage = next_stage(stage, each, LIMIT)
        found.append(stage.name)
    return found


def test_each_stage_is_entered_at_its_part_of_the_limit() -> None:
    assert stages(749, 750, 800, 850, 900, 950, 2_000) == [
        "NORMAL", "WARN", "TRIM", "REFUSE", "SHED", "DISCONNECT", "DISCONNECT",
    ]  # fmt: skip


def test_a_stage_is_left_when_clearly_less_is_used() -> None:
    assert stages(850, 849, 800, 799, 750, 749, 700, 699) == [
        "REFUSE", "REFUSE", "REFUSE", "TRIM", "TRIM", "WARN", "WARN", "NORMAL",
    ]  # fmt: skip
    assert stages(990, 10) == ["DISCONNECT", "NORMAL"]


@given(st.lists(st.integers(0, 1_200)))
def test_the_stage_is_at_least_what_is_used_asks_for_and_little_more(used: list[int]) -> None:
    stage = MemoryStage.NORMAL
    for each in used:
        stage = next_stage(stage, each, LIMIT)
        for other, part in ENTERED_AT.items():
            if each >= part * LIMIT:
                assert stage >= other
            if each < (part - MARGIN) * LIMIT:
                assert stage < other


def test_the_limit_is_that_of_the_settings_or_a_part_of_the_systems(tmp_path: Path) -> None:
    assert memory_limit(12_345) == 12_345
    assert 0 < memory_limit(0) < allowed_by_system()
    assert resident_bytes() > 1 << 20
    group = tmp_path / "sys/fs/cgroup/some/group"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/some/group\n")
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text("1000000\n")
    assert allowed_by_system(tmp_path) == 1_000_000


@pytest.mark.parametrize("limit", ["9223372036854771712", "500000"])
def test_the_older_form_of_control_groups_is_read_too(tmp_path: Path, limit: str) -> None:
    group = tmp_path / "sys/fs/cgroup/memory"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(f"{limit}\n")
    assert allowed_by_system(tmp_path) == min(int(limit), allowed_by_system())
