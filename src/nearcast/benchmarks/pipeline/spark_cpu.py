"""CPU time of all processes of Spark, Java and Python, including those that have ended.

A Python worker whose daemon ends has no parent any more, so its CPU time would be lost. Therefore
all processes are sampled periodically, and the last sample of each is kept.
"""

import threading
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_S = 0.25


class SparkCpu:
    """Samples the processes of a session in a thread until Java ends."""

    def __init__(self, spark: "SparkSession") -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        self._java = psutil.Process(gateway.proc.pid)
        self._used: dict[psutil.Process, float] = {}
        self._looking = threading.Lock()
        threading.Thread(target=self._look_again, daemon=True).start()

    def seconds(self) -> float:
        """CPU seconds used so far, as far as sampled; never decreases."""
        with self._looking:
            for process in self._processes():
                try:
                    times = process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                self._used[process] = times.user + times.system
            return sum(self._used.values())

    def memory(self) -> int:
        """Current resident memory of all processes, in bytes."""
        total = 0
        for process in self._processes():
            try:
                total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total

    def private_memory(self) -> list[int]:
        """Memory that only one Python process has, of each of them, the largest first."""
        found: list[int] = []
        for process in self._processes()[1:]:
            try:
                if process.name().startswith("python"):
                    found.append(process.memory_full_info().uss)
            except psutil.NoSuchProcess:
                continue
        return sorted(found, reverse=True)

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._java, *self._java.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _look_again(self) -> None:
        while self._java.is_running():
            self.seconds()
            time.sleep(LOOK_S)
