"""One Spark session for all tests of the pipeline."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nearcast.pipeline.errors import JavaError
from nearcast.pipeline.jobs.java import find_java
from nearcast.pipeline.tables.tables import Tables
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
    from nearcast.pipeline.sink.epoch_writer import RESULT_LIMIT

    settings = SparkSettings(
        master="local[2]",
        name="nearcast-tests",
        shuffle_partitions=2,
        driver_memory="1g",
        brisk=True,
        conf=RESULT_LIMIT,
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


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Tables without a row."""
    return Tables(tmp_path)
