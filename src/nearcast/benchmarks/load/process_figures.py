"""What another process used: its CPU time to the nanosecond, and its memory."""

import time
from pathlib import Path

QUIET_STEP_S = 0.05
QUIET_SHARE = 0.04
QUIET_WITHIN_S = 10.0


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads of a process, those that ended included (Linux)."""
    # The number of a process's CPU clock, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime(~pid << 3 | 2)


def memory_bytes(pid: int) -> int:
    """Memory that a process has for itself, also what was moved to swap (Linux).

    Pages of files are left out: how many of them are there, and with how many processes they
    are shared, changes with what else happens on the machine.
    """
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = [int(line.split()[1]) for line in lines if line.startswith(("Anonymous:", "Swap:"))]
    if len(kib) != 2:
        raise OSError(f"the system does not say how much memory process {pid} has")
    return sum(kib) * 1024


def wait_until_quiet(pid: int, least_s: float) -> None:
    """Wait for so long, and then until a process does next to nothing."""
    time.sleep(least_s)
    deadline = time.monotonic() + QUIET_WITHIN_S
    used = cpu_s(pid)
    while time.monotonic() < deadline:
        time.sleep(QUIET_STEP_S)
        before, used = used, cpu_s(pid)
        if used - before < QUIET_SHARE * QUIET_STEP_S:
            return
