"""A backup: state and log of one moment, as a data directory that a broker can open.

The state is copied first, by SQLite's online backup, with the rows that no segment had; then every
segment up to the seq of that copy. Segments never change, so on the same disk they are linked
rather than copied. The directory gets its name when it is complete.
"""

import os
import shutil
from pathlib import Path

from nearcast.store.durable_files import PARTIAL, put_in_place, sync_directory, sync_file
from nearcast.store.errors import MissingError, StoreError, told
from nearcast.store.file_access import PRIVATE, create_file, make_directory
from nearcast.store.log.manifest import Manifest, Whole, read_manifest
from nearcast.store.state.state import copy_state

ATTEMPTS = 5


def back_up(source: Path, target: Path, broker: str) -> int:
    """Copy a broker's data into a new data directory; return the last seq of the copy.

    `source` is the broker's own directory, and the broker may keep running.
    """
    if not (source / "state.sqlite").is_file():
        raise StoreError(f"{source} holds no broker; name its data directory, and the broker")
    if target.exists():
        raise StoreError(f"{target} exists; a backup is a new directory")
    for _ in range(ATTEMPTS):
        try:
            return _try(source, target, broker)
        except MissingError as error:
            # A segment was merged or dropped between reading the manifest and copying.
            missing = error
    raise missing


def _try(source: Path, target: Path, broker: str) -> int:
    partial = target.with_name(target.name + PARTIAL)
    with told(target, "backing up to it"):
        shutil.rmtree(partial, ignore_errors=True)
        directory = partial / "brokers" / broker
        # Private, whatever the permissions of the original.
        partial.mkdir(PRIVATE, parents=True)
        partial.chmod(PRIVATE)
        make_directory(directory / "log")
        try:
            seq = copy_state(source / "state.sqlite", directory / "state.sqlite")
            sync_file(directory / "state.sqlite")
            _copy_log(source / "log", directory / "log", seq, broker)
            for made in (directory, directory.parent, partial):
                sync_directory(made)
            put_in_place(partial, target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return seq


def _copy_log(source: Path, directory: Path, seq: int, broker: str) -> None:
    found = read_manifest(source, broker)
    whole = Whole(broker, low=found.whole.low, low_seq=found.whole.low_seq)
    whole.segments = [segment for segment in found.segments if segment.last_seq <= seq]
    whole.gaps = [gap for gap in found.gaps if gap.last_seq <= seq]
    for segment in whole.segments:
        original, copy = source / segment.name, directory / segment.name
        try:
            os.link(original, copy)
        except FileNotFoundError:
            raise MissingError(f"{original} is gone") from None
        except OSError:
            os.close(create_file(copy))
            shutil.copyfile(original, copy)
            sync_file(copy)
    Manifest(directory, whole).save()
