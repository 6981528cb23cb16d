"""Errors of the store: what failed, which file, what was kept, and how to fix it."""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from nearcast.errors import NearcastError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_SQLITE_FORBIDDEN = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")


class StoreError(NearcastError):
    """The store could not complete a request; no part of it took effect."""


class DiskFullError(StoreError):
    """The disk is full; the request can be retried when there is space."""


class InUseError(StoreError):
    """Another process has the broker's data open."""


class CorruptError(StoreError):
    """A file does not hold what was written to it."""


class MissingError(CorruptError):
    """A file is missing."""


class UpgradeError(StoreError):
    """A later release wrote the data, and this release cannot interpret it."""


def newer(what: str, version: int, known: int) -> UpgradeError:
    """Return the error for a form that a later release wrote."""
    return UpgradeError(
        f"{what} has form {version}; this release reads up to {known}. Upgrade Nearcast to the "
        "release that wrote it, or a later one"
    )


@contextmanager
def told(path: object, doing: str) -> Iterator[None]:
    """Convert an error of the system or of SQLite about a file into a helpful `StoreError`."""
    try:
        yield
    except OSError as error:
        raise _of_system(error, path, doing) from error
    except sqlite3.Error as error:
        raise _of_sqlite(error, path, doing) from error


def _of_system(error: OSError, path: object, doing: str) -> StoreError:
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFullError(f"{path}: no room left while {doing} ({reason}); free some space")
    if error.errno in _FORBIDDEN:
        return StoreError(
            f"{path}: not permitted while {doing} ({reason}); the data directory must be "
            "writable by the broker's user"
        )
    return StoreError(f"{path}: {doing} failed ({reason})")


def _of_sqlite(error: sqlite3.Error, path: object, doing: str) -> StoreError:
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_FULL"):
        return DiskFullError(f"{path}: no room left while {doing} ({error}); free some space")
    if name.startswith(_SQLITE_FORBIDDEN):
        return StoreError(
            f"{path}: not permitted while {doing} ({error}); the data directory must be "
            "writable by the broker's user"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return CorruptError(
            f"{path}: the database is damaged ({error}), found while {doing}; it was left as it "
            "is. Restore a backup, or move it and the log beside it away to begin anew"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return InUseError(f"{path}: another program holds the database while {doing} ({error})")
    return StoreError(f"{path}: {doing} failed ({error})")
