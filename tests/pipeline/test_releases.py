"""What every release has written still opens: logs, tables, state of brokers and of queries.

What is stored was left by brokers and a pipeline that stopped while nine people were at a spot
and two had met. Here they go on: a tenth comes, and the two part.
"""

import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.broker.config.configuration import load
from nearcast.cli.spark_settings import pipeline_settings, spark_settings
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.snapshots import EARLIER, Snapshots
from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.jobs.job import check_checkpoints
from nearcast.pipeline.jobs.queries import Pipeline
from nearcast.pipeline.jobs.spark_checkpoints import settle
from nearcast.pipeline.sink.broker_link import close_idle
from nearcast.pipeline.tables.migration import migrate
from nearcast.store import LogReader, Row, RowBuffer, Store, StoreError, input_of, names_in
from nearcast.store.log.segments import describe
from tests.pipeline.release_making import PLACES, SPOT
from tests.pipeline.stored_releases import (
    BROKERS,
    CONTENT,
    HOST,
    QUERIES,
    RELEASES,
    SETTINGS_FILE,
    all_reached,
    in_json,
    log_of,
    machine_paths,
    row_json,
    unpack,
)
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.broker_log import read_log
from tests.support.logs.table_rows import table_rows
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_INPUTS = ("erased", "delivery")

pytestmark = pytest.mark.parametrize(
    "release", sorted(path for path in RELEASES.iterdir() if path.is_dir()), ids=lambda p: p.name
)


