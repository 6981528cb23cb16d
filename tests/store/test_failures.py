"""Full disks, read-only directories, other processes, damaged databases: said, and survived."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from nearcast.store import (
    Change,
    CorruptError,
    DiskFullError,
    Enqueued,
    InUseError,
    Kept,
    LogReader,
    MessagePut,
    RowBuffer,
    Store,
    StoreError,
)
from tests.support.logs.store_rows import (
    AT_ONCE,
    BROKER,
    log_directory,
    message,
    opened,
    row,
    rows,
    seqs,
    session,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes; only those who may mount have one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(store: Store) -> int:
    """Commit until there is no room; return the last tick that was kept."""
    with pytest.raises(DiskFullError, match=r"no room left while committing tick \d+"):
        commit_for_ever(store)
    return store.seq


def commit_for_ever(store: Store) -> None:
    while True:
        seq = store.seq + 1
        store.commit(
            [Kept("tick", str(seq), b"")], RowBuffer.of([row(seq, os.urandom(20_000))]), now=0.0
        )


def test_a_full_disk_takes_nothing_of_the_tick_and_nothing_before_it(small_disk: Path) -> None:
    store = opened(small_disk, AT_ONCE)
    last = fill_up(store)
    assert last > 10
    with pytest.raises(DiskFullError, match=r"00000001\.parquet: no room left while writing it"):
        store.roll(now=1.0)
    assert store.roll(now=1.0) is None  # not again at once
    assert seqs(list(store.log.read())) == list(range(1, last + 1))
    store.abandon()
    store = opened(small_disk, AT_ONCE)
    assert store.seq == last
    assert [each for each in store.load() if isinstance(each, Kept)] != []
    assert len(list(store.load())) == last
    assert seqs(list(store.log.read())) == list(range(1, last + 1))
    store.abandon()


def test_when_there_is_room_again_the_same_tick_is_kept(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_400_000))
    store = opened(small_disk, AT_ONCE)
    last = fill_up(store)
    ballast.unlink()
    store.commit([Kept("tick", str(last + 1), b"")], RowBuffer.of([row(last + 1)]), now=0.0)
    assert store.roll(now=1.0) is not None
    store.commit([], RowBuffer.of([row(last + 2)]), now=1.0)
    assert seqs(list(store.log.read())) == list(range(1, last + 3))
    store.close()


def test_a_database_that_may_not_grow_is_a_full_disk_too(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([session("ann")], RowBuffer.of(rows(1, 3)), now=0.0)
    before = list(store.load())
    pages = store._state._db.execute("PRAGMA page_count").fetchone()[0]
    store._state._db.execute(f"PRAGMA max_page_count = {pages + 2}")
    big: list[Change] = [MessagePut(1, message("x" * 50_000)), Enqueued("ann", 1, 1, 1)]
    with pytest.raises(DiskFullError, match="free some space"):
        store.commit(big, RowBuffer.of(rows(4, 5)), now=0.0)
    assert (list(store.load()), store.seq) == (before, 3)
    store._state._db.execute("PRAGMA max_page_count = 100000")
    store.commit(big, RowBuffer.of(rows(4, 5)), now=0.0)
    assert len(list(store.load())) == 3
    assert seqs(list(store.log.read())) == [1, 2, 3, 4, 5]
    store.close()


TRY = (
    "import sys; from pathlib import Path; from nearcast.store import Store, StoreError\n"
    "try: Store(Path(sys.argv[1]), sys.argv[2])\n"
    "except StoreError as error: print(type(error).__name__, error)"
)


@pytest.mark.usefixtures("as_nobody")
def test_a_directory_that_may_not_be_written_is_named() -> None:
    with TemporaryDirectory() as place:
        data = Path(place)
        opened(data).close()
        directory = data / "brokers" / BROKER
        for path in (*directory.rglob("*"), directory, directory.parent):
            path.chmod(0o555 if path.is_dir() else 0o444)
        with pytest.raises(StoreError, match="lock: not permitted while locking it") as error:
            opened(data)
        assert "must be writable by the broker's user" in str(error.value)
        with pytest.raises(StoreError, match="another: not permitted while making it"):
            Store(data, "another")
        (directory / "lock").chmod(0o644)
        with pytest.raises(StoreError, match=r"state\.sqlite: not permitted while"):
            opened(data)
        for path in (directory.parent, directory, *directory.rglob("*")):
            path.chmod(0o755)
        opened(data).close()


def test_a_disk_that_turns_read_only_takes_nothing(small_disk: Path) -> None:
    store = opened(small_disk)
    store.commit([session("ann")], RowBuffer.of(rows(1, 3)), now=0.0)
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreError, match=r"not permitted .* \(Read-only file system\)"):
        opened(small_disk)
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    store = opened(small_disk)
    assert list(store.load()) == [session("ann")]
    store.close()


def test_a_second_opener_is_told_who_has_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(InUseError, match=f"in use by process {os.getpid()} on "):
        opened(tmp_path)
    other = subprocess.run(
        [sys.executable, "-c", TRY, str(tmp_path), BROKER], capture_output=True, text=True
    )
    assert f"InUseError {store.directory} is in use by process {os.getpid()} on" in other.stdout
    store.commit([session("ann")], now=0.0)
    store.close()
    opened(tmp_path).close()


def test_a_damaged_database_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.commit([session(f"client {n}") for n in range(500)], RowBuffer.of(rows(1, 5)), now=0.0)
    store.close()
    path = store.directory / "state.sqlite"
    good = path.read_bytes()
    for damaged in (b"not a database" * 400, good[:100] + b"\xff" * 3000 + good[3100:]):
        path.write_bytes(damaged)
        with pytest.raises(CorruptError, match=r"state\.sqlite: the database is damaged") as error:
            list(opened(tmp_path).load())
        assert "Restore a backup" in str(error.value)
        assert path.read_bytes() == damaged
    path.write_bytes(good)
    store = opened(tmp_path)
    assert len(list(store.load())) == 500
    store.close()


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "x" * 101, "ü"])
def test_a_name_that_is_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="cannot name a broker"):
        Store(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_opens_as_it_was_and_the_original_goes_on(tmp_path: Path) -> None:
    store = opened(tmp_path / "data", AT_ONCE)
    for tick in range(1, 6):
        store.commit(
            [Kept("tick", str(tick), b"")],
            RowBuffer.of(rows(store.seq + 1, store.seq + 4)),
            now=0.0,
        )
        if tick < 5:
            store.roll(now=1.0)
    sealed = store.log.seal()
    assert sealed is not None
    assert store.backup(tmp_path / "copy") == 20
    store.log.settle(sealed.write())
    kept = list(store.load())
    store.commit([Kept("tick", "6", b"")], RowBuffer.of(rows(21, 30)), now=2.0)
    store.log.drop_before(4)
    with pytest.raises(StoreError, match="copy exists"):
        store.backup(tmp_path / "copy")
    store.close()
    copy = opened(tmp_path / "copy")
    assert (copy.problems, copy.seq, list(copy.load())) == ([], 20, kept)
    assert seqs(list(copy.log.read())) == list(range(1, 21))
    copy.commit([], RowBuffer.of(rows(21, 22)), now=0.0)
    copy.close()
    assert seqs(list(LogReader(log_directory(tmp_path / "copy")).read())) == list(range(1, 23))
    assert not list(tmp_path.glob("*.partial"))


def test_what_was_backed_up_is_told_in_json(tmp_path: Path) -> None:
    store = opened(tmp_path / "data")
    store.commit([], RowBuffer.of(rows(1, 3)), now=0.0)
    store.close()
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", "backup", str(tmp_path / "copy"), "--json",
         "--data", str(tmp_path / "data"), "--broker", BROKER],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    told = {"broker": BROKER, "target": str(tmp_path / "copy"), "seq": 3}
    assert json.loads(done.stdout) == told, done.stderr
