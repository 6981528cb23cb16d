"""The machine on which a benchmark runs: its description, and its cores."""

import os
import platform


def machine() -> dict[str, str]:
    """Return the processor model, the number of cores and the operating system."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
        model = names[0] if names else model
    except OSError:
        pass
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
    }


def cores_apart() -> tuple[set[int], set[int]]:
    """Return the cores for the measured process and the core for the load generator.

    With a single core, both sets hold that core.
    """
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[:-1] or cores), {cores[-1]}
