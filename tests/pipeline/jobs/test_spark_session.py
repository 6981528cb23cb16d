"""The session: what it is set to by default, what a cluster is given, and the package for it."""

import os
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.job import check_checkpoints
from nearcast.pipeline.jobs.query_names import QUERIES
from nearcast.pipeline.jobs.spark_session import (
    SparkSettings,
    configuration,
    packed,
    session,
    tried_twice,
    worker_python,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_laptop_is_set_up_without_being_asked(spark: "SparkSession") -> None:
    conf = spark.conf
    assert conf.get("spark.sql.session.timeZone") == "UTC"
    assert "RocksDB" in (conf.get("spark.sql.streaming.stateStore.providerClass") or "")
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"


def test_a_session_that_runs_is_the_session(spark: "SparkSession") -> None:
    same = SparkSettings(master="local[2]", shuffle_partitions=2)
    assert session(same).sparkContext is spark.sparkContext


def test_workers_run_this_interpreter(spark: "SparkSession") -> None:
    def interpreter(_: object) -> str:
        return sys.executable

    assert spark.sparkContext.parallelize([1], 1).map(interpreter).collect() == [sys.executable]


def test_own_settings_of_spark_come_first() -> None:
    laptop = configuration(SparkSettings())
    assert laptop["spark.driver.host"] == "127.0.0.1"
    cluster = configuration(
        SparkSettings(
            master="spark://far:7077", conf={"spark.ui.enabled": "true", "spark.cores.max": "64"}
        )
    )
    assert (cluster["spark.ui.enabled"], cluster["spark.cores.max"]) == ("true", "64")
    # Executors elsewhere could not reach it there.
    assert "spark.driver.host" not in cluster


def test_state_is_in_as_many_parts_as_there_are_cores_unless_told() -> None:
    def parts(master: str, asked: int = 0) -> int:
        found = SparkSettings(master=master, shuffle_partitions=asked)
        return int(configuration(found)["spark.sql.shuffle.partitions"])

    assert parts("local[*]") == min(8, len(os.sched_getaffinity(0)))
    assert (parts("local"), parts("local[3]"), parts("local[3,2]")) == (1, 3, 3)
    assert (parts("local[64]"), parts("spark://far:7077")) == (8, 8)
    assert (parts("local[2]", 16), parts("spark://far:7077", 64)) == (16, 64)


def test_state_stays_in_the_parts_it_began_with(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()

    def parts(asked: int, cores: int) -> int:
        settings = SparkSettings(master=f"local[{cores}]", shuffle_partitions=asked)
        return check_checkpoints(tmp_path, settings)

    assert parts(asked=0, cores=2) == 2
    assert parts(asked=0, cores=6) == 2
    assert parts(asked=2, cores=6) == 2
    with pytest.raises(PipelineError, match="is in 2 partitions, and 6 are asked for"):
        parts(asked=6, cores=6)


def test_workers_are_forked_from_one_that_has_all_imports(spark: "SparkSession") -> None:
    def imported(_: object) -> bool:
        return "nearcast.pipeline.decide.decisions" in sys.modules

    assert spark.sparkContext.parallelize([1], 1).map(imported).collect() == [True]


def test_java_is_brisk_only_where_it_is_asked_and_here() -> None:
    options = "spark.driver.extraJavaOptions"
    assert "TieredStopAtLevel" not in configuration(SparkSettings())[options]
    assert "TieredStopAtLevel" in configuration(SparkSettings(brisk=True))[options]
    far = configuration(SparkSettings(master="spark://far:7077", brisk=True))
    assert "TieredStopAtLevel" not in far[options]
    assert "spark.python.daemon.module" not in far


def test_jobs_of_a_query_are_in_its_pool(spark: "SparkSession") -> None:
    known = spark.sparkContext._jsc.sc().getPoolForName
    assert all(known(name).isDefined() for name in QUERIES)
    assert known("gather").get().minShare() == 1


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("local-cluster[2,1,1024]", False), ("yarn", False)],
)
def test_only_what_runs_in_this_package_needs_none_shipped(master: str, is_local: bool) -> None:
    assert SparkSettings(master=master).is_local is is_local


def test_the_package_packs_all_it_needs_and_nothing_compiled() -> None:
    with zipfile.ZipFile(packed()) as archive:
        names = archive.namelist()
    assert {"nearcast/__init__.py", "nearcast/pipeline/source/data_source.py"} <= set(names)
    assert [name for name in names if "__pycache__" in name] == []


def test_a_start_that_fails_is_tried_once_more_and_no_more() -> None:
    happened: list[str] = []

    def start(failures: int) -> str:
        happened.append("start")
        if happened.count("start") <= failures:
            raise RuntimeError("Python worker failed to connect back")
        return "started"

    def clear_up() -> None:
        happened.append("clear up")

    assert tried_twice(lambda: start(1), clear_up) == "started"
    assert happened == ["start", "clear up", "start"]
    happened.clear()
    with pytest.raises(RuntimeError):
        tried_twice(lambda: start(2), clear_up)


def test_a_cluster_may_have_a_python_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "python-of-executors")
    assert worker_python(SparkSettings()) == sys.executable
    assert worker_python(SparkSettings(master="yarn")) == "python-of-executors"
    named = SparkSettings(master="yarn", conf={"spark.pyspark.python": "named"})
    assert worker_python(named) == "named"
