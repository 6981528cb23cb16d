"""The write-ahead log: read as SQLite wrote it, up to the first byte that differs."""

import random
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.store import CorruptError
from nearcast.store.integrity.page_sums import SumChain, page_sums, sums_of
from nearcast.store.integrity.wal_frames import WalReader, mapped_frames, read_index

PAGE, STEP = 4_096, 4_096 + 24


def plain_sums(words: list[int], before: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """SQLite's checksum as its documentation has it."""
    first, second = before
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) % (1 << 32)
        second = (second + odd + first) % (1 << 32)
    return first, second


word = st.integers(0, (1 << 32) - 1)


@given(st.lists(st.lists(word, min_size=8, max_size=8), min_size=1, max_size=5), word, word)
def test_sums_are_those_of_the_plain_loop(blocks: list[list[int]], one: int, two: int) -> None:
    found = sums_of(np.array(blocks, np.uint32)).tolist()
    assert [tuple(each) for each in found] == [plain_sums(block) for block in blocks]
    chain, sums, expected = SumChain(8), (one, two), (one, two)
    for block, (first, second) in zip(blocks, found, strict=True):
        sums = chain.next(first, second, sums)
        expected = plain_sums(block, expected)
        assert sums == expected


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(tmp_path / "db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA wal_autocheckpoint = 0")
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)")
    yield db
    db.close()


def put(db: sqlite3.Connection, size: int) -> None:
    db.execute("INSERT INTO t (b) VALUES (?)", (random.Random(size).randbytes(size),))


def read(reader: WalReader) -> int:
    return sum(len(frames.pages) for frames in reader.read())


def test_all_frames_are_read_once_while_the_log_grows(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    reader, count = WalReader(tmp_path / "db-wal"), 0
    for size in (10, 5_000, 300_000, 1, 6_000_000, 20):
        put(database, size)
        count += read(reader)
        (_, frames, _) = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert reader.frames == frames
        assert reader.page_count == database.execute("PRAGMA page_count").fetchone()[0]
    assert read(reader) == 0
    assert count > 1_400


def test_a_log_that_begins_anew_is_read_from_its_beginning(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    reader = WalReader(tmp_path / "db-wal")
    put(database, 100_000)
    assert read(reader) > 20
    database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    put(database, 10)
    assert 0 < read(reader) < 5
    assert reader.frames_left() == (0, 0)


def test_frames_are_mapped_up_to_the_end_that_sqlite_knows(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    for size in (3_000, 50_000, 7):
        put(database, size)
    with (tmp_path / "db-shm").open("rb") as file:
        end = read_index(file.fileno())
    assert end is not None
    reader = WalReader(tmp_path / "db-wal")
    assert read(reader) == end.frames
    pages, contents = mapped_frames(tmp_path / "db-wal", PAGE, 0, end)
    newest = dict(zip(pages.tolist(), page_sums(contents).tolist(), strict=True))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    data = (tmp_path / "db").read_bytes()
    table = page_sums(np.frombuffer(data, "<u8").reshape(-1, PAGE // 8)).tolist()
    assert {page: table[page - 1] for page in newest} == newest
    with pytest.raises(CorruptError):
        mapped_frames(tmp_path / "db-wal", PAGE, 0, end)


def test_any_changed_bit_changes_the_sum_of_a_page_in_its_own_way() -> None:
    page = random.Random(1).randbytes(512)
    pages = [
        page[:at] + bytes((page[at] ^ 1 << bit,)) + page[at + 1 :]
        for at in range(512)
        for bit in range(8)
    ]
    table = np.frombuffer(b"".join([page, *pages]), "<u8").reshape(-1, 64)
    sums = page_sums(table).tolist()
    assert sums[0] not in sums[1:]
    assert len(set(sums)) == len(sums)


def test_reading_ends_where_sqlite_would_end_at_any_changed_byte(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    for _ in range(12):
        put(database, 3_000)
    data = (tmp_path / "db-wal").read_bytes()
    intact = WalReader(tmp_path / "db-wal")
    read(intact)
    chance = random.Random(1)
    copy = tmp_path / "copy"
    for _ in range(60):
        at, bit = chance.randrange(len(data)), chance.randrange(8)
        changed = data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]
        (tmp_path / "copy-wal").write_bytes(changed)
        copy.write_bytes((tmp_path / "db").read_bytes())
        reader = WalReader(tmp_path / "copy-wal")
        read(reader)
        left = reader.frames_left()
        with sqlite3.connect(copy, isolation_level=None) as db:
            try:
                count = db.execute("SELECT count(*) FROM t").fetchone()[0]
            except sqlite3.OperationalError:
                count = -1
        db.close()
        assert reader.commits == count + 1
        assert reader.commits < intact.commits
        if reader.commits and at >= 32 and (at - 32) % STEP >= 24:
            assert reader.commits + left[1] == intact.commits
        assert left[0] <= intact.frames


def test_a_log_that_is_no_log_is_none(tmp_path: Path) -> None:
    path = tmp_path / "db-wal"
    assert read(WalReader(path)) == 0
    for data in (b"", bytes(31), bytes(5_000), struct.pack(">8I", 0x377F0682, 0, 4_096, *range(5))):
        path.write_bytes(data)
        reader = WalReader(path)
        assert read(reader) == 0
        assert reader.frames_left() == (0, 0)
