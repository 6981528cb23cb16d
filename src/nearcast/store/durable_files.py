"""Files that are either complete under their name or absent, also after a power cut.

A file is written beside its target, synced and renamed, and the directory is synced: only then is
its name valid.
"""

import fcntl
import hashlib
import os
import socket
from pathlib import Path

from nearcast.store.errors import InUseError, told
from nearcast.store.file_access import create_file
from nearcast.store.object_paths import AnyPath, ObjectPath

PARTIAL = ".partial"
_CHUNK = 1 << 20


def write_whole(path: AnyPath, data: bytes | memoryview) -> None:
    """Replace a file durably, or create it."""
    with told(path, "writing it"):
        if isinstance(path, ObjectPath):
            path.write_bytes(data)
            return
        partial = beside(path)
        try:
            with os.fdopen(create_file(partial), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            put_in_place(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def beside(path: Path) -> Path:
    """Return the temporary name of a file; Spark ignores names that begin with a dot."""
    return path.with_name(f".{path.name}{PARTIAL}")


def sync_file(path: Path) -> None:
    """Make a written file's bytes durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(partial: Path, path: Path) -> None:
    """Rename a written and synced file to its final name, and sync the directory."""
    partial.rename(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    sync_file(path)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class ProcessLock:
    """A lock file held by one process; it is released when the process ends, in any way."""

    def __init__(self, path: Path) -> None:
        with told(path, "locking it"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._descriptor, 200, 0).decode("utf-8", "replace").strip()
                os.close(self._descriptor)
                raise InUseError(
                    f"{path.parent} is in use by {holder or 'another process'}; a broker's data "
                    "belongs to one process: stop that one, or give this broker another name"
                ) from None
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {_host()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _host() -> str:
    return socket.gethostname() or "this machine"
