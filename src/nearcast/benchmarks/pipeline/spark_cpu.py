"""CPU of all that Spark started: Java and its Python processes, also of those that have ended.

A Python worker whose daemon ends has no parent any more, and its CPU would be lost with it. So
all are looked at again and again, and what each had used when it was last seen counts for good.
"""

import threading
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 0.25


class SparkCpu:
    """Looks at the processes of a session from now on, until it ends."""

    def __init__(self, spark: "SparkSession") -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        self._java = psutil.Process(gateway.proc.pid)
        self._used: dict[psutil.Process, float] = {}
        self._looking = threading.Lock()
        threading.Thread(target=self._look_again, daemon=True).start()

    def seconds(self) -> float:
        """CPU that was used until now; never less than before."""
        with self._looking:
            for process in self._processes():
                try:
                    times = process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                self._used[process] = times.user + times.system
            return sum(self._used.values())

    def memory(self) -> int:
        """Memory of all processes together, now."""
        total = 0
        for process in self._processes():
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._java, *self._java.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _look_again(self) -> None:
        while self._java.is_running():
            self.seconds()
            time.sleep(LOOK_S)
