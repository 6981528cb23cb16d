"""A changed byte in the files of a state is found before anything is read from them."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from nearcast.store import (
    Change,
    CorruptError,
    Enqueued,
    Kept,
    MessagePut,
    RowBuffer,
    Store,
    discard_damaged,
    verify_store,
)
from nearcast.store.integrity.checksum_file import ChecksumFile, checksum_path
from nearcast.store.integrity.state_damage import find_damage
from nearcast.store.integrity.state_image import StateImage
from nearcast.store.state.changes import SubscriptionPut
from nearcast.store.state.values import SubscriptionState
from tests.support.logs.store_rows import (
    AT_ONCE,
    BROKER,
    message,
    opened,
    rows,
    seqs,
    session,
)

STATE = "state.sqlite"


def lived(data: Path, ticks: int = 60) -> Store:
    """Return a store with sessions, queues, live values and rows, checkpointed in between."""
    store = opened(data, AT_ONCE)
    store.commit([session(name) for name in ("ann", "bob")], now=0.0)
    for tick in range(ticks):
        number = next(store.message_ids)
        changes: list[Change] = [
            MessagePut(number, message(f"text {tick} " + "x" * (50 * tick))),
            Enqueued("ann", next(store.queue_numbers), number, 1),
            Enqueued("bob", next(store.queue_numbers), number, 2),
            SubscriptionPut("bob", f"a/{tick}", SubscriptionState(f"a/{tick}", 1)),
            Kept("places", f"place {tick}", b"x" * 200),
        ]
        last = store.seq + 3
        store.commit(changes, RowBuffer.of(rows(store.seq + 1, last)), now=0.0)
        if tick % 20 == 10:
            store.roll(now=1.0)
            store.checkpoint()
            store.finish_checkpoint()
    return store


def path_of(data: Path) -> Path:
    return data / "brokers" / BROKER / STATE


def killed(data: Path, copy: Path, ticks: int = 60) -> list[Change]:
    """Copy the files of a store that is not closed, as a crash leaves them."""
    store = lived(data, ticks)
    shutil.copytree(data, copy)
    loaded = list(store.load())
    store.abandon()
    return loaded


def flip(path: Path, chance: random.Random, first: int = 0) -> int:
    data = bytearray(path.read_bytes())
    at = chance.randrange(first, len(data))
    data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return at


def test_what_was_closed_or_killed_is_as_it_was_written(tmp_path: Path) -> None:
    loaded = killed(tmp_path / "data", tmp_path / "killed")
    for data in (tmp_path / "data", tmp_path / "killed"):
        damage = find_damage(path_of(data))
        assert not damage, damage
        assert (damage.has_checksums, damage.unverified) == (True, 0)
        store = opened(data)
        assert (store.state_problems, list(store.load())) == ([], loaded)
        store.close()


@pytest.mark.parametrize("seed", range(60))
def test_a_changed_bit_of_the_database_is_found_and_named(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    lived(data, 20).close()
    chance = random.Random(seed)
    at = flip(path_of(data), chance)
    before = path_of(data).read_bytes()
    with pytest.raises(CorruptError, match=r"state\.sqlite: the database is damaged") as error:
        opened(data)
    assert path_of(data).read_bytes() == before
    page = at // 4_096 + 1
    if page > 1:
        with StateImage(path_of(data)) as image:
            assert image.damaged == {page}
        assert "--discard-damaged" in str(error.value)
        report = verify_store(data, BROKER)
        assert report is not None
        assert report.state.pages == (page,)
        assert report.state.items


@pytest.mark.parametrize("seed", range(40))
def test_without_what_is_damaged_the_rest_is_as_it_was(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    store = lived(data, 40)
    loaded, seq = list(store.load()), store.seq
    store.close()
    chance = random.Random(seed)
    for _ in range(chance.choice((1, 3))):
        flip(path_of(data), chance, first=4_096)
    damage = discard_damaged(data, BROKER)
    assert damage is not None
    assert damage.items
    aside = path_of(data).parent / "damaged-1"
    assert (aside / STATE).exists()
    store = opened(data)
    left = list(store.load())
    unknown = [each for each in left if each not in loaded]
    assert not unknown, "something that was never written is there"
    assert store.seq == seq
    # It is whole: it goes on, and what is done now is kept.
    store.commit([Kept("later", "a", b"1")], RowBuffer.of(rows(seq + 1, seq + 2)), now=0.0)
    store.close()
    again = opened(data)
    assert again.seq == seq + 2
    assert len(list(again.load())) == len(left) + 1
    again.close()
    assert discard_damaged(data, BROKER) is None


def test_a_damaged_message_goes_with_its_queue_entries_and_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lived(data, 20).close()
    content = path_of(data).read_bytes()
    at = content.index(b"text 7 ")
    path_of(data).write_bytes(content[:at] + b"tEXT" + content[at + 4 :])
    damage = find_damage(path_of(data))
    assert "message 8" in damage.items
    discard_damaged(data, BROKER)
    store = opened(data)
    texts = [each.message.payload for each in store.load() if isinstance(each, MessagePut)]
    assert not any(b"text 7 " in each or b"tEXT" in each for each in texts)
    messages = {each.message for each in store.load() if isinstance(each, Enqueued)}
    assert messages == {each.id for each in store.load() if isinstance(each, MessagePut)}
    store.close()


WAL_HEADER, FRAME = 32, 4_120


def frames_of(log: Path) -> int:
    with StateImage(log.with_name(STATE)) as image:
        return image.log.frames


def damaged_frame(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[WAL_HEADER + frames_of(path) * FRAME - 5_000] ^= 1
    path.write_bytes(content)


def truncated(path: Path) -> None:
    used = WAL_HEADER + frames_of(path) * FRAME
    path.write_bytes(path.read_bytes()[: used - 10_000])


@pytest.mark.parametrize("harm", [damaged_frame, truncated, Path.unlink])
def test_a_damaged_write_ahead_log_says_what_was_lost(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    data = tmp_path / "killed"
    loaded = killed(tmp_path / "data", data, ticks=19)
    log = path_of(data).with_name(f"{STATE}-wal")
    harm(log)
    with pytest.raises(CorruptError, match=r"\d+ acknowledged commits are missing") as error:
        opened(data)
    assert "--discard-damaged" in str(error.value)
    assert "rows" in str(error.value)
    damage = discard_damaged(data, BROKER)
    assert damage is not None
    assert damage.lost is not None
    store = opened(data)
    left = list(store.load())
    assert len(left) < len(loaded)
    assert not [each for each in left if each not in loaded]
    # Rows that are lost are told, and their numbers are not used again.
    assert store.seq == damage.lost.marked_seq
    store.commit([], RowBuffer.of(rows(store.seq + 1, store.seq + 1)), now=0.0)
    assert seqs(list(store.log.read()))[-1] == store.seq
    store.close()


def test_a_commit_that_was_under_way_is_no_damage(tmp_path: Path) -> None:
    loaded = killed(tmp_path / "data", tmp_path / "killed", ticks=19)
    data = tmp_path / "killed"
    log = path_of(data).with_name(f"{STATE}-wal")
    content = log.read_bytes()
    used = WAL_HEADER + frames_of(log) * FRAME
    log.write_bytes(content[:used] + content[used - FRAME : used - 200])
    store = opened(data)
    assert list(store.load()) == loaded
    store.abandon()


def test_an_unsynced_commit_is_not_missed(tmp_path: Path) -> None:
    store = lived(tmp_path / "data", ticks=5)
    store.checkpoint()
    store.finish_checkpoint()
    store.commit([Kept("a", "1", b"")], now=0.0)
    size = frames_of(path_of(tmp_path / "data").with_name(f"{STATE}-wal")) * FRAME + WAL_HEADER
    store.commit_unsynced([Kept("a", "2", b"")], now=0.0)
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    store.abandon()
    log = path_of(tmp_path / "killed").with_name(f"{STATE}-wal")
    log.write_bytes(log.read_bytes()[:size])
    again = opened(tmp_path / "killed")
    assert [each.key for each in again.load() if isinstance(each, Kept) and each.space == "a"] == [
        "1"
    ]
    again.close()


@pytest.mark.parametrize("seed", range(30))
def test_damage_of_the_checksums_alone_loses_nothing(tmp_path: Path, seed: int) -> None:
    data = tmp_path / "data"
    store = lived(data, 20)
    loaded = list(store.load())
    store.close()
    chance, path = random.Random(seed), checksum_path(path_of(data))
    match seed % 3:
        case 0:
            flip(path, chance)
        case 1:
            path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
        case _:
            path.unlink()
    store = opened(data)
    assert list(store.load()) == loaded
    store.close()
    assert opened(data).state_problems == []


def test_a_state_of_an_earlier_release_is_checked_and_gets_checksums(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lived(data, 20).close()
    checksum_path(path_of(data)).unlink()
    store = opened(data)
    assert "checksums of its pages were missing" in store.state_problems[0]
    store.close()
    again = opened(data)
    assert again.state_problems == []
    again.close()
    checksum_path(path_of(data)).unlink()
    content = bytearray(path_of(data).read_bytes())
    content[4_096 * 3 : 4_096 * 4] = bytes(4_096)
    path_of(data).write_bytes(content)
    with pytest.raises(CorruptError, match="damaged"):
        opened(data)


def test_a_page_that_the_disk_did_not_write_is_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lived(data, 20).close()
    before = path_of(data).read_bytes()
    store = opened(data)
    store.commit([Kept("places", "place 3", b"y" * 200)], now=0.0)
    store.close()
    after = path_of(data).read_bytes()
    changed = [
        page for page in range(1, len(before) // 4_096)
        if before[page * 4_096 : page * 4_096 + 4_096] != after[page * 4_096 : page * 4_096 + 4_096]
    ]  # fmt: skip
    at = changed[-1] * 4_096
    path_of(data).write_bytes(after[:at] + before[at : at + 4_096] + after[at + 4_096 :])
    assert find_damage(path_of(data)).pages == (changed[-1] + 1,)


def test_a_rebuilding_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lived(data, 20).close()
    flip(path_of(data), random.Random(3), first=8_192)
    shutil.copytree(data, tmp_path / "other")
    discard_damaged(tmp_path / "other", BROKER)
    rebuilt = path_of(data).with_name(f"{STATE}.rebuilt.partial")
    # The damaged files were being moved: the database is gone already, its checksums are not.
    shutil.copy(path_of(tmp_path / "other"), rebuilt)
    path_of(data).unlink()
    store, other = opened(data), opened(tmp_path / "other")
    assert list(store.load()) == list(other.load())
    assert not rebuilt.exists()
    store.close()
    other.close()


def test_a_backup_has_checksums_and_leaves_the_log_of_a_killed_broker_alone(
    tmp_path: Path,
) -> None:
    loaded = killed(tmp_path / "data", tmp_path / "killed", ticks=19)
    store = Store(tmp_path / "killed", BROKER, AT_ONCE)
    store.abandon()
    killed_again = tmp_path / "again"
    killed(tmp_path / "more", killed_again, ticks=19)
    opened(tmp_path / "data").backup(tmp_path / "copy")
    assert find_damage(path_of(tmp_path / "copy")).has_checksums
    copy = opened(tmp_path / "copy")
    assert list(copy.load()) == loaded
    copy.close()
    assert not find_damage(path_of(tmp_path / "copy"))


def test_a_state_in_use_can_be_checked(tmp_path: Path) -> None:
    store = lived(tmp_path)
    report = verify_store(tmp_path, BROKER)
    assert report is not None
    assert not report.state
    assert report.segments == len(store.log.segments())
    store.commit([Kept("a", "1", b"")], now=0.0)
    store.checkpoint()
    store.close()
    assert not find_damage(path_of(tmp_path))


def test_a_failed_commit_leaves_checksums_that_fit(tmp_path: Path) -> None:
    store = lived(tmp_path, 5)
    db = store._state._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages + 2}")
    number = next(store.message_ids)
    big: list[Change] = [
        MessagePut(number, message("x" * 100_000)),
        Enqueued("ann", next(store.queue_numbers), number, 1),
    ]
    with pytest.raises(Exception, match="free some space"):
        store.commit(big, now=0.0)
    store.checkpoint()
    db.execute("PRAGMA max_page_count = 100000")
    store.commit(big, now=0.0)
    store.checkpoint()
    store.finish_checkpoint()
    store.close()
    assert not find_damage(path_of(tmp_path))


def test_a_log_that_is_replaced_on_the_disk_is_not_checkpointed(tmp_path: Path) -> None:
    store = lived(tmp_path, 5)
    log = path_of(tmp_path).with_name(f"{STATE}-wal")
    content = bytearray(log.read_bytes())
    content[40:48] = bytes(8)
    log.write_bytes(content)
    with pytest.raises(CorruptError, match="is not what was written"):
        store.checkpoint()
    store.abandon()


def test_checksums_of_any_database_are_those_of_its_pages(tmp_path: Path) -> None:
    path = tmp_path / "db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (a)")
    db.executemany("INSERT INTO t VALUES (?)", [("x" * size,) for size in range(3_000)])
    db.commit()
    db.close()
    checksums = ChecksumFile(path)
    checksums.make()
    checksums.close()
    with StateImage(path) as image:
        assert (image.damaged, image.unverified) == (set(), 0)