@pytest.fixture
def data(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a release left, at a place where it never was, with its settings where all look."""
    monkeypatch.chdir(tmp_path)
    data = unpack(release, tmp_path)
    # The first release looked for it among the data, where its documents said beside the settings.
    shutil.copy(data / "rules.toml", tmp_path)
    return data


@pytest.fixture
def content(release: Path) -> dict[str, Any]:
    """What is in it."""
    found: dict[str, Any] = json.loads((release / CONTENT).read_text())
    return found


def test_logs_read_as_they_were_written(data: Path, content: dict[str, Any]) -> None:
    kinds = Counter[str]()
    for broker, rows in content["logs"].items():
        found = read_log(data, broker)
        assert [row_json(row) for row in found] == rows
        assert [row.seq for row in found] == list(range(1, len(rows) + 1))
        for row in found:
            if row.kind not in NO_INPUTS:
                input_of(row)
        kinds.update(row.kind for row in found)
    assert len(kinds) >= 16
    assert kinds["event"] > 10


def test_tables_read_as_they_were_written(data: Path, content: dict[str, Any]) -> None:
    migrate(data)
    added = {"deliveries": {"ingested"}}
    found = {
        name: sorted(
            (
                in_json({column: row[column] for column in row.keys() - added.get(name, set())})
                for row in rows
            ),
            key=lambda row: json.dumps(row, sort_keys=True),
        )
        for name, rows in table_rows(data).items()
    }
    wanted = {
        name: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        for name, rows in content["tables"].items()
    }
    assert found == wanted
    assert {name for name, rows in found.items() if rows} >= {
        "events", "rejects", "contexts", "deliveries", "encounters",
    }  # fmt: skip


def test_spark_reads_logs_as_they_were_written(
    data: Path, content: dict[str, Any], spark: "SparkSession"
) -> None:
    log = spark.read.format("nearcast").option("path", str(data)).load()
    found = [
        row_json(
            Row(
                **{
                    **row.asDict(),
                    "properties": tuple((each.name, each.value) for each in row.properties or ()),
                    "payload": None if row.payload is None else bytes(row.payload),
                    "headers": None if row.headers is None else bytes(row.headers),
                }
            )
        )
        for row in log.orderBy("broker", "seq").collect()
    ]
    assert found == [row for broker in sorted(content["logs"]) for row in content["logs"][broker]]


def test_the_store_of_a_broker_opens_with_all_that_was_kept(
    data: Path, content: dict[str, Any]
) -> None:
    for broker, rows in content["logs"].items():
        store = Store(data, broker)
        try:
            assert store.problems == []
            assert store.seq == len(rows)
            assert len(list(store.load())) > 0
        finally:
            store.abandon()


def test_a_snapshot_is_of_use_or_passed_over(data: Path, content: dict[str, Any]) -> None:
    for broker, rows in content["logs"].items():
        snapshots = Snapshots.of(str(data), broker)
        found = snapshots.load(len(rows))
        played = Player(broker)
        played.apply(read_log(data, broker))
        if found is None:
            (kept,) = (name for name in names_in(snapshots.own) if name.endswith(EARLIER))
            assert int(kept.removesuffix(EARLIER)) == len(rows)
        else:
            assert found.engine.nodes == played.engine.nodes
            assert found.seq == len(rows)
        assert played.size > 3


def test_nothing_in_it_tells_of_the_machine_that_wrote_it(data: Path) -> None:
    assert list(machine_paths(data)) == []
    assert not list(data.rglob("*.token"))
    tables = list(data.rglob("*.sst"))
    assert tables, "there is state that was written whole"
    for path in tables:
        assert f"host.identity{HOST}".encode() in path.read_bytes()


# Going on


@pytest.fixture
def brokers(data: Path) -> Iterator[list[BrokerProcess]]:
    """The brokers, with what happened after they had stopped: see `_add`."""
    _add(data)
    found = [BrokerProcess(data, {"broker.name": name}) for name in BROKERS]
    try:
        for each in found:
            each.wait_until_it_listens()
        yield found
    finally:
        close_idle()
        for each in found:
            each.end()


def _add(data: Path) -> None:
    """Have the tenth come to the spot, and one of the two who met leave the other."""
    rows = read_log(data, BROKERS[0])
    seq, now = rows[-1].seq, max(read_log(data, broker)[-1].ingested for broker in BROKERS) + 1.0
    tenth, back = PLACES[9], PLACES[0]
    new = [
        Row(BROKERS[0], seq + 1, "position", now, lat=tenth.lat, lon=tenth.lon, node="p9"),
        Row(
            BROKERS[0], seq + 2, "event", now + 1.0, event_id="s9", subject="spots/pub",
            publisher="p9", time=now + 1.0, lat=tenth.lat, lon=tenth.lon, payload=b'{"noise": 69}',
        ),
        Row(BROKERS[0], seq + 3, "position", now + 2.0, lat=back.lat, lon=back.lon, node="p0"),
    ]  # fmt: skip
    store = Store(data, BROKERS[0])
    store.commit((), RowBuffer.of(new), now=now)
    store.close()


def test_queries_go_on_where_they_stopped_with_the_state_they_had(
    data: Path, content: dict[str, Any], brokers: list[BrokerProcess], spark: "SparkSession"
) -> None:
    settings = load(Path(SETTINGS_FILE), {}, {"broker.data": str(data)})
    check_checkpoints(data, spark_settings(settings))
    done = {query: _offsets(data, query) for query in QUERIES}
    watcher = StubbornClient("watcher")
    assert watcher.connect(brokers[0].port), "its session was kept"
    pipeline = Pipeline(spark, pipeline_settings(settings))
    migrate(data)
    assert sorted(pipeline.names) == sorted(QUERIES)
    for name in pipeline.names:
        settle(pipeline.checkpoint(name))
        pipeline.start_query(name)
    try:

        def heard() -> list[str]:
            watcher.listen(0.1)
            for name, query in list(pipeline.queries.items()):
                exception = query.exception()
                if exception is not None:
                    # Spark gives up on a worker that a busy machine starts too slowly.
                    assert "failed to connect back" in str(exception)
                    pipeline.start_query(name)
            return sorted(got.topic for got in watcher.got)

        until(lambda: len(heard()) >= 2 and all_reached(data), "all is told and in the tables")
        # What was told is in the logs by now, and whoever read that has read everything.
        assert heard() == ["encounters/p0/p1", "spots"]
    finally:
        pipeline.stop()
        watcher.leave()
    for query, offsets in done.items():
        after = _offsets(data, query)
        assert len(after) > len(offsets) > 2
        assert offsets.items() <= after.items(), "it went on, and did not begin anew"
    told = {got.topic: json.loads(got.payload) for got in watcher.got}
    assert (told["spots"]["people"], told["spots"]["count"]) == (10, 10)
    assert told["spots"]["cell"] == SPOT.label
    assert told["encounters/p0/p1"]["state"] == "apart"
    found = table_rows(data)
    (aggregate,) = found["aggregates"]
    assert (aggregate["people"], aggregate["count"]) == (10, 10)
    met = [(row["a"], row["b"], row["state"]) for row in found["encounters"]]
    assert sorted(met) == [("p0", "p1", "apart"), ("p0", "p1", "near")]
    # All that there was is there once more, and what came is in it once.
    events = Counter((row["publisher"], row["event_id"]) for row in found["events"])
    known = {(row["publisher"], row["event_id"]) for row in content["tables"]["events"]}
    assert known < events.keys()
    assert events["p9", "s9"] == 1
    assert set(events.values()) == {1}


def _offsets(data: Path, query: str) -> dict[str, str]:
    """Return how far each epoch of a query went."""
    offsets = data / "checkpoints" / query / "offsets"
    return {path.name: path.read_text() for path in offsets.iterdir() if path.name.isdecimal()}


def test_a_checkpoint_names_its_files_where_they_are(data: Path) -> None:
    for name in ("gather", "movement"):
        checkpoint = data / "checkpoints" / name
        count = len(list(checkpoint.glob("state/*/_metadata/v2/*")))
        assert settle(checkpoint) == count > 0
        assert settle(checkpoint) == 0
        for note in checkpoint.glob("state/*/_metadata/v2/*"):
            assert f'"file:{data.resolve()}/' in note.read_text()


# Of a later release


def _raise(path: Path) -> None:
    """Let a file say that it is of form 9."""
    told = path.read_bytes()
    assert told.count(b'"form":1') == 1
    path.write_bytes(told.replace(b'"form":1', b'"form":9'))


def test_checkpoints_of_a_later_release_are_refused(data: Path) -> None:
    _raise(data / "checkpoints" / "began.json")
    settings = spark_settings(load(Path(SETTINGS_FILE), os.environ, {}))
    with pytest.raises(
        PipelineError, match=r"written by a later release \(form 9; this one knows 1\)"
    ):
        check_checkpoints(data, settings)


def test_a_log_of_a_later_release_is_refused(data: Path) -> None:
    log = log_of(data, BROKERS[0])
    _raise(log / "_manifest.json")
    with pytest.raises(StoreError, match="has form 9; this release reads up to 1"):
        LogReader(log)


def test_a_segment_of_a_later_release_is_refused(data: Path) -> None:
    segment = log_of(data, BROKERS[0]) / "00000001.parquet"
    assert describe(segment).first_seq == 1
    _raise(segment)
    with pytest.raises(StoreError, match="has form 9; this release reads up to 1"):
        describe(segment)


def test_the_store_of_a_later_release_is_refused(data: Path) -> None:
    path = data / "brokers" / BROKERS[0] / "state.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("UPDATE schema_version SET version = 99")
    db.close()
    with pytest.raises(StoreError, match="has form 99; this release reads up to"):
        Store(data, BROKERS[0])
