"""Rows that a stream has not asked for: no batch for them alone, and nothing else is missed."""

import random
from pathlib import Path

import pytest

from nearcast.core.model.subject import subject_matches
from nearcast.store import Row, rows_of
from tests.support.logs.broker_log import write_log

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql.streaming.datasource import ReadMaxRows

from nearcast.pipeline.errors import PipelineInputError
from nearcast.pipeline.source.data_source import LogStreamReader, source_options
from nearcast.pipeline.source.log_follower import Offset

LIMIT = ReadMaxRows(1_000)


def event(seq: int, subject: str, at: float, broker: str = "b") -> Row:
    return Row(broker, seq, "event", at, subject=subject, publisher="bus", event_id=f"e{seq}")


def position(seq: int, at: float, broker: str = "b") -> Row:
    return Row(broker, seq, "position", at, lat=1.0, lon=2.0, node="bus")


def stream(data: Path, **more: object) -> LogStreamReader:
    asked = {"kinds": "position,event", "subject": "hazard/#", "idle_s": 30} | more
    texts = {name: str(value) for name, value in asked.items() if value is not None}
    return LogStreamReader(source_options({"path": str(data), **texts}))


def read(reader: LogStreamReader, start: Offset, end: Offset) -> list[Row]:
    parts = reader.partitions(start, end)
    return [row for part in parts for batch in reader.read(part) for row in rows_of(batch)]


