"""The Spark session of the pipeline: local by default, or any cluster by its address.

A session has the `nearcast` format, runs Python workers with this interpreter, keeps state in
RocksDB and uses UTC. On a cluster the package is sent along: executors need Python with the
packages that Nearcast requires, but not Nearcast itself.
"""

import atexit
import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = Path(__file__).parents[2]
LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOOPBACK = "127.0.0.1"
END_S = 30.0
POOLS = Path(__file__).with_name("pools.xml")
MOST_PARTS = 8
"""The most partitions by default.

A task for each partition is most of the cost of a small batch: more partitions than cores only add
to it, and on many cores not all are worth one.
"""
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PLAIN_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
"""Spark's default runs `readlink` for every file of a checkpoint, twice."""
BRISK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)
"""Java compiles each method once; otherwise compiling outweighs small batches for minutes."""

BATCH_BYTES = "16m"
"""The most bytes of rows that a Python worker gets at once."""

Started = TypeVar("Started")


class SparkSettings(Struct, frozen=True, kw_only=True):
    """Where Spark runs, and its resources."""

    master: str = "local[*]"
    name: str = "nearcast"
    shuffle_partitions: int = 0
    """The number of partitions of state; 0: the number of cores, at most `MOST_PARTS`.

    A checkpoint keeps the number it was made with; to change it the state must be rebuilt.
    """
    driver_memory: str = "2g"
    brisk: bool = False
    """Optimise for many small batches or a short run, not for the speed of one large job."""
    log_level: str = "ERROR"
    conf: dict[str, str] = {}
    """Any other Spark settings; they override those above."""

    @property
    def is_local(self) -> bool:
        """True if everything runs in processes of this machine, with this package."""
        return self.master.startswith("local[") or self.master == "local"

    @property
    def parts(self) -> int:
        """The number of partitions for new state."""
        if self.shuffle_partitions or not self.is_local:
            return self.shuffle_partitions or MOST_PARTS
        count = self.master.removeprefix("local").strip("[]").partition(",")[0] or "1"
        cores = int(count) if count.isdecimal() else len(os.sched_getaffinity(0))
        return max(1, min(MOST_PARTS, cores))


def session(settings: SparkSettings | None = None) -> "SparkSession":
    """Return the Spark session; start it if there is none.

    Raises `JavaError` if there is no suitable Java and `PipelineError` if Spark does not start. A
    start that fails is retried once: on a busy machine the first processes may time out waiting for
    each other.
    """
    settings = SparkSettings() if settings is None else settings
    logging.getLogger("py4j").setLevel(logging.WARNING)
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = worker_python(settings)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    try:
        spark = tried_twice(lambda: _started(settings), _clear_up)
    except Exception as error:
        # Any error of Spark, Java or the gateway between them.
        why = str(error).partition("\n")[0]
        raise PipelineError(
            f"Spark does not start at {settings.master!r}: {why} (pipeline.master, --master and "
            "[spark] say where and how; what Java said is above)"
        ) from error
    spark.sparkContext.setLogLevel(settings.log_level)
    return spark


def tried_twice(start: Callable[[], Started], clear_up: Callable[[], None]) -> Started:
    """Return the result of `start`; if it fails, clear up and retry once."""
    try:
        return start()
    except Exception:
        clear_up()
        return start()


def worker_python(settings: SparkSettings) -> str:
    """Return the interpreter of Python workers: this one, unless a cluster has its own."""
    chosen = settings.conf.get("spark.pyspark.python")
    if chosen is None and not settings.is_local:
        chosen = os.environ.get("PYSPARK_PYTHON")
    return chosen or sys.executable


def use(spark: "SparkSession", pool: str = "default") -> None:
    """Bind this thread's calls to a session, and its jobs to a scheduler pool.

    Java looks up registrations in the session of its own thread, which changes when Python loses
    its connection and opens a new one.
    """
    sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]
    sessions.setActiveSession(spark._jsparkSession)
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def stop(spark: "SparkSession") -> None:
    """End a session and its Java process, so that another session can be started."""
    spark.stop()
    _clear_up()


def configuration(settings: SparkSettings) -> dict[str, str]:
    """Return the Spark settings of a session."""
    found = {
        "spark.sql.shuffle.partitions": str(settings.parts),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # One row may have thousands of recipients: a number of rows bounds nothing.
        "spark.sql.execution.arrow.maxBytesPerBatch": BATCH_BYTES,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": settings.driver_memory,
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": POOLS.as_uri(),
        JAVA_OPTIONS: f'-Dlog4j2.configurationFile="{LOGGING.as_uri()}"',
    }
    if settings.is_local:
        found |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.python.daemon.module": "nearcast.pipeline.jobs.worker_daemon",
            "spark.sql.streaming.checkpointFileManagerClass": PLAIN_FILES,
        }
        if settings.brisk:
            found[JAVA_OPTIONS] += f" {BRISK_JAVA}"
    return found | settings.conf


def _started(settings: SparkSettings) -> "SparkSession":
    from pyspark.sql import SparkSession

    from nearcast.pipeline.source.data_source import NearcastDataSource

    builder = SparkSession.builder.master(settings.master).appName(settings.name)
    for name, value in configuration(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # The package first: a registration includes only the files added before it.
    if not settings.is_local:
        spark.sparkContext.addPyFile(str(packed()))
    spark.dataSource.register(NearcastDataSource)
    return spark


def _clear_up() -> None:
    """End a remaining Java process, and clear the driver's references to it."""
    from pyspark import SparkContext

    active = SparkContext._active_spark_context
    if active is not None:
        active.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    SparkContext._gateway = SparkContext._jvm = None


def packed() -> Path:
    """Return a zip of this package, which exists as long as this process.

    Spark does not copy it: executors may fetch it at any time.
    """
    directory = Path(tempfile.mkdtemp(prefix="nearcast-package-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = directory / "nearcast.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(PACKAGE.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, Path("nearcast") / path.relative_to(PACKAGE))
    return archive
