"""The pipeline on a real cluster whose workers share a store and Spark's checkpoints, no more.

A standalone master and two workers, in mount namespaces without the data directory, run the three
queries, and decide in two shards; one worker is killed. Clients get everything once and in order,
and every table is as a pipeline on one machine makes it from the same logs.
"""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")
pytest.importorskip("obstore", reason="obstore is not installed")
pytest.importorskip("flask_cors", reason="the server of moto is not installed")

from nearcast.core.model import Event, Position
from nearcast.core.model.inputs import Moved, Published
from nearcast.core.model.record import Record
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.jobs.spark_checkpoints import committed
from nearcast.pipeline.tables.tables import NAMES
from nearcast.store import (
    ObjectPath,
    Row,
    ask_pipeline,
    brokers_in,
    log_directory,
    path_at,
    read_manifest,
    record_row,
)
from nearcast.store.log.log_copy import LogCopy
from nearcast.testing import World
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life
from tests.support.logs.table_rows import table_rows
from tests.support.object_store import BUCKET, s3_server
from tests.support.pipeline_process import PipelineProcess
from tests.support.spark_cluster import spark_cluster

pytestmark = pytest.mark.spark

MOST_ROWS = 400
"""Rows in a batch: with a few times as many at the end, all that waits for time is over."""
SETTINGS = f"""
[decide]
"news/#" = "spark"

[aggregates]
"spots/#" = "volume 3 within 600 per cell 500"

[pipeline]
max_rows = {MOST_ROWS}
encounters_m = 150
"""
CLUSTER = """
[data]
storage = "{storage}"

[spark]
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.executor.memory" = "500m"
"spark.executor.cores" = "1"
"spark.cores.max" = "2"
"spark.scheduler.minRegisteredResourcesRatio" = "1.0"
"""
WAVE = 2 * MOST_ROWS
QUERIES = ("tables", "gather", "movement")


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[str]:
    """The URL of an empty place in an object store."""
    with s3_server() as found, pytest.MonkeyPatch.context() as patched:
        for name, value in found.items():
            patched.setenv(name, value)
        patched.chdir(tmp_path)
        yield f"s3://{BUCKET}/{tmp_path.name}"


def fleet() -> list[Row]:
    """The log of cabs that go round, meet, and tell of spots."""
    chance, rows = Random(11), list[Row]()
    for minute in range(80):
        now = 1_000_000.0 + 30.0 * minute
        for cab in range(6):
            angle = (minute * (1 + cab % 3) + 40 * cab) / 9.0
            at = Position(53.35 + 0.002 * math.sin(angle), -6.26 + 0.003 * math.cos(angle))
            moved = Moved(f"cab-{cab}", at)
            rows.append(record_row(Record(len(rows) + 1, now + cab, moved), "cabs"))
            if chance.random() < 0.3:
                spot = Event(f"s{len(rows)}", "spots/taxi", f"cab-{cab}", now + cab, {}, at)
                published = Record(len(rows) + 1, now + cab, Published(spot))
                rows.append(record_row(published, "cabs"))
    return rows


def has_all(pipeline: PipelineProcess, location: str) -> bool:
    """Whether every query has dealt with all rows of all logs."""
    root = path_at(location)
    ends = {name: read_manifest(log_directory(root, name)).last_seq for name in brokers_in(root)}
    found = [committed(pipeline.data / "checkpoints" / query) or {} for query in QUERIES]
    return all(each.get(name, 1) > end for each in found for name, end in ends.items())


def sorted_tables(data: Path, tables: str = "") -> dict[str, list[str]]:
    def text(row: dict[str, Any]) -> str:
        row = dict(row)
        if "recipients" in row:
            row["recipients"] = sorted(map(str, row["recipients"]))
        return str(sorted(row.items()))

    return {name: sorted(map(text, rows)) for name, rows in table_rows(data, tables).items()}


def test_a_cluster_that_sees_no_broker_decides_as_one_machine_does(
    tmp_path: Path, storage: str
) -> None:
    settings = tmp_path / "nearcast.toml"
    settings.write_text(SETTINGS + CLUSTER.format(storage=storage))
    data = tmp_path / "data"
    (data / "checkpoints").mkdir(parents=True)
    logs = {"broker": log_of_a_life(World(seed=907), 40), "cabs": fleet()}
    for name, rows in logs.items():
        log = write_log(data, name, rows)
        copy = log_directory(path_at(storage), name)
        assert isinstance(copy, ObjectPath)
        assert LogCopy(log, copy, name).update() > 0
        # As a broker does whose oldest rows should go.
        ask_pipeline(copy, 1)
    listener, talker = StubbornClient("listener"), StubbornClient("talker")
    broker = BrokerProcess(data)
    pipeline = None
    try:
        broker.wait_until_it_listens()
        for client in (listener, talker):
            client.connect(broker.port)
        listener.subscribe("news/#", qos=1)
        with spark_cluster(tmp_path, data) as cluster:
            chosen = {"pipeline.master": cluster.address, "pipeline.decide_shards": 2}
            pipeline = PipelineProcess(data, chosen)
            pipeline.wait_until_it_follows()
            for wave in range(2):
                for number in range(WAVE):
                    talker.publish("news/local", f"{wave}.{number}".encode(), qos=1)
                talker.finish()
                if wave:
                    cluster.kill_worker(0)
                listener.wait_for("news/local", f"{wave}.{WAVE - 1}".encode(), within_s=900.0)
            pipeline.wait_until(lambda queries: has_all(pipeline, storage))
            assert pipeline.stop() == 0
        told = [each.payload.decode() for each in listener.got]
        assert told == [f"{wave}.{number}" for wave in range(2) for number in range(WAVE)]
    finally:
        for client in (listener, talker):
            client.leave()
        if pipeline is not None:
            pipeline.end()
        broker.end()
    # Snapshots, tables and logs are in the store, and the former only there.
    assert not (data / "tables").exists()
    assert not (data / "checkpoints" / "snapshots").exists()
    assert all(Snapshots.of(storage, name).newest() > 0 for name in logs)
    assert sorted(brokers_in(path_at(storage))) == ["broker", "cabs", "local"]
    alone = tmp_path / "alone"
    for name in (*logs, "local"):
        shutil.copytree(
            log_directory(data, name), log_directory(alone, name), ignore=_not_of_the_log
        )
    settings.write_text(SETTINGS)
    other = PipelineProcess(alone)
    try:
        other.wait_until(lambda queries: has_all(other, str(alone)))
        assert other.stop() == 0
    finally:
        other.end()
    found, expected = sorted_tables(data, f"{storage}/tables"), sorted_tables(alone)
    assert {name: len(rows) for name, rows in found.items() if not rows} == {}
    assert set(found) == set(NAMES)
    for name in NAMES:
        assert found[name] == expected[name], name


def _not_of_the_log(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "_snapshots" or name.startswith("_follow")]