def test_what_nobody_asked_for_waits_for_what_somebody_did(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    write_log(tmp_path, "b", [event(1, "news", 1.0), event(2, "news", 2.0)])
    assert reader.latestOffset({}, LIMIT) == {}
    write_log(tmp_path, "b", [event(3, "news", 3.0), event(4, "hazard/ice", 4.0)])
    end = reader.latestOffset({}, LIMIT)
    assert end == {"b": 5}
    assert [row.seq for row in read(reader, {}, end)] == [4]
    write_log(tmp_path, "b", [Row("b", 5, "subscribed", 5.0, node="bus")])
    assert reader.latestOffset(end, LIMIT) == end
    write_log(tmp_path, "b", [position(6, 6.0)])
    assert reader.latestOffset(end, LIMIT) == {"b": 7}


def test_nothing_waits_longer_than_allowed(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    write_log(tmp_path, "b", [event(1, "news", 100.0), event(2, "news", 129.0)])
    assert reader.latestOffset({}, LIMIT) == {}
    write_log(tmp_path, "b", [event(3, "news", 130.0)])
    assert reader.latestOffset({}, LIMIT) == {"b": 4}
    # A clock that was set back says nothing of how long they wait.
    write_log(tmp_path, "b", [event(4, "news", 131.0)])
    assert reader.latestOffset({"b": 4}, LIMIT) == {"b": 4}
    write_log(tmp_path, "b", [event(5, "news", 10.0)])
    assert reader.latestOffset({"b": 4}, LIMIT) == {"b": 6}


def test_a_log_that_falls_silent_is_waited_for_no_longer_than_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    reader = stream(tmp_path)
    assert reader.latestOffset({}, LIMIT) == {}
    now = 1_000.0
    write_log(tmp_path, "b", [event(1, "news", 1.0)])
    assert reader.latestOffset({}, LIMIT) == {}, "the row has only come"
    now = 1_029.0
    assert reader.latestOffset({}, LIMIT) == {}
    now = 1_030.0
    assert reader.latestOffset({}, LIMIT) == {"b": 2}
    write_log(tmp_path, "b", [event(2, "news", 2.0)])
    assert reader.latestOffset({"b": 2}, LIMIT) == {"b": 2}, "this one begins to wait"


def test_a_broker_without_a_log_yet_changes_nothing(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    write_log(tmp_path, "empty", [])
    write_log(tmp_path, "b", [event(1, "news", 1.0)])
    assert reader.latestOffset({}, LIMIT) == {}


def test_a_batch_that_is_full_does_not_wait(tmp_path: Path) -> None:
    write_log(tmp_path, "b", [event(n, "news", 1.0) for n in range(1, 31)], per_segment=10)
    assert stream(tmp_path).latestOffset({}, ReadMaxRows(20)) == {"b": 21}


def test_whoever_asks_for_what_there_is_now_gets_to_its_end(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    write_log(tmp_path, "b", [event(1, "news", 1.0)])
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset({}, LIMIT) == {"b": 2}


def test_a_stream_waits_only_if_told_to(tmp_path: Path) -> None:
    write_log(tmp_path, "b", [event(1, "news", 1.0)])
    reader = stream(tmp_path, idle_s=None)
    assert reader.latestOffset({}, LIMIT) == {"b": 2}
    assert read(reader, {}, {"b": 2}) == []


def test_what_was_looked_through_is_not_looked_through_again(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    directory = write_log(tmp_path, "b", [event(1, "news", 1.0)])
    assert reader.latestOffset({}, LIMIT) == {}
    [segment] = directory.glob("*.parquet")
    segment.unlink()
    assert reader.latestOffset({}, LIMIT) == {}
    # Another reader does not know, and what cannot be read is a batch's to tell.
    other = stream(tmp_path)
    assert other.latestOffset({}, LIMIT) == {"b": 2}
    assert [row.kind for row in read(other, {}, {"b": 2})] == ["gap"]


def test_a_broker_with_something_takes_the_others_along(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    write_log(tmp_path, "a", [event(1, "news", 1.0, "a")])
    write_log(tmp_path, "b", [event(1, "news", 1.0)])
    assert reader.latestOffset({}, LIMIT) == {}
    write_log(tmp_path, "b", [position(2, 2.0)])
    assert reader.latestOffset({}, LIMIT) == {"a": 2, "b": 3}


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_that_waits_misses_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    pattern = chance.choice(["hazard/#", "+/ice", "#", "news"])
    idle_s = chance.choice([1, 5, 100])
    reader = stream(tmp_path, subject=pattern, idle_s=idle_s)
    written: dict[str, list[Row]] = {"a": [], "b": []}
    at: Offset = {}
    now = 0.0
    taken: list[tuple[str, int]] = []
    for _ in range(60):
        broker = chance.choice(["a", "b"])
        new: list[Row] = []
        for _ in range(chance.randrange(1, 4)):
            now += chance.random()
            seq = len(written[broker]) + len(new) + 1
            subject = chance.choice(["hazard/ice", "news", "news/x", "hazard", "$x"])
            is_event = chance.random() < 0.9
            new.append(event(seq, subject, now, broker) if is_event else position(seq, now, broker))
        written[broker] += new
        write_log(tmp_path, broker, new)
        if chance.random() < 0.1:
            reader = stream(tmp_path, subject=pattern, idle_s=idle_s)
        end = reader.latestOffset(at, ReadMaxRows(chance.choice([3, 1_000])))
        taken += [(row.broker, row.seq) for row in read(reader, at, end)]
        at = end
    reader.prepareForTriggerAvailableNow()
    while (end := reader.latestOffset(at, LIMIT)) != at:
        taken += [(row.broker, row.seq) for row in read(reader, at, end)]
        at = end
    assert sorted(taken) == [
        (broker, row.seq)
        for broker in "ab"
        for row in written[broker]
        if row.kind == "position" or subject_matches(pattern, row.subject or "")
    ]


def test_options_that_mean_nothing_are_refused() -> None:
    for wrong, said in (
        ({"subject": "a/#/b"}, "option subject: "),
        ({"idle_s": "soon"}, "option idle_s is a number of seconds, not 'soon'"),
        ({"idle_s": "-1"}, "number of seconds"),
        ({"rows": "decided", "subject": "a"}, "leave subject out"),
    ):
        with pytest.raises(PipelineInputError, match=said):
            source_options({"path": "x", **wrong})
