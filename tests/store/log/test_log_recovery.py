"""After a crash at any moment the log is whole; what is damaged is named and set aside."""

import os
import shutil
from pathlib import Path

import pytest

from nearcast.store import Gap, LogReader, RowBuffer, StoreError
from nearcast.store.integrity.checksum_file import checksum_path
from nearcast.store.log.segments import merge_segments
from tests.support.logs.store_rows import (
    AT_ONCE,
    log_directory,
    opened,
    rows,
    seqs,
    write_segments,
)


def written(data: Path, count: int = 4) -> Path:
    store = opened(data)
    write_segments(store, count, size=5)
    # The next commit lets the state forget the rows of the last segment.
    store.commit([], now=0.0)
    store.close()
    return log_directory(data)


def flip(path: Path, at: int = 200) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_a_crash_before_a_segment_has_its_name_writes_it_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([], RowBuffer.of(rows(1, 5)), now=0.0)
    (log_directory(tmp_path) / ".00000001.parquet.partial").write_bytes(b"PAR1 and no more")
    store.abandon()
    store = opened(tmp_path)
    assert store.log.next_due() == float("-inf")
    assert store.roll(now=0.0) is not None
    assert seqs(list(store.log.read())) == [1, 2, 3, 4, 5]
    assert not list(log_directory(tmp_path).glob(".*"))
    store.close()


@pytest.mark.parametrize("line_is_there", [True, False])
def test_a_crash_after_a_segment_has_its_name_repeats_no_row(
    tmp_path: Path, line_is_there: bool
) -> None:
    store = opened(tmp_path)
    store.commit([], RowBuffer.of(rows(1, 5)), now=0.0)
    sealed = store.log.seal()
    assert sealed is not None
    segment = sealed.write()
    if line_is_there:
        store.log.settle(segment)
    store.abandon()
    store = opened(tmp_path)
    assert store.problems == []
    assert store.log.segments() == [segment]
    assert store.log.next_due() is None
    store.commit([], RowBuffer.of(rows(6, 7)), now=0.0)
    assert store.statistics().state.tail_ticks == 1
    assert seqs(list(store.log.read())) == [1, 2, 3, 4, 5, 6, 7]
    store.close()


def test_a_torn_line_or_a_lost_manifest_is_made_good_from_the_segments(tmp_path: Path) -> None:
    logs = written(tmp_path)
    before = LogReader(logs).segments()
    (logs / "_manifest.json").unlink()
    (logs / "_manifest.jsonl").write_bytes(b'{"first": 1, "last"')
    store = opened(tmp_path)
    assert (store.log.segments(), store.problems) == (before, [])
    store.close()
    (logs / "_manifest.json").write_bytes(b'{"broker": ')
    store = opened(tmp_path)
    assert store.log.segments() == before
    assert "_manifest.json cannot be read" in store.problems[0]
    assert (logs / "__manifest.json.corrupt").exists()
    store.close()


def test_lines_that_were_folded_in_already_count_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    write_segments(store, 3, size=5)
    lines = (log_directory(tmp_path) / "_manifest.jsonl").read_bytes()
    store.close()
    opened(tmp_path).close()
    (log_directory(tmp_path) / "_manifest.jsonl").write_bytes(lines)
    assert [each.first for each in LogReader(log_directory(tmp_path)).segments()] == [1, 2, 3]
    store = opened(tmp_path)
    assert seqs(list(store.log.read())) == list(range(1, 16))
    store.close()


