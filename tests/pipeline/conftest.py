"""One Spark session for all tests of the pipeline, and a broker's log to give it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.store import Row, broker_directory
from nearcast.store.log.manifest import Manifest, Whole, read_manifest
from nearcast.store.log.segments import write_segment
from tests.support.pipeline_process import JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """The Spark session: two cores, little memory, quiet."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    from nearcast.pipeline.jobs.spark_session import SparkSettings, session, stop

    settings = SparkSettings(
        master="local[2]",
        name="nearcast-tests",
        shuffle_partitions=2,
        driver_memory="1g",
        brisk=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", JAVA)
        started = session(settings)
    yield started
    stop(started)


@pytest.fixture(autouse=True)
def _in_the_session(request: pytest.FixtureRequest) -> None:
    """Whatever a test before did with threads: Spark is asked in the session of all tests."""
    if "spark" in request.fixturenames:
        from nearcast.pipeline.jobs.spark_session import use

        use(request.getfixturevalue("spark"))


def write_log(data: Path, broker: str, rows: Sequence[Row], per_segment: int = 100) -> Path:
    """Add rows to a broker's log under a data directory, and return the log's directory.

    The rows say their own broker and seq, which go on from what the log has; each segment takes
    `per_segment` of them.
    """
    directory = broker_directory(data, broker) / "log"
    directory.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(directory, broker)
    if not manifest.segments:
        manifest = Manifest(directory, Whole(broker))
        manifest.save()
    for start in range(0, len(rows), per_segment):
        part = rows[start : start + per_segment]
        manifest.append(write_segment(directory, manifest.next_number, part))
    return directory
