"""Paths in an object store, and what logs and snapshots need of a path of either kind.

A location is a path of this machine or a URL such as `s3://BUCKET/FOLDER`; below it lies the same
layout. An object is replaced as a whole and appears complete; nothing here needs links, renames,
locks or appends of the store. URLs and credentials in the environment are read as the tables do
(`obstore` and `deltalake` share that code). Errors of a store are `OSError`s, as those of a disk.
A process that has used a store must not fork: its threads would be missing in the child.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from nearcast.store.errors import StoreError
from nearcast.store.file_access import append_to_file

if TYPE_CHECKING:
    from obstore.store import ObjectStore, RetryConfig

RETRIES, RETRY_S = 3, 20.0
_SCHEME = "://"


class ObjectPath(Struct, frozen=True):
    """An object, or a folder of objects, with the part of `pathlib.Path` that is needed."""

    root: str
    """The URL of the location that it lies below."""
    key: str = ""
    """Its path below the root."""

    def __truediv__(self, name: str | PurePosixPath) -> "ObjectPath":
        return ObjectPath(self.root, f"{self.key}/{name}".lstrip("/"))

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    @property
    def name(self) -> str:
        """The last part of the key."""
        return PurePosixPath(self.key).name

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePosixPath(self.key).stem

    @property
    def parent(self) -> "ObjectPath":
        """The folder of this object."""
        return ObjectPath(self.root, self.key.rpartition("/")[0])

    def with_suffix(self, suffix: str) -> "ObjectPath":
        """Return the path with another suffix."""
        return ObjectPath(self.root, str(PurePosixPath(self.key).with_suffix(suffix)))

    def check_location(self) -> None:
        """Raise `StoreError` if the URL is none of an object store; asks no server."""
        _ = self._store

    def exists(self) -> bool:
        """True if there is such an object."""
        return version_of(self) is not None

    def is_dir(self) -> bool:
        """True if there are objects in this folder or below it."""
        with _told(self):
            return any(self._store.list(self.key or None, chunk_size=1))

    def read_bytes(self) -> bytes:
        """Return the content; raises `FileNotFoundError`."""
        with _told(self):
            return bytes(self._store.get(self.key).bytes())

    def write_bytes(self, data: bytes | memoryview) -> None:
        """Replace the object, or create it; readers see all of it or nothing."""
        with _told(self):
            self._store.put(self.key, bytes(data))

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; some stores do not tell whether it was there."""
        try:
            with _told(self):
                self._store.delete(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def open_parquet(self) -> IO[bytes]:
        """Return a reader of parts of the object."""
        import obstore
        import pyarrow as pa

        with _told(self):
            reader: IO[bytes] = pa.PythonFile(obstore.open_reader(self._store, self.key), "r")
        return reader

    @property
    def _store(self) -> "ObjectStore":
        return _store_at(self.root)


AnyPath = Path | ObjectPath


def path_at(location: str | AnyPath) -> AnyPath:
    """Return the path of a location: a URL is in an object store, all else on this machine."""
    if isinstance(location, str):
        found = location.rstrip("/")
        return ObjectPath(found) if _SCHEME in location else Path(location)
    return location


def names_in(directory: AnyPath) -> list[str]:
    """Return the names of files in a directory, ordered; a missing one has none."""
    if isinstance(directory, Path):
        inside = directory.iterdir() if directory.is_dir() else iter(())
        return sorted(each.name for each in inside if each.is_file())
    with _told(directory):
        found = directory._store.list_with_delimiter(directory.key or None)
    return sorted(PurePosixPath(each["path"]).name for each in found["objects"])


def folders_in(directory: AnyPath) -> list[str]:
    """Return the names of directories in a directory, ordered; a missing one has none."""
    if isinstance(directory, Path):
        inside = directory.iterdir() if directory.is_dir() else iter(())
        return sorted(each.name for each in inside if each.is_dir())
    with _told(directory):
        listed = directory._store.list_with_delimiter(directory.key or None)
    return sorted(PurePosixPath(each).name for each in listed["common_prefixes"])


def version_of(path: AnyPath) -> str | None:
    """Return a text that changes whenever a file is replaced; None if it is missing."""
    try:
        if isinstance(path, Path):
            found = path.stat()
            return f"{found.st_ino}-{found.st_mtime_ns}"
        with _told(path):
            about = path._store.head(path.key)
        return about["e_tag"] or f"{about['last_modified'].timestamp()}-{about['size']}"
    except FileNotFoundError:
        return None


def modified_at(path: AnyPath) -> float:
    """Return when a file was last replaced; raises `FileNotFoundError`."""
    if isinstance(path, Path):
        return path.stat().st_mtime
    with _told(path):
        return path._store.head(path.key)["last_modified"].timestamp()


def size_of(path: AnyPath) -> int:
    """Return the bytes of a file; raises `FileNotFoundError`."""
    if isinstance(path, Path):
        return path.stat().st_size
    with _told(path):
        return path._store.head(path.key)["size"]


def read_from(path: AnyPath, start: int) -> bytes:
    """Return the content of a file from a byte on; raises `FileNotFoundError`."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            file.seek(start)
            return file.read()
    return path.read_bytes()[start:]


def append(path: AnyPath, data: bytes) -> None:
    """Append to a small file that nobody else writes, or create it."""
    if isinstance(path, Path):
        with os.fdopen(append_to_file(path), "ab") as file:
            file.write(data)
        return
    try:
        before = path.read_bytes()
    except FileNotFoundError:
        before = b""
    path.write_bytes(before + data)


@cache
def _store_at(url: str) -> "ObjectStore":
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError:
        raise StoreError(
            f"{url}: this installation cannot reach object stores: install obstore"
        ) from None
    try:
        if url.startswith("file:"):
            return from_url(url, mkdir=True)
        retries: RetryConfig = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_S)}
        return from_url(url, retry_config=retries)
    except (BaseError, ValueError) as error:
        raise StoreError(f"{url} is no location of an object store: {_first_line(error)}") from None


@contextmanager
def _told(path: ObjectPath) -> Iterator[None]:
    """Convert an error of the store to an `OSError`."""
    from obstore.exceptions import (
        BaseError,
        NotFoundError,
        PermissionDeniedError,
        UnauthenticatedError,
    )

    try:
        yield
    except NotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", str(path)) from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, _first_line(error), str(path)) from None
    except BaseError as error:
        raise OSError(errno.EIO, _first_line(error), str(path)) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].strip()
