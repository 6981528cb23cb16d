"""Following many logs: bounds, parts, and a cost that does not grow with the log."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

from nearcast.pipeline.source.log_follower import Bound, Offset, Split, advance, broker_ranges
from nearcast.store import Gap, Segment
from nearcast.store.log.manifest import Manifest, Whole
from tests.support.logs.store_rows import BROKER, log_directory

pytest.importorskip("pyspark", reason="PySpark is not installed")

from pyspark.sql.streaming.datasource import ReadMaxRows

from nearcast.pipeline.source.data_source import LogStreamReader, source_options


def synthetic(number: int, rows: int = 10) -> Segment:
    first = (number - 1) * rows + 1
    at = float(number)
    return Segment(number, number, first, first + rows - 1, rows, 1000, at, at, f"{number:064x}")


class CountingList(list[Segment]):
    """A list that counts how many of its items were looked at."""

    looked_at = 0

    def __getitem__(self, index: SupportsIndex | slice) -> Any:  # noqa: ANN401
        found = super().__getitem__(index)
        self.looked_at += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[Segment]:
        self.looked_at += len(self)
        return super().__iter__()


_opened: list[list[str]] = []


def _note_open(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and _opened:
        _opened[-1].append(str(arguments[0]))


sys.addaudithook(_note_open)


@contextmanager
def noting_opens() -> Iterator[list[str]]:
    _opened.append([])
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def cost_of_ten_batches(data: Path, segments: int) -> tuple[list[str], int, int]:
    """Return which files ten batches open, how many bytes they read, how many segments they see."""
    directory = log_directory(data)
    directory.mkdir(parents=True)
    manifest = Manifest(directory, Whole(BROKER))
    manifest.segments.extend(map(synthetic, range(1, segments + 1)))
    manifest.save()
    reader = LogStreamReader(source_options({"path": str(data), "start": "latest"}))
    at = reader.initialOffset()
    kept = reader._logs.manifests()[BROKER]
    counting = kept.whole.segments = CountingList(kept.whole.segments)
    with noting_opens() as opened:
        begun = bytes_read()
        for number in range(segments + 1, segments + 11):
            manifest.append(synthetic(number))
            end = reader.latestOffset(at, ReadMaxRows(100_000))
            reader.reportLatestOffset()
            [partition] = reader.partitions(at, end)
            assert partition.value.segments == (synthetic(number),)
            at = end
        spent = bytes_read() - begun
    return opened, spent, counting.looked_at


def test_planning_a_batch_costs_the_same_however_many_segments_there_are(tmp_path: Path) -> None:
    few, few_bytes, few_seen = cost_of_ten_batches(tmp_path / "few", 1_000)
    many, many_bytes, many_seen = cost_of_ten_batches(tmp_path / "many", 20_000)
    assert len(many) == len(few)
    assert not any(name.endswith((".parquet", "/log")) for name in many)
    # Numbers have more digits in a longer log, and bisection takes a few steps more.
    assert many_bytes <= few_bytes * 1.2
    assert many_seen <= few_seen * 2


def test_ranges_that_a_batch_is_split_into_cover_it_without_overlap() -> None:
    chance = random.Random(7)
    for _ in range(200):
        manifest, end = random_manifest(chance)
        first = chance.randrange(1, end)
        last = chance.randrange(first, end)
        split = Split(chance.randrange(1, 30), chance.randrange(1, 5))
        found = list(broker_ranges(manifest, "x", first, last, split))
        assert [found[0].first_seq, found[-1].last_seq] == [first, last]
        for one, two in pairwise(found):
            assert two.first_seq == one.last_seq + 1
        for each in found:
            assert len(each.segments) <= split.segments
            has = sum(
                min(s.last_seq, each.last_seq) - max(s.first_seq, each.first_seq) + 1
                for s in each.segments
            )
            assert has <= split.rows
            assert each.segments == tuple(
                s
                for s in manifest.segments
                if s.last_seq >= each.first_seq and s.first_seq <= each.last_seq
            )


def random_manifest(chance: random.Random) -> tuple[Manifest, int]:
    whole, seq, number = Whole("x"), chance.randrange(1, 20), 1
    whole.low_seq = seq
    for _ in range(chance.randrange(1, 12)):
        size = chance.randrange(1, 25)
        if chance.random() < 0.2:
            whole.gaps.append(Gap(seq, seq + size - 1, "lost", number, number))
        else:
            at = float(seq)
            whole.segments.append(
                Segment(number, number, seq, seq + size - 1, size, 1, at, at + size - 1, "")
            )
        seq, number = seq + size, number + 1
    return Manifest(Path("x"), whole), seq


def test_batches_of_many_brokers_reach_the_end_within_their_bounds() -> None:
    chance = random.Random(8)
    for _ in range(200):
        manifests = {name: random_manifest(chance)[0] for name in "abc"}
        bound = Bound(chance.randrange(1, 40), chance.randrange(1, 6))
        assert bound.rows is not None
        assert bound.segments is not None
        at: Offset = {}
        while (end := advance(manifests, at, bound)) != at:
            rows = opened = 0
            for broker, manifest in manifests.items():
                begin = at.get(broker, 1)
                for s in manifest.segments:
                    taken = min(s.last_seq + 1, end[broker]) - max(s.first_seq, begin)
                    rows, opened = rows + max(0, taken), opened + (taken > 0)
            assert rows <= bound.rows
            assert opened <= bound.segments
            assert list(end) == sorted(end)
            at = end
        assert at == {name: manifest.last_seq + 1 for name, manifest in manifests.items()}
