"""Checking all files of a broker, and going on without what is damaged."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from nearcast.store.durable_files import ProcessLock
from nearcast.store.errors import CorruptError, InUseError, MissingError, StoreError, told
from nearcast.store.integrity.state_damage import StateDamage, find_damage
from nearcast.store.integrity.state_rebuild import discard_damage
from nearcast.store.layout import broker_directory, log_directory
from nearcast.store.log.manifest import Gap, read_manifest
from nearcast.store.log.segments import verify_segment
from nearcast.store.log.snapshots import broker_snapshots, find_snapshots, read_snapshot

STATE = "state.sqlite"


class StoreReport(Struct, frozen=True):
    """What was found in the files of a broker."""

    state: StateDamage
    segments: int
    """Segments that were checked."""
    gaps: tuple[Gap, ...]
    snapshots: int
    damaged_files: tuple[str, ...]
    """What is wrong with segments and snapshots, each with its name."""


def verify_store(data: Path, broker: str) -> StoreReport | None:
    """Check all files of a broker, which may be running; None if it has none.

    Raises `StoreError` if its state or its manifest cannot be read at all.
    """
    directory = broker_directory(data, broker)
    database = directory / STATE
    if not database.exists():
        return None
    with _held_still(directory) as in_use:
        state = find_damage(database)
        if in_use and state:
            # What a broker writes meanwhile looks damaged once, and a later mark as a loss.
            again = find_damage(database)
            is_damaged = set(again.pages) & set(state.pages)
            state = replace(again, lost=None) if is_damaged else StateDamage()
    logs = log_directory(data, broker)
    manifest = read_manifest(logs, broker)
    damaged = []
    for segment in manifest.segments:
        path = logs / segment.name
        try:
            with told(path, "reading it"):
                verify_segment(path, segment)
        except (StoreError, FileNotFoundError) as error:
            # A running broker may have dropped or merged it meanwhile.
            if path.exists() or not in_use:
                damaged.append(str(error))
    snapshots = find_snapshots(broker_snapshots(logs))
    for snapshot in snapshots:
        try:
            read_snapshot(snapshot.path, snapshot.others)
        except MissingError:
            continue
        except CorruptError as error:
            damaged.append(str(error))
    gaps = tuple(manifest.gaps)
    return StoreReport(state, len(manifest.segments), gaps, len(snapshots), tuple(damaged))


def discard_damaged(data: Path, broker: str) -> StateDamage | None:
    """Go on without what is damaged in the state of a broker that does not run.

    Returns what was discarded, None if nothing is damaged. The damaged files are set aside in a
    directory beside the state.
    """
    directory = broker_directory(data, broker)
    if not (directory / STATE).exists():
        return None
    lock = ProcessLock(directory / "lock")
    try:
        try:
            log_seq = read_manifest(log_directory(data, broker), broker).last_seq
        except CorruptError:
            # It is made anew when the log is opened.
            log_seq = 0
        return discard_damage(directory / STATE, broker, log_seq)
    finally:
        lock.release()


@contextmanager
def _held_still(directory: Path) -> Iterator[bool]:
    """Keep the state's files as they are, also while a broker uses them; yield whether it does."""
    try:
        lock = ProcessLock(directory / "lock")
    except InUseError:
        # While somebody reads, the write-ahead log is not begun anew, and no page that is read
        # from the database is overwritten.
        name = f"file:{quote(str(directory / STATE))}?mode=ro"
        db = sqlite3.connect(name, uri=True, isolation_level=None)
        try:
            with told(directory / STATE, "reading it"):
                db.execute("BEGIN")
                db.execute("SELECT seq FROM position").fetchone()
            yield True
        finally:
            db.close()
        return
    try:
        yield False
    finally:
        lock.release()
