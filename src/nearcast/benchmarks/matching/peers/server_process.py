"""Server processes of a benchmark: wait for readiness, count CPU time, stop."""

import subprocess
import time
from collections.abc import Callable
from importlib.util import find_spec

from nearcast.benchmarks.errors import BenchmarkError

START_S, STOP_S = 30.0, 30.0


def wait_until(ready: Callable[[], bool], server: subprocess.Popen[bytes]) -> None:
    """Wait until a server is ready; raise if it ends or takes too long."""
    deadline = time.monotonic() + START_S
    while not ready():
        if server.poll() is not None:
            raise BenchmarkError(f"{server.args!r} ended with code {server.returncode}")
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{server.args!r} was not ready within {START_S:.0f} s")
        time.sleep(0.02)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its descendants."""
    import psutil

    server = psutil.Process(pid)
    used = 0.0
    for process in [server, *server.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        used += times.user + times.system
    return used


def stop(server: subprocess.Popen[bytes]) -> None:
    """Terminate a server; kill it if it has not ended after STOP_S seconds."""
    server.terminate()
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def free_of_server() -> str | None:
    """The package missing to count the CPU time of a server; None if it is installed."""
    return None if find_spec("psutil") else "the Python package psutil"
