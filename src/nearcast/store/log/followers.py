"""Followers of a log, and what broker and pipeline tell each other in files beside its segments.

The pipeline touches `_followed` repeatedly, and says in it up to which row it has a snapshot: the
broker rolls segments sooner while that file is fresh, and drops only rows that the pipeline no
longer needs. The broker says in `_snapshot_due` that it waits for a snapshot from some row on; the
pipeline says in `_snapshot_wanted` that it needs one of the broker. Nobody has to sign off.
"""

import os
import time

import msgspec
from msgspec import Struct

from nearcast.store.errors import StoreError, told
from nearcast.store.object_paths import AnyPath, ObjectPath, modified_at

FOLLOWED, DUE, WANTED = "_followed", "_snapshot_due", "_snapshot_wanted"
FRESH_S = 15.0


class Follower(Struct, frozen=True):
    """The pipeline that follows a log, or did."""

    away_s: float
    """The time since it last touched its file."""
    snapshot: int | None = None
    """The row up to which it has a snapshot; None if it does not say."""


def follow(log: AnyPath, snapshot: int) -> None:
    """Mark a log as followed, by someone who has a snapshot up to a row; failures are ignored."""
    try:
        _tell(log / FOLLOWED, snapshot)
    except StoreError:
        # A reader without write permission still follows the log, with a little more delay.
        return


def follower_of(log: AnyPath) -> Follower | None:
    """Return who follows a log; None if nobody ever did."""
    path = log / FOLLOWED
    try:
        touched = modified_at(path)
    except OSError:
        return None
    return Follower(max(0.0, time.time() - touched), _told(path))


def is_followed(log: AnyPath) -> bool:
    """True if a follower has touched its file recently."""
    follower = follower_of(log)
    return follower is not None and follower.away_s < FRESH_S


def ask_pipeline(log: AnyPath, seq: int) -> None:
    """Say that the broker waits for a snapshot at a row or after it."""
    _tell(log / DUE, seq)


def asked_snapshot(log: AnyPath) -> int:
    """Return the row from which on the broker waits for a snapshot; 0 if it waits for none."""
    return _told(log / DUE) or 0


def ask_broker(log: AnyPath, seq: int) -> None:
    """Say that the pipeline needs a snapshot of the broker, at a row or after it."""
    _tell(log / WANTED, seq)


def wanted_snapshot(log: AnyPath) -> int | None:
    """Return the row from which on the pipeline needs a snapshot; None if it needs none."""
    return _told(log / WANTED)


def answer_pipeline(log: AnyPath) -> None:
    """Note that the broker has written the snapshot that was wanted."""
    with told(log / WANTED, "removing it"):
        (log / WANTED).unlink(missing_ok=True)


def _tell(path: AnyPath, seq: int) -> None:
    data = msgspec.json.encode(seq)
    with told(path, "writing it"):
        if isinstance(path, ObjectPath):
            path.write_bytes(data)
            return
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        partial.write_bytes(data)
        partial.rename(path)


def _told(path: AnyPath) -> int | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=int)
    except (OSError, msgspec.MsgspecError):
        return None
