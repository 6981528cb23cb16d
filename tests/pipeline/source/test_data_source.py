"""The source: every row once, in order, whatever happens to the segments meanwhile.

The plain reference is the list of rows that was written. Most is tested without Spark, on the
readers that it calls; that it calls them so is tested with a session.
"""

import json
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.model.input_form import input_forms
from nearcast.store import Row, Store, gap_row, rows_of
from nearcast.store.log.manifest import read_manifest
from nearcast.store.log.segments import erase_rows
from nearcast.store.rows.row_kinds import KINDS
from nearcast.store.rows.rows import erased
from tests.support.logs.broker_log import write_log
from tests.support.logs.store_rows import BROKER, write_segments
from tests.support.logs.store_rows import row as written_row
from tests.support.logs.store_rows import rows as written_rows

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
)

from nearcast.pipeline.errors import PipelineInputError
from nearcast.pipeline.source.data_source import LogHistoryReader, LogStreamReader, source_options
from nearcast.pipeline.source.row_inputs import EventSeqs, Inputs, Unusable
from tests.pipeline.source.log_changes import damage, merge, options, other

Offset = dict[str, int]


def stream(data: Path, **more: object) -> LogStreamReader:
    return LogStreamReader(source_options(options(data, **more)))


def rows_in(reader: Any, partitions: Sequence[Any]) -> list[Row]:  # noqa: ANN401
    """Read partitions as tasks do: the reader and each partition in a process of its own."""
    found: list[Row] = []
    for partition in partitions:
        there, its_part = pickle.loads(pickle.dumps((reader, partition)))
        for batch in there.read(its_part):
            found += rows_of(batch)
    return found


def history(data: Path, **more: object) -> list[Row]:
    reader = LogHistoryReader(source_options(options(data, **more)))
    return rows_in(reader, reader.partitions())


def batches(
    reader: LogStreamReader, start: Offset | None = None, limit: ReadLimit | None = None
) -> Iterator[tuple[Offset, Offset, list[Row]]]:
    """Go on until there is nothing new, as Spark does."""
    limit = reader.getDefaultReadLimit() if limit is None else limit
    at = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(at, limit)) != at:
        yield at, end, rows_in(reader, reader.partitions(at, end))
        at = end


