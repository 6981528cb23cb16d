"""The copy of a log in an object store is a log that a reader can follow, whatever happens."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

pytest.importorskip("obstore", reason="obstore is not installed")

from nearcast.store import (
    Gap,
    LogReader,
    ObjectPath,
    Store,
    StoreError,
    ask_broker,
    ask_pipeline,
    asked_snapshot,
    broker_snapshots,
    names_in,
    path_at,
    wanted_snapshot,
)
from nearcast.store.layout import log_directory as log_directory_in
from nearcast.store.log.log_copy import LogCopy
from tests.support.logs.store_rows import AT_ONCE, BROKER, opened, write_segments
from tests.support.object_store import BUCKET, s3_server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = opened(tmp_path / "data", AT_ONCE)
    yield found
    found.abandon()


@pytest.fixture
def place(tmp_path: Path) -> ObjectPath:
    """Where the copy lies."""
    return copy_at((tmp_path / "copy").as_uri())


def copy_at(url: str) -> ObjectPath:
    found = log_directory_in(path_at(url), BROKER)
    assert isinstance(found, ObjectPath)
    return found


def copy_of(store: Store, place: ObjectPath) -> LogCopy:
    return LogCopy(store.log.directory, place, BROKER)


def content(directory: Path | ObjectPath) -> list[object]:
    """All rows and gaps of a log."""
    found: list[object] = []
    for part in LogReader(directory).read():
        found += [part] if isinstance(part, Gap) else part.to_pylist()
    return found


def segments(directory: Path | ObjectPath) -> list[str]:
    return [name for name in names_in(directory) if not name.startswith(("_", "."))]


def assert_same(store: Store, place: ObjectPath) -> None:
    assert content(place) == content(store.log.directory)
    assert segments(place) == segments(store.log.directory)


def change(store: Store, chance: Random) -> None:
    """Append, merge, drop or erase, as a broker does."""
    kind = chance.choice(("append", "append", "append", "merge", "drop", "erase"))
    known = store.log.segments()
    if kind == "append" or len(known) < 3:
        write_segments(store, chance.choice((1, 1, 2, 5)), size=chance.randint(1, 4))
    elif kind == "merge":
        singles = [each for each in known if each.first == each.last]
        if len(singles) > 1:
            store.log.merge(singles[0].first, singles[1].last)
    elif kind == "drop":
        store.log.drop_before(known[chance.randint(1, 2)].first)
    else:
        chosen = chance.choice(known)
        store.log.erase(lambda row: row.seq == chosen.first_seq)


@pytest.mark.parametrize("seed", range(6))
def test_any_life_of_a_log_is_copied(store: Store, place: ObjectPath, seed: int) -> None:
    chance = Random(seed)
    copy = copy_of(store, place)
    follower: LogReader | None = None
    for _ in range(30):
        for _ in range(chance.choice((0, 1, 1, 3))):
            change(store, chance)
        if chance.random() < 0.2:
            # Another life of the broker: it knows only what is in the store.
            copy = copy_of(store, place)
        copy.update()
        assert_same(store, place)
        follower = LogReader(place) if follower is None else follower
        follower.refresh()
        assert follower.segments() == store.log.segments()
    assert copy.update() == 0


@pytest.mark.parametrize("seed", range(6))
def test_an_update_may_be_cut_short_anywhere(
    store: Store, place: ObjectPath, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    left = 10**9

    def write_bytes(self: ObjectPath, data: bytes) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(5, "the store is gone")
        self._store.put(self.key, data)

    monkeypatch.setattr(ObjectPath, "write_bytes", write_bytes)
    copy = copy_of(store, place)
    for _ in range(12):
        for _ in range(3):
            change(store, chance)
        left = chance.randint(0, 6)
        try:
            copy.update()
        except StoreError:
            # What is there can be read: it is an earlier state of the log.
            seqs = [each["seq"] for each in content(place) if isinstance(each, dict)]
            assert seqs == sorted(set(seqs))
        if chance.random() < 0.5:
            left = 10**9
            copy = copy_of(store, place)
            copy.delete_strangers()
    left = 10**9
    copy.update()
    copy.delete_strangers()
    assert_same(store, place)


def test_broker_and_pipeline_reach_each_other_through_the_copy(
    store: Store, place: ObjectPath
) -> None:
    log, copy = store.log.directory, copy_of(store, place)
    write_segments(store, 2)
    copy.update()
    assert (asked_snapshot(place), wanted_snapshot(log)) == (0, None)
    ask_pipeline(log, 7)
    ask_broker(place, 12)
    copy.update()
    assert (asked_snapshot(place), wanted_snapshot(log)) == (7, 12)
    # The broker writes its snapshot, and says so.
    (log / "_snapshots").mkdir()
    (log / "_snapshots" / f"{20:015d}.parquet").write_bytes(b"snapshot")
    (log / "_snapshot_wanted").unlink()
    copy.update()
    assert wanted_snapshot(place) is None
    assert names_in(broker_snapshots(place)) == [f"{20:015d}.parquet"]
    (log / "_snapshots" / f"{20:015d}.parquet").rename(log / "_snapshots" / f"{30:015d}.parquet")
    copy_of(store, place).update()
    assert names_in(broker_snapshots(place)) == [f"{30:015d}.parquet"]


def test_the_copy_in_a_real_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("flask_cors", reason="the server of moto is not installed")
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        place, chance = copy_at(f"s3://{BUCKET}/nearcast/"), Random(7)
        copy = copy_of(store, place)
        for _ in range(8):
            change(store, chance)
            copy.update()
            assert_same(store, place)
