"""The checksums of a state's pages, in a file beside it, and a mark of its last synced commit.

Every page that a checkpoint is about to copy into the database has its sums here first. So a page
of the database is what was written if it has these sums, or if a newer version of it is in the
write-ahead log. The mark is written after each synced commit: a log that ends before it has lost
something that was acknowledged. It is not synced itself, but once a second with the checksums.
"""

import os
import struct
import threading
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nearcast.store.durable_files import sync_directory
from nearcast.store.errors import CorruptError, StoreError, told
from nearcast.store.file_access import keep_private
from nearcast.store.integrity.page_sums import LongWords, Words, page_sums
from nearcast.store.integrity.wal_frames import WalIndex, mapped_frames, read_index

MAGIC = b"nearcast sums 1\0"
_MARK = struct.Struct("<QQI4x")
_FIRST_ENTRY = len(MAGIC) + 2 * _MARK.size
_ENTRY_BYTES = 12
_PAGES_AT_ONCE = 256
"""Few enough to stay in the processor's cache."""
_INDEX_TRIES = 100
Numbers = npt.NDArray[np.int64]


class CommitMark(Struct, frozen=True):
    """The number of ticks and the last row after a synced commit."""

    ticks: int
    seq: int


class Checksums(Struct, frozen=True):
    """The content of the file."""

    mark: CommitMark | None
    entries: Words
    """The low and the high half of a sum and a check of both, for each page."""

    def is_intact(self, pages: Numbers) -> npt.NDArray[np.bool_]:
        """Return for each page whether its entry is as it was written."""
        found = self._entries_of(pages)
        return np.asarray(found[:, 2] == _checks(pages, found))

    def fits(self, pages: Numbers, sums: LongWords) -> npt.NDArray[np.bool_]:
        """Return for each page whether it has the sum that was written."""
        return np.asarray((self._entries_of(pages)[:, :2] == _halves(sums)).all(axis=1))

    def _entries_of(self, pages: Numbers) -> Words:
        """Return the entries of pages; zeros, which no entry is, where there is none."""
        found = np.zeros((len(pages), 3), np.uint32)
        known = pages <= len(self.entries)
        found[known] = self.entries[pages[known] - 1]
        return found


def checksum_path(database: Path) -> Path:
    """Return where the checksums of a database are."""
    return database.with_name(f"{database.name}-sums")


def read_checksums(database: Path) -> Checksums | None:
    """Return the checksums of a database; None if it has none."""
    path = checksum_path(database)
    with told(path, "reading it"):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
    if data[: len(MAGIC)] != MAGIC or len(data) < _FIRST_ENTRY:
        return None
    marks = [_mark(data[at : at + _MARK.size]) for at in (len(MAGIC), len(MAGIC) + _MARK.size)]
    newest = max((each for each in marks if each), key=lambda each: each.ticks, default=None)
    count = (len(data) - _FIRST_ENTRY) // _ENTRY_BYTES
    entries = np.frombuffer(data, "<u4", count * 3, _FIRST_ENTRY).reshape(count, 3)
    return Checksums(newest, entries.astype(np.uint32))


