"""What a benchmark ran on."""

import os
import platform


def machine() -> dict[str, str]:
    """Processor, cores and system."""
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
    """Cores for what is measured, and one for what measures, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return set(cores[:-1] or cores), {cores[-1]}
