"""Stages in Spark, each measured several times: events per CPU-second and per second."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.benchmarks.pipeline.spark_cpu import SparkCpu

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineStage(Struct, frozen=True):
    """Throughput of one stage; each rate is the maximum over its runs."""

    events_per_cpu_s: float
    events_per_s: float
    runs: list[float]
    """Events per CPU-second of every run."""


@contextmanager
def spark_session(
    cores: int, memory: str, step: Callable[[str], None], parts: int = 0
) -> "Iterator[SparkSession]":
    """Start Spark for some measurements."""
    from nearcast.pipeline.jobs.spark_session import SparkSettings, session, stop

    step(f"{cores} cores: starting Spark")
    spark = session(
        SparkSettings(
            master=f"local[{cores}]", shuffle_partitions=parts or cores, driver_memory=memory
        )
    )
    try:
        yield spark
    finally:
        stop(spark)


def best_stage(
    spark: "SparkSession",
    runs: int,
    work: Callable[[], None],
    events: int,
    between: Callable[[], None] | None = None,
) -> PipelineStage:
    """Do some work on events several times, with something else `between`."""
    rates, fastest = [], 0.0
    for _ in range(runs):
        if between is not None:
            between()
        cpu, clock = spark_cpu(spark).seconds(), time.monotonic()
        work()
        fastest = max(fastest, events / (time.monotonic() - clock))
        rates.append(events / (spark_cpu(spark).seconds() - cpu))
    return PipelineStage(max(rates), fastest, rates)


@cache
def spark_cpu(spark: "SparkSession") -> SparkCpu:
    """The CPU time of a session."""
    return SparkCpu(spark)
