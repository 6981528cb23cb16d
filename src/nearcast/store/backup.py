"""A backup: state and log of one moment, as a data directory that a broker can open.

The state is copied first, by SQLite's online backup, with the rows that no segment had; then
every segment that ends where the copy ends or before. Segments never change, so on the same
disk they are linked rather than copied. The directory has its name when all of it is there.
"""

import os
import shutil
from pathlib import Path

from nearcast.store.durable_files import PARTIAL, put_in_place, sync_directory, sync_file
from nearcast.store.errors import StoreError, told
from nearcast.store.log import Log
from nearcast.store.manifest import Manifest, Whole
from nearcast.store.state import State


def back_up(state: State, log: Log, target: Path, broker: str) -> int:
    """Write the backup and return the seq it reaches."""
    if target.exists():
        raise StoreError(f"{target} exists; a backup is a new directory")
    partial = target.with_name(target.name + PARTIAL)
    with told(target, "backing up to it"):
        shutil.rmtree(partial, ignore_errors=True)
        directory = partial / "brokers" / broker
        (directory / "log").mkdir(parents=True)
        try:
            seq = state.copy_to(directory / "state.sqlite")
            sync_file(directory / "state.sqlite")
            _copy_log(log, directory / "log", seq, broker)
            for made in (directory, directory.parent, partial):
                sync_directory(made)
            put_in_place(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return seq


def _copy_log(log: Log, directory: Path, seq: int, broker: str) -> None:
    whole = Whole(broker, low=log.low, low_seq=log.low_seq)
    whole.segments = [segment for segment in log.segments() if segment.last_seq <= seq]
    whole.gaps = [gap for gap in log.gaps() if gap.last_seq <= seq]
    for segment in whole.segments:
        source, copy = log.directory / segment.name, directory / segment.name
        try:
            os.link(source, copy)
        except OSError:
            shutil.copyfile(source, copy)
            sync_file(copy)
    Manifest(directory, whole).save()
