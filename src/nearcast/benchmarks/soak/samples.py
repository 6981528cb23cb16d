"""What a broker holds, sampled every few seconds: memory, descriptors, threads and files."""

import os
from pathlib import Path

from msgspec import Struct

from nearcast.benchmarks.load.process_figures import cpu_s, resident_bytes


class Sample(Struct, frozen=True):
    """One sample."""

    at_s: float
    """Seconds since the soak began."""
    resident_bytes: int
    descriptors: int
    threads: int
    files: int
    """Files in the data directory."""
    cpu_s: float
    """CPU seconds of the broker since its start."""
    attack: str = ""
    """The attack that was under way; empty for none."""


def sample(pid: int, data: Path, at_s: float, attack: str = "") -> Sample:
    """Take a sample of a process and its data directory."""
    return Sample(
        at_s,
        resident_bytes(pid),
        len(os.listdir(f"/proc/{pid}/fd")),
        len(os.listdir(f"/proc/{pid}/task")),
        sum(len(names) for _, _, names in os.walk(data)),
        cpu_s(pid),
        attack,
    )