def missing(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the first and last seq of each gap among rows."""
    told = [json.loads(row.data) for row in rows if row.kind == "gap"]
    assert all(each["reason"] for each in told)
    return [(each["first"], each["last"]) for each in told]


def seqs(rows: Sequence[Row]) -> list[int]:
    return [row.seq for row in rows if row.kind != "gap"]


def test_history_is_what_was_written(tmp_path: Path) -> None:
    rows = written_rows(1, 250)
    write_log(tmp_path, BROKER, rows, per_segment=40)
    assert history(tmp_path) == rows
    assert history(tmp_path, partition_rows=7) == rows


def test_properties_arrive_as_names_and_values(tmp_path: Path) -> None:
    row = Row(BROKER, 1, "event", 1.0, properties=(("a", "1"), ("a", "2"), ("", "")), payload=b"\0")
    write_log(tmp_path, BROKER, [row])
    assert history(tmp_path) == [row]


def test_a_stream_takes_every_row_once_in_bounded_batches(tmp_path: Path) -> None:
    rows = written_rows(1, 250)
    write_log(tmp_path, BROKER, rows, per_segment=40)
    taken = list(batches(stream(tmp_path, maxRows=60)))
    assert [len(found) for _, _, found in taken] == [60, 60, 60, 60, 10]
    assert [row for _, _, found in taken for row in found] == rows
    assert taken[-1][1] == {BROKER: 251}


def test_a_batch_opens_no_more_segments_than_allowed(tmp_path: Path) -> None:
    rows = written_rows(1, 50)
    write_log(tmp_path, BROKER, rows, per_segment=5)
    taken = list(batches(stream(tmp_path, max_segments=3)))
    assert [len(found) for _, _, found in taken] == [15, 15, 15, 5]
    files = list(batches(stream(tmp_path), limit=ReadMaxFiles(4)))
    assert [len(found) for _, _, found in files] == [20, 20, 10]


def test_all_that_is_available_ignores_the_bounds(tmp_path: Path) -> None:
    write_log(tmp_path, BROKER, written_rows(1, 50), per_segment=5)
    taken = list(batches(stream(tmp_path, max_rows=3, max_segments=2), limit=ReadAllAvailable()))
    assert [len(found) for _, _, found in taken] == [50]


def test_rows_that_come_later_are_taken_later(tmp_path: Path) -> None:
    reader = stream(tmp_path)
    assert reader.latestOffset({}, ReadMaxRows(10)) == {}
    write_log(tmp_path, BROKER, written_rows(1, 30), per_segment=10)
    end = reader.latestOffset({}, ReadAllAvailable())
    planned = reader.partitions({}, end)
    write_log(tmp_path, BROKER, written_rows(31, 60), per_segment=10)
    assert seqs(rows_in(reader, planned)) == list(range(1, 31))
    assert reader.partitions(end, end) == []
    assert [seqs(found) for *_, found in batches(reader, end)] == [list(range(31, 61))]


def test_the_latest_start_passes_over_what_there_is(tmp_path: Path) -> None:
    write_log(tmp_path, BROKER, written_rows(1, 30), per_segment=10)
    reader = stream(tmp_path, start="latest")
    begin = reader.initialOffset()
    assert begin == {BROKER: 31}
    write_log(tmp_path, BROKER, written_rows(31, 35))
    assert [seqs(found) for *_, found in batches(reader, begin)] == [[31, 32, 33, 34, 35]]


def test_a_broker_that_appears_is_taken_up(tmp_path: Path) -> None:
    write_log(tmp_path, "b", [other(1, "b", 1.0)])
    reader = stream(tmp_path)
    end = reader.latestOffset({}, ReadAllAvailable())
    assert end == {"b": 2}
    write_log(tmp_path, "a", [other(1, "a", 5.0), other(2, "a", 6.0)])
    [(_, end, found)] = batches(reader, end)
    assert [row.broker for row in found] == ["a", "a"]
    # Spark compares offsets as they are written.
    assert list(end.items()) == [("a", 3), ("b", 2)]


def test_only_the_brokers_asked_for_are_read(tmp_path: Path) -> None:
    for broker in "abc":
        write_log(tmp_path, broker, [other(1, broker, 1.0)])
    assert [row.broker for row in history(tmp_path, brokers="c, a")] == ["a", "c"]
    [(_, end, found)] = batches(stream(tmp_path, brokers="b"))
    assert (end, [row.broker for row in found]) == ({"b": 2}, ["b"])


def test_brokers_that_are_behind_go_on_together_in_time(tmp_path: Path) -> None:
    """Else the rows of a busy broker would be late once those of a quiet one were taken."""
    quiet = [other(i + 1, "quiet", 100.0 * i) for i in range(100)]
    busy = [other(i + 1, "busy", 1.0 * i) for i in range(10_000)]
    write_log(tmp_path, "quiet", quiet, per_segment=100)
    write_log(tmp_path, "busy", busy, per_segment=2000)
    behind = 0.0
    done = 0.0
    for *_, found in batches(stream(tmp_path, max_rows=500)):
        behind = max(behind, done - min(row.ingested for row in found))
        done = max(row.ingested for row in found)
    assert done == 9999.0
    assert behind <= 200.0


def test_available_now_ends_where_it_began(tmp_path: Path) -> None:
    write_log(tmp_path, "a", [other(i, "a", float(i)) for i in range(1, 21)], per_segment=5)
    reader = stream(tmp_path, max_rows=8)
    reader.prepareForTriggerAvailableNow()
    write_log(tmp_path, "a", [other(i, "a", float(i)) for i in range(21, 41)], per_segment=5)
    write_log(tmp_path, "b", [other(1, "b", 1.0)])
    assert [found[-1].seq for *_, found in batches(reader)] == [8, 16, 20]


def test_a_planned_batch_gives_the_same_rows_after_its_segments_were_merged(tmp_path: Path) -> None:
    rows = written_rows(1, 100)
    directory = write_log(tmp_path, BROKER, rows, per_segment=10)
    reader = stream(tmp_path, partition_rows=15)
    planned = reader.partitions({BROKER: 26}, {BROKER: 76})
    merge(directory, 1, 5)
    assert rows_in(reader, planned) == rows[25:75]
    again = stream(tmp_path, partition_rows=15)
    assert rows_in(again, again.partitions({BROKER: 26}, {BROKER: 76})) == rows[25:75]
    assert rows_in(reader, reader.partitions({BROKER: 76}, {BROKER: 101})) == rows[75:]


def test_ranges_of_a_file_with_many_row_groups_are_found_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = written_rows(1, 120)
    directory = write_log(tmp_path, BROKER, rows, per_segment=10)
    monkeypatch.setattr("nearcast.store.log.segments.MERGED_GROUP_BYTES", 1)
    merge(directory, 1, 12)
    [merged] = read_manifest(directory).segments
    assert pq.ParquetFile(directory / merged.name).num_row_groups == 12
    for first, last in [(1, 1), (10, 10), (11, 11), (5, 35), (120, 120), (1, 120), (119, 120)]:
        assert history(tmp_path, from_seq=first, to_seq=last) == rows[first - 1 : last]


def test_what_is_dropped_between_planning_and_reading_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path, BROKER)
    write_segments(store, count=10, size=10)
    reader = stream(tmp_path, partition_rows=20)
    planned = reader.partitions({BROKER: 6}, {BROKER: 101})
    store.log.drop_before(4)
    found = rows_in(reader, planned)
    assert seqs(found) == list(range(31, 101))
    assert missing(found) == [(6, 20), (21, 30)]
    store.close()


def test_what_was_dropped_before_costs_no_room_in_a_batch(tmp_path: Path) -> None:
    store = Store(tmp_path, BROKER)
    write_segments(store, count=10, size=10)
    store.log.drop_before(9)
    store.close()
    [(_, end, found)] = batches(stream(tmp_path, max_rows=20))
    assert end == {BROKER: 101}
    assert missing(found) == [(1, 80)]
    assert "older than the log is kept" in found[0].data
    assert found[0].broker == BROKER
    assert seqs(found) == list(range(81, 101))


@pytest.mark.usefixtures("impatient")
def test_a_part_may_begin_and_end_where_a_merged_file_has_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path, BROKER)
    write_segments(store, count=4, size=10)
    (store.log.directory / "00000002.parquet").unlink()
    store.log.verify()
    store.log.merge(1, 4)
    store.close()
    for first, last, gap in [(5, 15, (11, 15)), (15, 25, (15, 20)), (13, 17, (13, 17))]:
        found = history(tmp_path, from_seq=first, to_seq=last)
        assert missing(found) == [gap]
        assert_complete(found, first, last + 1)


def test_a_gap_that_a_broker_recorded_comes_whatever_kinds_are_wanted(tmp_path: Path) -> None:
    rows = [*written_rows(1, 3), gap_row(BROKER, 4, 4.0, "the disk was full"), written_row(5)]
    write_log(tmp_path, BROKER, rows)
    assert history(tmp_path) == rows
    found = history(tmp_path, kinds="position")
    assert found == [rows[3]]
    assert missing(found) == [(4, 4)]
    inputs = Inputs(rows, EventSeqs())
    assert inputs.seqs == [1, 2, 3, 5]
    assert inputs.unusable == [Unusable(4, 4, "the disk was full")]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.pipeline.source.log_ranges.RETRY_S", 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("harm", [damage, Path.unlink])
def test_a_damaged_segment_is_told_and_stops_nothing(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    directory = write_log(tmp_path, BROKER, written_rows(1, 50), per_segment=10)
    harm(directory / "00000003.parquet")
    found = [row for *_, rows in batches(stream(tmp_path, max_rows=25)) for row in rows]
    assert seqs(found) == [*range(1, 21), *range(31, 51)]
    assert missing(found) == [(21, 25), (26, 30)]
    assert missing(history(tmp_path)) == [(21, 30)]


@pytest.mark.usefixtures("impatient")
def test_a_directory_that_a_task_cannot_see_is_an_error_and_no_gap(tmp_path: Path) -> None:
    directory = write_log(tmp_path, BROKER, written_rows(1, 50), per_segment=10)
    reader = stream(tmp_path)
    planned = reader.partitions({}, {BROKER: 51})
    directory.rename(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="every executor must see the data directory"):
        rows_in(reader, planned)


def test_a_log_that_lost_the_end_of_its_manifest_is_an_error_and_no_gap(tmp_path: Path) -> None:
    write_log(tmp_path, BROKER, written_rows(1, 50), per_segment=10)
    with pytest.raises(Exception, match=r"goes to seq 50, but the batch to 60; start that broker"):
        stream(tmp_path).partitions({BROKER: 41}, {BROKER: 61})
    assert stream(tmp_path).latestOffset({BROKER: 61}, ReadAllAvailable()) == {BROKER: 61}


def test_rows_erased_between_planning_and_reading_come_erased(tmp_path: Path) -> None:
    rows = written_rows(1, 30)
    directory = write_log(tmp_path, BROKER, rows, per_segment=10)
    reader = stream(tmp_path)
    planned = reader.partitions({}, {BROKER: 31})
    manifest = read_manifest(directory)
    manifest.segments[1] = erase_rows(directory, manifest.segments[1], lambda row: row.seq == 15)
    manifest.save()
    found = rows_in(reader, planned)
    assert found == [erased(row) if row.seq == 15 else row for row in rows]


def test_kinds_columns_and_times_can_be_chosen(tmp_path: Path) -> None:
    rows = [
        Row(BROKER, seq, "event" if seq % 3 else "position", 100.0 + seq) for seq in range(1, 41)
    ]
    write_log(tmp_path, BROKER, rows, per_segment=7)
    assert history(tmp_path, kinds="position") == [row for row in rows if row.kind == "position"]
    assert history(tmp_path, from_seq=5, to_seq=9) == rows[4:9]
    assert history(tmp_path, since=110.0, until=120.0) == rows[9:19]
    assert history(tmp_path, since="1970-01-01T00:02:00Z") == rows[19:]
    assert history(tmp_path, since=1000.0) == history(tmp_path, until=5.0) == []
    reader = LogHistoryReader(source_options(options(tmp_path, columns="kind,lat", kinds="event")))
    batch = next(reader.read(reader.partitions()[0]))
    assert batch.schema.names == ["kind", "lat"]


def test_time_asked_for_that_is_no_longer_kept_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path, BROKER)
    write_segments(store, count=4, size=10)
    store.log.drop_before(3)
    store.close()
    assert missing(history(tmp_path, since=1.7e9)) == [(1, 20)]
    assert missing(history(tmp_path, since=1.7e9 + 25)) == []


@pytest.mark.parametrize(
    ("given_options", "message"),
    [
        ({}, "needs the option path"),
        ({"path": "x", "maxrow": "1"}, "no option maxrow; it has path, brokers"),
        ({"path": "x", "maxRows": "0"}, "max_rows is a whole number from 1 on, not '0'"),
        ({"path": "x", "start": "now"}, "start is earliest or latest, not 'now'"),
        ({"path": "x", "since": "noon"}, "since is a time as in"),
        ({"path": "x", "columns": "seq,speed"}, "columns names columns of the log"),
    ],
)
def test_a_wrong_option_is_named(given_options: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineInputError, match=message):
        source_options(given_options)


def test_history_of_a_directory_without_logs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="has no logs of brokers"):
        history(tmp_path / "typo")


@pytest.mark.usefixtures("impatient")
@settings(max_examples=60)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_happens_every_row_comes_once_or_is_told_missing(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """A broker writes, merges, drops and loses while a stream goes on and begins again."""
    chance = random.Random(seed)
    data = tmp_path_factory.mktemp("log")
    store = Store(data, BROKER)
    reader, at = stream(data, max_rows=17, partition_rows=6), dict[str, int]()
    for _ in range(chance.randrange(3, 12)):
        write_segments(store, chance.randrange(3), chance.randrange(1, 9))
        log = store.log
        singles = [s for s in log.segments() if s.first == s.last]
        match chance.randrange(5):
            case 0 if len(singles) > 1:
                log.merge(singles[0].first, chance.choice(singles[1:]).first)
            case 1 if log.segments():
                log.drop_before(chance.choice(log.segments()).first)
            case 2 if singles:
                damage(log.directory / chance.choice(singles).name)
            case 3 if singles:
                log.verify()
            case 4:
                reader = stream(data, max_rows=chance.randrange(1, 40), partition_rows=6)
        end = reader.latestOffset(at, reader.getDefaultReadLimit())
        planned = reader.partitions(at, end)
        if chance.random() < 0.3 and len(singles) > 2:
            log.verify()
            left = [s for s in log.segments() if s.first == s.last]
            if len(left) > 1:
                log.merge(left[0].first, left[1].first)
        assert_complete(rows_in(reader, planned), at.get(BROKER, 1), end.get(BROKER, 1))
        at = end
    store.close()


def assert_complete(found: Sequence[Row], first: int, end: int) -> None:
    expected = first
    for row in found:
        assert row.seq == expected
        if row.kind == "gap":
            told = json.loads(row.data)
            assert told["first"] == expected
            expected = told["last"] + 1
        else:
            assert row == written_row(row.seq)
            expected += 1
    assert expected == end


def test_every_kind_that_the_store_reads_can_be_chosen() -> None:
    assert {form.kind for form in input_forms()} <= set(KINDS)
    for kind in KINDS:
        assert source_options({"path": "x", "kinds": f"event,{kind}"}).kinds == ("event", kind)
    with pytest.raises(
        PipelineInputError, match=r"kinds of the log \(event, position, .*not 'evnt'"
    ):
        source_options({"path": "x", "kinds": "evnt"})