@pytest.mark.parametrize("how", ["flipped", "torn", "missing"])
def test_a_damaged_segment_is_named_set_aside_and_read_over(tmp_path: Path, how: str) -> None:
    logs = written(tmp_path)
    damaged = logs / "00000002.parquet"
    if how == "flipped":
        flip(damaged)
    elif how == "torn":
        os.truncate(damaged, damaged.stat().st_size // 2)
    else:
        damaged.unlink()
    store = opened(tmp_path)
    found = list(store.log.read())
    assert seqs(found) == [*range(1, 6), *range(-6, -11, -1), *range(11, 21)]
    (gap,) = [each for each in found if isinstance(each, Gap)]
    assert "00000002.parquet" in gap.reason
    assert store.log.gaps() == [gap]
    assert any("00000002.parquet" in problem for problem in store.problems)
    assert (logs / "_00000002.parquet.corrupt").exists() == (how != "missing")
    statistics = store.statistics().log
    assert (statistics.gaps, statistics.lost_rows) == (1, 5)
    write_segments(store, 1, size=5)
    store.close()
    store = opened(tmp_path)
    assert store.problems == []
    assert store.log.merge(1, 4) is not None
    again = list(store.log.read(4))
    assert seqs(again) == [4, 5, *range(-6, -11, -1), *range(11, 26)]
    reader = list(LogReader(logs).read())
    assert seqs(reader) == [*range(1, 6), *range(-6, -11, -1), *range(11, 26)]
    store.close()


def test_a_reader_elsewhere_says_what_is_damaged_and_changes_nothing(tmp_path: Path) -> None:
    logs = written(tmp_path)
    flip(logs / "00000003.parquet")
    before = sorted(logs.iterdir())
    reader = LogReader(logs)
    assert seqs(list(reader.read())) == [*range(1, 11), *range(-11, -16, -1), *range(16, 21)]
    assert "checksum differs" in reader.gaps()[0].reason
    assert sorted(logs.iterdir()) == before


def test_damage_met_while_merging_or_verifying_is_set_aside(tmp_path: Path) -> None:
    logs = written(tmp_path)
    flip(logs / "00000002.parquet")
    flip(logs / "00000004.parquet")
    store = opened(tmp_path)
    merged = store.log.merge(1, 3)
    assert merged is not None
    assert merged.rows == 10
    assert [gap.first for gap in store.log.gaps()] == [2, 4]
    assert store.log.verify() == []
    assert seqs(list(store.log.read())) == [
        *range(1, 6), *range(-6, -11, -1), *range(11, 16), *range(-16, -21, -1),
    ]  # fmt: skip
    store.close()


def test_a_damaged_last_segment_is_written_again_while_the_state_has_its_rows(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path)
    write_segments(store, 2, size=5)
    store.abandon()
    last = log_directory(tmp_path) / "00000002.parquet"
    os.truncate(last, 10)
    store = opened(tmp_path, AT_ONCE)
    assert "will be written again" in store.problems[0]
    assert store.log.gaps() == []
    assert store.roll(now=0.0) is not None
    assert seqs(list(store.log.read())) == list(range(1, 11))
    assert [each.first for each in store.log.segments()] == [1, 2]
    store.close()


@pytest.mark.parametrize("manifest_knows", [True, False])
def test_a_crash_while_merging_leaves_the_range_or_its_parts(
    tmp_path: Path, manifest_knows: bool
) -> None:
    logs = written(tmp_path)
    parts = logs.parent / "parts"
    shutil.copytree(logs, parts)
    store = opened(tmp_path)
    if manifest_knows:
        store.log.merge(1, 3)
    else:
        merge_segments(logs, 1, 3, store.log.segments()[:3])
    store.close()
    for part in parts.glob("0*.parquet"):
        shutil.copy(part, logs)
    store = opened(tmp_path)
    assert [each.name for each in store.log.segments()] == [
        "00000001-00000003.parquet", "00000004.parquet",
    ]  # fmt: skip
    assert seqs(list(store.log.read())) == list(range(1, 21))
    assert not (logs / "00000002.parquet").exists()
    store.close()
    # Had the range been damaged, its parts would have counted.
    flip(logs / "00000001-00000003.parquet")
    for part in parts.glob("0*.parquet"):
        shutil.copy(part, logs)
    store = opened(tmp_path)
    assert "set aside" in store.problems[0]
    assert seqs(list(store.log.read())) == list(range(1, 21))
    assert store.log.gaps() == []
    store.close()


def test_a_crash_while_dropping_goes_on_dropping(tmp_path: Path) -> None:
    logs = written(tmp_path)
    shutil.copy(logs / "00000001.parquet", tmp_path)
    store = opened(tmp_path)
    store.log.drop_before(3)
    store.close()
    shutil.copy(tmp_path / "00000001.parquet", logs)
    store = opened(tmp_path)
    assert store.problems == []
    assert not (logs / "00000001.parquet").exists()
    assert seqs(list(store.log.read(11))) == list(range(11, 21))
    store.close()


def test_committed_rows_that_nobody_has_any_more_are_a_gap(tmp_path: Path) -> None:
    logs = written(tmp_path)
    for path in logs.iterdir():
        path.unlink()
    store = opened(tmp_path)
    assert "rows 1 to 20 were committed, and no segment has them" in store.problems[0]
    write_segments(store, 1, size=5)
    assert seqs(list(store.log.read())) == [*range(-1, -21, -1), *range(21, 26)]
    store.close()


def test_a_state_that_is_older_than_its_log_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    shutil.copytree(tmp_path / "brokers", tmp_path / "old" / "brokers")
    store = opened(tmp_path)
    write_segments(store, 2, size=5)
    store.close()
    state = log_directory(tmp_path).parent / "state.sqlite"
    for name in (state.name, checksum_path(state).name):
        shutil.copy(log_directory(tmp_path / "old").parent / name, state.with_name(name))
    with pytest.raises(StoreError, match=r"ends at seq 20, but .* goes on to 30"):
        opened(tmp_path)
    state.unlink()
    with pytest.raises(StoreError, match=r"missing, but .* is not empty; restore the state"):
        opened(tmp_path)
    assert not state.exists()
