"""Segments come when they are due, stay in order, and go only at the low end."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.model import Event, Position, Subscription
from nearcast.core.model.inputs import Input, Moved, Published, Subscribed
from nearcast.store import (
    ERASED,
    Gap,
    LogReader,
    LogSettings,
    RowBuffer,
    StoreError,
    input_of,
    record_row,
    rows_of,
)
from nearcast.wire.mqtt import user_properties
from tests.support.logs.store_rows import (
    BROKER,
    log_directory,
    opened,
    row,
    rows,
    seqs,
    write_segments,
)


def names(data: Path) -> list[str]:
    return sorted(path.name for path in log_directory(data).glob("[!._]*"))


def test_a_segment_is_due_a_second_after_its_first_row_and_sooner_when_followed(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    assert store.log.next_due() is None
    store.commit([], RowBuffer.of([row(1)]), now=100.0)
    store.commit([], RowBuffer.of([row(2)]), now=100.5)
    assert store.log.next_due() == 101.0
    store.log.follow(True)
    assert store.log.next_due() == pytest.approx(100.2)
    assert store.roll(now=100.1) is None
    segment = store.roll(now=100.3)
    assert segment is not None
    assert (segment.name, segment.first_seq, segment.last_seq) == ("00000001.parquet", 1, 2)
    assert store.log.next_due() is None
    store.close()


@pytest.mark.parametrize("settings", [LogSettings(roll_rows=5), LogSettings(roll_bytes=500)])
def test_many_rows_or_bytes_are_due_at_once(tmp_path: Path, settings: LogSettings) -> None:
    store = opened(tmp_path, settings)
    store.commit([], RowBuffer.of(rows(1, 3)), now=100.0)
    assert store.roll(now=100.0) is None
    store.commit([], RowBuffer.of(rows(4, 10)), now=100.0)
    assert store.roll(now=100.0) is not None
    store.close()


def test_rows_that_do_not_follow_are_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([], RowBuffer.of(rows(1, 3)), now=0.0)
    for wrong in (rows(5, 6), rows(3, 4), [row(4), row(6)]):
        with pytest.raises(StoreError, match="do not follow seq 3"):
            store.commit([], RowBuffer.of(wrong), now=0.0)
    store.commit([], RowBuffer.of(rows(4, 5)), now=0.0)
    assert seqs(list(store.log.read())) == [1, 2, 3, 4, 5]
    store.close()


def test_reading_gives_everything_from_any_seq_also_what_is_in_no_segment_yet(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    write_segments(store, 3, size=4)
    store.commit([], RowBuffer.of(rows(13, 15)), now=0.0)
    for first in (1, 4, 5, 12, 13, 15):
        assert seqs(list(store.log.read(first))) == list(range(first, 16))
    assert list(store.log.read(16)) == []
    sealed = store.log.seal()
    assert sealed is not None
    store.commit([], RowBuffer.of([row(16)]), now=0.0)
    assert seqs(list(store.log.read())) == list(range(1, 17))
    store.log.settle(sealed.write())
    assert seqs(list(store.log.read())) == list(range(1, 17))
    store.close()
    assert names(tmp_path) == [f"0000000{n}.parquet" for n in range(1, 6)]


def test_a_segment_gets_its_name_after_its_commits_and_its_bytes_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        assert not any(log_directory(tmp_path).glob("0*")) or len(synced) == 3

    store = opened(tmp_path)
    store.commit_unsynced([], RowBuffer.of(rows(1, 3)), now=0.0)
    monkeypatch.setattr("os.fsync", fsync)
    store.roll(now=2.0)
    assert synced == ["state.sqlite-wal", ".00000001.parquet.partial", "log"]
    monkeypatch.undo()
    store.close()


def test_a_log_that_is_read_back_decides_the_same(tmp_path: Path) -> None:
    inputs: list[Input] = [
        Moved("ann", Position(53.3, -6.2)),
        Subscribed(Subscription("s", "ann", "city/#")),
        Published(Event("1", "city/bus", "bob", 5.0, {"speed": 1}, payload=b'{"speed": 1}')),
        Published(Event("2", "city/bus", "ann", 5.0)),
    ]
    engine, store = Engine(), opened(tmp_path)
    outcome = engine.step(inputs, 5.0)
    store.commit(
        [], RowBuffer.of([record_row(record, BROKER) for record in outcome.records]), now=5.0
    )
    store.close()
    again = Engine()
    deliveries = []
    for batch in LogReader(log_directory(tmp_path)).read():
        assert not isinstance(batch, Gap)
        for each in rows_of(batch):
            deliveries += again.step([input_of(each)], each.ingested).deliveries
    assert deliveries == outcome.deliveries
    assert again.seq == engine.seq == store.seq


def test_a_plain_parquet_reader_sees_the_columns_of_the_contract(tmp_path: Path) -> None:
    store = opened(tmp_path)
    twice = (("lane", "2"), ("lane", "3"), ("a", ""))
    event = Event("1", "a", "bob", 5.0, payload=b"\xff", headers=user_properties(twice))
    published = record_row(Engine().step([Published(event)], 5.0).records[0], BROKER)
    store.commit([], RowBuffer.of([published]), now=0.0)
    store.close()
    table = pq.read_table(log_directory(tmp_path) / "00000001.parquet")
    assert {
        "broker", "seq", "kind", "schema", "ingested", "event_id", "subject", "publisher",
        "time", "lat", "lon", "properties", "payload",
    } <= set(table.column_names)  # fmt: skip
    (found,) = table.to_pylist()
    assert found["payload"] == b"\xff"
    assert [(pair["name"], pair["value"]) for pair in found["properties"]] == list(twice)


def test_segments_are_merged_from_the_low_end_and_read_the_same(tmp_path: Path) -> None:
    store = opened(tmp_path)
    write_segments(store, 8, size=5)
    with pytest.raises(StoreError, match="merged from the low end: 1 and what is below"):
        store.log.merge(2, 4)
    merged = store.log.merge(1, 3)
    assert merged is not None
    assert (merged.name, merged.rows) == ("00000001-00000003.parquet", 15)
    assert store.log.merge(4, 5) is not None
    with pytest.raises(StoreError, match="cut a merged range in two"):
        store.log.merge(1, 4)
    with pytest.raises(StoreError, match="cut a merged range in two"):
        store.log.merge(2, 5)
    with pytest.raises(StoreError, match="not two or more of 1 to 8"):
        store.log.merge(6, 9)
    assert store.log.merge(1, 6) is not None
    assert names(tmp_path) == [
        "00000001-00000006.parquet", "00000007.parquet", "00000008.parquet",
    ]  # fmt: skip
    assert seqs(list(store.log.read(7))) == list(range(7, 41))
    store.close()
    store = opened(tmp_path)
    assert store.problems == []
    assert seqs(list(store.log.read())) == list(range(1, 41))
    assert pq.read_table(log_directory(tmp_path) / merged.name.replace("3.p", "6.p")).num_rows == 30
    store.close()


def test_dropping_moves_the_low_end_and_says_so_to_readers(tmp_path: Path) -> None:
    store = opened(tmp_path)
    write_segments(store, 6, size=5)
    store.log.merge(1, 3)
    assert store.log.drop_before(3) == []
    assert [each.name for each in store.log.drop_before(5)] == [
        "00000001-00000003.parquet", "00000004.parquet",
    ]  # fmt: skip
    first, *rest = store.log.read()
    assert isinstance(first, Gap)
    assert (first.first_seq, first.last_seq) == (1, 20)
    assert "dropped" in first.reason
    assert seqs(list(rest)) == list(range(21, 31))
    assert seqs(list(store.log.read(21))) == list(range(21, 31))
    assert store.log.drop_older(1.7e9 + 26) != []
    store.log.drop_before(99)
    assert (store.log.low, store.log.low_seq, names(tmp_path)) == (7, 31, [])
    store.close()
    store = opened(tmp_path)
    assert (store.problems, store.seq) == ([], 30)
    write_segments(store, 1)
    assert names(tmp_path) == ["00000007.parquet"]
    assert store.statistics().log.first_seq == 31
    store.close()


def test_another_process_keeps_reading_while_segments_come_merge_and_go(tmp_path: Path) -> None:
    store = opened(tmp_path)
    write_segments(store, 4, size=5)
    reader = LogReader(log_directory(tmp_path))
    stream = reader.read()
    found = [next(stream)]
    store.log.merge(1, 3)
    found += stream
    assert seqs(found) == list(range(1, 21))
    write_segments(store, 2, size=5)
    reader.refresh()
    assert seqs(list(reader.read(16))) == list(range(16, 31))
    stream = reader.read()
    found = [next(stream)]
    store.log.drop_before(5)
    found += stream
    assert seqs(found) == [*range(1, 16), *range(-16, -21, -1), *range(21, 31)]
    store.close()


def test_a_segment_that_is_written_anew_meanwhile_is_not_taken_for_a_damaged_one(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    write_segments(store, 3, size=5)
    reader = LogReader(log_directory(tmp_path))
    stream = reader.read()
    found = [next(stream)]
    assert store.log.erase(lambda row: row.seq in (7, 12)) == 2
    found += stream
    assert seqs(found) == list(range(1, 16))
    assert [row.kind for row in rows_of(found[1])].count(ERASED) == 1
    store.close()


def test_a_reader_learns_of_many_segments_a_few_at_a_time(tmp_path: Path) -> None:
    store = opened(tmp_path)
    write_segments(store, 1, size=1)
    reader = LogReader(log_directory(tmp_path))
    for _ in range(6):
        write_segments(store, 100, size=1)
        reader.refresh()
        assert [each.first for each in reader.segments()] == list(range(1, store.seq + 1))
    assert store.statistics().log.segments == 601
    store.close()
