"""Starts the load generator as a process, sends it orders and reads their results.

It is a separate process so that neither a progress bar nor the collection of figures takes time
from it, and so that its CPU time can be measured separately.
"""

import os
import subprocess
import sys
from types import TracebackType

import msgspec

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load.orders import LoadResult, Order
from nearcast.benchmarks.this_machine import cores_apart

STOP_S = 30.0


class LoadProcess:
    """A load generator that runs until it is closed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nearcast.benchmarks.load.mqtt_load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        # Pinned to its own core: the scheduler would move it to the broker's, where it would wait.
        os.sched_setaffinity(self._process.pid, cores_apart()[1])
        self._outcomes = msgspec.json.Decoder(LoadResult)

    def carry_out(self, order: Order) -> LoadResult:
        """Send an order and return its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"the load generator ended during {order}")
        outcome: LoadResult = self._outcomes.decode(line)
        return outcome

    def close(self) -> None:
        """Close its input and wait until the process has ended."""
        self._process.communicate(timeout=STOP_S)

    def __enter__(self) -> "LoadProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        self._process.kill()
        self._process.communicate()
