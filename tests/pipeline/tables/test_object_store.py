"""Tables below a URL: the same as in a directory, without anything that only files can do."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("moto", reason="moto is not installed")
pytest.importorskip("flask_cors", reason="the server of moto is not installed")

from nearcast.pipeline.errors import JavaError, PipelineError
from nearcast.pipeline.jobs.java import find_java
from nearcast.pipeline.tables.erasure import forget
from nearcast.pipeline.tables.tables import EpochId, Tables
from nearcast.testing import World
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import log_of_a_life
from tests.support.object_store import BUCKET, s3_server
from tests.support.pipeline_process import variables


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """The environment of clients of the object store, also in this process."""
    with s3_server() as found, pytest.MonkeyPatch.context() as patched:
        for name, value in found.items():
            patched.setenv(name, value)
        yield found


def append(tables: Tables, epoch: int, *nodes: str, query: str = "q") -> bool:
    rows = pa.table({"node": list(nodes), "time": [epoch * 50_000.0] * len(nodes)})
    return tables.append("contexts", rows, EpochId(query, epoch))


def nodes(tables: Tables) -> list[str]:
    return sorted(each for rows in tables.batches("contexts") for each in rows["node"].to_pylist())


def test_epochs_compaction_and_vacuum(environment: dict[str, str], tmp_path: Path) -> None:
    tables = Tables(tmp_path, f"s3://{BUCKET}/plain")
    for epoch in range(4):
        assert append(tables, epoch, f"n{epoch}")
    assert not append(tables, 3, "again")
    assert sum(tables.compact().values()) == 4
    assert tables.vacuum(history_s=0.0) == 4
    again = Tables(tmp_path, f"s3://{BUCKET}/plain")
    assert nodes(again) == ["n0", "n1", "n2", "n3"]
    assert append(again, 4, "n4")
    assert not (tmp_path / "tables").exists()


def test_of_writers_that_race_none_loses_a_commit(
    environment: dict[str, str], tmp_path: Path
) -> None:
    append(Tables(tmp_path, f"s3://{BUCKET}/race"), 0, "first")
    problems: list[BaseException] = []

    def write(query: str) -> None:
        tables = Tables(tmp_path, f"s3://{BUCKET}/race")
        try:
            for epoch in range(8):
                assert append(tables, epoch, f"{query}{epoch}", query=query)
        except BaseException as error:
            problems.append(error)

    writers = [threading.Thread(target=write, args=(query,)) for query in "abc"]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert problems == []
    wanted = ["first", *(f"{query}{epoch}" for query in "abc" for epoch in range(8))]
    assert nodes(Tables(tmp_path, f"s3://{BUCKET}/race")) == sorted(wanted)


def test_a_person_is_forgotten(environment: dict[str, str], tmp_path: Path) -> None:
    location = f"s3://{BUCKET}/people"
    tables = Tables(tmp_path, location)
    append(tables, 0, "ann", "ben")
    append(tables, 1, "ann")
    append(tables, 2, "ben")
    assert forget(tmp_path, "ann", location) == 2
    assert nodes(Tables(tmp_path, location)) == ["ben", "ben"]


def test_a_store_that_cannot_be_reached_is_one_message(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(PipelineError, match="nowhere"):
        append(Tables(tmp_path, "s3://nowhere/tables"), 0, "n")


@pytest.mark.spark
def test_a_replay_writes_there_from_its_tasks(environment: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    write_log(tmp_path, "broker", log_of_a_life(World(seed=902), 20), per_segment=40)

    def replayed(**settings: str) -> dict[str, int]:
        chosen = {"pipeline.master": "local[1]", "pipeline.memory": "1g", **settings}
        done = subprocess.run(
            [sys.executable, "-m", "nearcast", "pipeline", "replay", "--json", "--data", "."],
            capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
            env=variables(chosen) | {name: os.environ[name] for name in environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows: dict[str, int] = json.loads(done.stdout)["rows"]
        return rows

    rows = replayed(**{"pipeline.tables": f"s3://{BUCKET}/replay"})
    assert rows["events"] > 0
    there = Tables(tmp_path, f"s3://{BUCKET}/replay")
    assert {each.name: each.rows for each in there.statistics()} == rows
    assert not (tmp_path / "tables").exists()
