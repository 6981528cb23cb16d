"""A replay that publishes: what a run would have told, once however often it is asked for."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from nearcast.core.gathering import parse_rules
from nearcast.pipeline.jobs.audit import audit
from nearcast.pipeline.jobs.queries import PipelineSettings
from nearcast.pipeline.jobs.replay import Range, replay
from nearcast.pipeline.sink.broker_link import close_idle
from tests.support.broker_process import BrokerProcess
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.logs.broker_log import count_rows
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETTINGS = """
[record]
deliveries = true
[decide]
"news/#" = "spark"
[log]
roll_s = 0.1
"""


def test_a_replay_publishes_what_a_run_would_and_a_repeat_nothing(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nearcast.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"

    def in_log(kind: str) -> int:
        return count_rows(data, kind, "b")

    broker = BrokerProcess(data, {"broker.name": "b"}).wait_until_it_listens()
    watcher, gone, ann, bob = (StubbornClient(name) for name in ("w", "g", "ann", "bob"))
    try:
        for client in (watcher, gone, ann, bob):
            client.connect(broker.port)
        watcher.subscribe("news/#", "hazard/+", "encounters/#")
        gone.subscribe("news/#")
        for client, lon in ((ann, b"5.0"), (bob, b"5.0001")):
            client.exchange("$me/position", b"51.0," + lon, 1)
            client.exchange("hazard/ice", client.name.encode(), 1)
        ann.exchange("news/local", b"well", 1)
        gone.unsubscribe("news/#")
        until(lambda: in_log("unsubscription") == 1, "the log has it")

        rules = parse_rules({"hazard/#": "volume 2"})
        settings = PipelineSettings(data=str(data), rules=rules)
        # Once, with more that is new, and with nothing new.
        for turn, news in enumerate((1, 2, 2)):
            if turn == 1:
                ann.exchange("news/local", b"better", 1)
                until(lambda: in_log("event") == 3 + 2 + 1, "the log has it")
            replay(spark, settings, Range(), lambda *_: None, publish=True)
            until(lambda: in_log("delivery") >= 4 + news, "the log has it")  # noqa: B023
            watcher.listen(1.0)
            told = Counter(got.topic for got in watcher.got)
            assert told == {"news/local": news, "hazard/ice": 2 + 1, "encounters/ann/bob": 1}
        assert not gone.got
        log = spark.read.format("nearcast").option("path", str(data)).load()
        found = audit(log, str(data))
        assert found.passed, found.differences
        # Two hazards, news to two of whom one is gone and to one, and two events of the pipeline.
        assert found.copies == 7
    finally:
        close_idle()
        for client in (watcher, gone, ann, bob):
            client.leave()
        broker.end()
