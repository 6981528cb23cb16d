"""CPU time of another process, in nanosecond resolution, and its memory."""

import time
from pathlib import Path

QUIET_STEP_S = 0.05
QUIET_SHARE = 0.04
QUIET_WITHIN_S = 10.0


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process, including ended threads (Linux)."""
    # The id of the process's CPU clock, as clock_getcpuclockid(3) computes it.
    return time.clock_gettime(~pid << 3 | 2)


def memory_bytes(pid: int) -> int:
    """Anonymous memory of a process, including swapped pages (Linux).

    File pages are excluded: how many are resident, and how many processes share them, depends on
    other activity on the machine.
    """
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = [int(line.split()[1]) for line in lines if line.startswith(("Anonymous:", "Swap:"))]
    if len(kib) != 2:
        raise OSError(f"the system does not say how much memory process {pid} has")
    return sum(kib) * 1024


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, including file pages (Linux)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"the system does not say how much memory process {pid} has")


def wait_until_quiet(pid: int, least_s: float, share: float = QUIET_SHARE) -> None:
    """Wait `least_s` seconds, and then until a process is almost idle or a timeout ends.

    `share` is the part of a core that it may use then.
    """
    time.sleep(least_s)
    deadline = time.monotonic() + QUIET_WITHIN_S
    used = cpu_s(pid)
    while time.monotonic() < deadline:
        time.sleep(QUIET_STEP_S)
        before, used = used, cpu_s(pid)
        if used - before < share * QUIET_STEP_S:
            return
