"""A pipeline that comes after the log has dropped its first rows, with all parts real.

Ann subscribed long ago, and no row says so any more. What the pipeline decides from now on still
reaches her, what it never saw is reported, and while it follows, the log keeps what it needs.
"""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Published
from nearcast.core.model.record import Record
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.jobs.status import problems
from nearcast.store import (
    Log,
    LogSettings,
    RowBuffer,
    follower_of,
    read_manifest,
    record_row,
)
from tests.support.broker_process import BrokerProcess
from tests.support.clients.person import Person
from tests.support.logs.broker_log import write_log
from tests.support.logs.table_rows import table_rows
from tests.support.pipeline_process import PipelineProcess
from tests.support.waiting import until

pytestmark = pytest.mark.spark

SETTINGS = """
[log]
keep_s = 1

[decide]
"news/#" = "spark"

[pipeline]
encounters_m = 0
"""


def test_events_reach_who_subscribed_before_the_first_row_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nearcast.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    log = data / "brokers" / "local" / "log"
    broker = BrokerProcess(data).wait_until_it_listens()
    pipeline: PipelineProcess | None = None
    ann, ben = Person("ann", broker.port), Person("ben", broker.port)
    try:
        ann.subscribe("news/#")
        ben.publish("news/early", "{}")
        until(lambda: read_manifest(log).whole.low_seq > 3, "the first rows are gone")
        pipeline = PipelineProcess(data).wait_until_it_follows()
        until(lambda: _undecided(pipeline) > 0, "it has found out", within_s=120.0)
        ben.publish("news/late", "{}")
        until(lambda: [got.topic for got in ann.got] == ["news/late"], "ann hears of it")
        pipeline.wait_until_it_has_all()
        follower = follower_of(log)
        assert follower is not None
        low = read_manifest(log).whole.low_seq
        assert follower.snapshot is not None
        assert low <= follower.snapshot + 1
        status = pipeline.status()
        assert status is not None
        (told,) = problems(status)
        assert told.startswith("rows 1 to ")
        (never,) = [row for row in table_rows(data)["rejects"] if row["last_seq"] is not None]
        assert (never["seq"], never["last_seq"]) == (1, _undecided(pipeline))
        assert Snapshots.of(str(data), "local").newest() >= follower.snapshot
    finally:
        ann.leave()
        ben.leave()
        if pipeline is not None:
            pipeline.end()
        broker.end()


def test_without_its_broker_the_status_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nearcast.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    event = Published(Event("e", "news/1", "ben", 1.0))
    rows = [record_row(Record(seq, 1.0, event), "local") for seq in range(1, 9)]
    write_log(data, "local", rows, per_segment=4)
    Log(
        data / "brokers/local/log", "local", 8, RowBuffer("local"), tmp_path / "none", LogSettings()
    ).drop_before(2)
    pipeline = PipelineProcess(data)
    try:

        def failing() -> list[str]:
            status = pipeline.status()
            return [] if status is None else problems(status)

        until(lambda: bool(failing()), "it fails")
        (told,) = failing()
        assert told.startswith("tables fails since ")
        assert "no longer has the rows up to 4" in told
        assert "start local, which writes one" in told
    finally:
        pipeline.end()


def _undecided(pipeline: PipelineProcess | None) -> int:
    """The last row that the pipeline says it never decided."""
    status = None if pipeline is None else pipeline.status()
    ranges = [] if status is None else status.undecided.get("local", [])
    return ranges[-1][1] if ranges else 0