class ChecksumFile:
    """Keeps the checksums of an open database up to date; for one process."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = checksum_path(database)
        self._log = database.with_name(f"{database.name}-wal")
        self._index = database.with_name(f"{database.name}-shm")
        self._absorbed = WalIndex(0, (0, 0))
        """The end of the write-ahead log up to which all pages have their sums here."""
        self._lock = threading.Lock()
        self._opened: dict[Path, int] = {}
        """Files of the database that were opened: closing one would release SQLite's locks."""
        with told(self._path, "opening it"):
            keep_private(self._path)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def make(self) -> None:
        """Make the checksums anew, from the pages of the database without those of the log."""
        with told(self._path, "writing it"):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, MAGIC.ljust(_FIRST_ENTRY, b"\0"), 0)
            database = self._open(self._database)
            page_bytes = page_size(os.pread(database, 100, 0))
            first = 1
            while data := os.pread(database, page_bytes * _PAGES_AT_ONCE, (first - 1) * page_bytes):
                words = words_of(data, page_bytes)
                self._put(np.arange(first, first + len(words)), page_sums(words))
                first += max(1, len(words))
            os.fsync(self._descriptor)
            sync_directory(self._path.parent)

    def _open(self, path: Path) -> int:
        """Return a descriptor of a file of the database, which stays open."""
        found = self._opened.get(path)
        if found is None:
            found = self._opened[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return found

    def absorb(self) -> None:
        """Note the checksums of all committed pages in the write-ahead log, and sync them.

        To be called before a checkpoint. Raises `StoreError` if that fails.
        """
        with self._lock, told(self._path, "writing it"):
            for _ in range(_INDEX_TRIES):
                end = read_index(self._open(self._index))
                if end is not None:
                    break
            else:
                raise StoreError(f"{self._index} changes too fast to be read")
            first = self._absorbed.frames if end.salts == self._absorbed.salts else 0
            if first < end.frames:
                page_bytes = page_size(os.pread(self._open(self._database), 100, 0))
                self._put_newest(*mapped_frames(self._log, page_bytes, first, end))
                os.fsync(self._descriptor)
            self._absorbed = end

    def _put_newest(self, pages: Numbers, contents: LongWords) -> None:
        """Write the entries of pages; of several versions the last counts."""
        newest, places = np.unique(pages[::-1], return_index=True)
        places = len(pages) - 1 - places
        for at in range(0, len(newest), _PAGES_AT_ONCE):
            part = slice(at, at + _PAGES_AT_ONCE)
            self._put(newest[part], page_sums(contents[places[part]]))

    def mark(self, ticks: int, seq: int) -> None:
        """Note a commit that is synced."""
        head = struct.pack("<QQ", ticks, seq)
        at = len(MAGIC) + (ticks & 1) * _MARK.size
        # Without a mark less would be known after a fault, but the commit stands.
        with suppress(OSError):
            os.pwrite(self._descriptor, head + struct.pack("<I4x", zlib.crc32(head)), at)

    def discard(self) -> None:
        """Remove the file: later changes of the database are not in it."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the database must be closed before."""
        for descriptor in (self._descriptor, *self._opened.values()):
            os.close(descriptor)
        self._opened.clear()

    def _put(self, pages: Numbers, sums: LongWords) -> None:
        """Write the entries of pages, which are in order."""
        if not len(pages):
            return
        table = np.empty((len(pages), 3), "<u4")
        table[:, :2] = _halves(sums)
        table[:, 2] = _checks(pages, table)
        breaks = np.flatnonzero(np.diff(pages) != 1) + 1
        for run, first in zip(np.split(table, breaks), pages[[0, *breaks]].tolist(), strict=True):
            os.pwrite(self._descriptor, run.tobytes(), _FIRST_ENTRY + (first - 1) * _ENTRY_BYTES)


def page_size(header: bytes) -> int:
    """Return the page size that the header of a database says; raises `CorruptError`."""
    if not header.startswith(b"SQLite format 3\0") or len(header) < 100:
        raise CorruptError("the file does not begin as a database does")
    (size,) = struct.unpack_from(">H", header, 16)
    size = 65_536 if size == 1 else int(size)
    if size < 512 or size & (size - 1):
        raise CorruptError(f"the file says that its pages have {size} bytes")
    return size


def is_write_ahead(database: Path) -> bool:
    """True if a database that is not open says that it has a write-ahead log."""
    with database.open("rb") as file:
        return file.read(20)[18:] == b"\2\2"


def words_of(data: bytes, page_bytes: int) -> LongWords:
    """Return pages as rows of words; an incomplete page is left out."""
    count = len(data) // page_bytes
    table = np.frombuffer(data, "<u8", count * page_bytes // 8).reshape(count, page_bytes // 8)
    return table.astype(np.uint64, copy=False)


def _halves(sums: LongWords) -> Words:
    halves = np.stack((sums & np.uint64(0xFFFF_FFFF), sums >> np.uint64(32)), axis=1)
    return halves.astype(np.uint32)


def _checks(pages: Numbers, sums: Words) -> Words:
    numbers = pages.astype(np.uint32) * np.uint32(0xC2B2AE3D)
    first, second = sums[:, 0].astype(np.uint32), sums[:, 1].astype(np.uint32)
    found: Words = numbers ^ (first * np.uint32(0x9E3779B1)) ^ (second * np.uint32(0x85EBCA77))
    return found


def _mark(data: bytes) -> CommitMark | None:
    ticks, seq, check = _MARK.unpack(data)
    return CommitMark(ticks, seq) if zlib.crc32(data[:16]) == check else None
