"""The memory budget: how much the broker may use, and in which stage of shortage it is.

Stages are entered as soon as their part of the limit is used, and left one after the other when
clearly less is used, so that the broker does not change to and fro.
"""

import os
from enum import IntEnum
from pathlib import Path

SHARE_OF_SYSTEM = 0.7
"""The part of what the system allows that is the limit if none is set."""
MARGIN = 0.05
"""A stage is left when so much less of the limit is used than entered it."""


class MemoryStage(IntEnum):
    """What a broker does when memory becomes short; a later stage includes all before."""

    NORMAL = 0
    WARN = 1
    """The log says so."""
    TRIM = 2
    """Caches are cleared, and free memory is returned to the system."""
    REFUSE = 3
    """New sessions, subscriptions, live events and the like are refused."""
    SHED = 4
    """Users with most queued bytes are not read; QoS 0 messages of the largest queues go."""
    DISCONNECT = 5
    """Clients of the user with most queued bytes are disconnected."""


ENTERED_AT = {
    MemoryStage.WARN: 0.75,
    MemoryStage.TRIM: 0.80,
    MemoryStage.REFUSE: 0.85,
    MemoryStage.SHED: 0.90,
    MemoryStage.DISCONNECT: 0.95,
}
"""The part of the limit at which each stage is entered."""


def next_stage(stage: MemoryStage, used: int, limit: int) -> MemoryStage:
    """Return the stage that follows on a stage, given the memory in use and its limit."""
    entered = [each for each, part in ENTERED_AT.items() if used >= part * limit]
    if entered and entered[-1] >= stage:
        return entered[-1]
    while stage is not MemoryStage.NORMAL and used < (ENTERED_AT[stage] - MARGIN) * limit:
        stage = MemoryStage(stage - 1)
    return stage


def memory_limit(setting: int) -> int:
    """Return the limit in bytes: that of the settings, or a part of what the system allows."""
    return setting or int(SHARE_OF_SYSTEM * allowed_by_system())


def allowed_by_system(root: Path = Path("/")) -> int:
    """Return how much memory this process may use: that of its control group, or all there is."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    groups = root / "sys/fs/cgroup"
    for path in (
        *_group_limits(groups, root / "proc/self/cgroup"),
        groups / "memory/memory.limit_in_bytes",
    ):
        text = _text(path)
        if text.isdigit():
            found.append(int(text))
    return min(found)


def resident_bytes() -> int:
    """Return the memory that this process has in use; 0 where the system does not say."""
    fields = _text(Path("/proc/self/statm")).split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _group_limits(groups: Path, membership: Path) -> list[Path]:
    """The files with the limits of the control group of a process, and of those above it."""
    for line in _text(membership).splitlines():
        if line.startswith("0::"):
            own = groups / line[3:].lstrip("/")
            inside = (each for each in (own, *own.parents) if each.is_relative_to(groups))
            return [each / "memory.max" for each in inside]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
