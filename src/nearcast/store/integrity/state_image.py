"""The pages of a state as its files have them, without SQLite, and which are not what was written.

A page comes from the write-ahead log if a valid commit there has it, else from the database. Only
reads: what is found may be looked at before SQLite opens the files, which deletes a log when it is
done with it.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nearcast.store.errors import CorruptError, told
from nearcast.store.integrity.btree import Tree, TreeRow
from nearcast.store.integrity.checksum_file import (
    CommitMark,
    page_size,
    read_checksums,
    words_of,
)
from nearcast.store.integrity.page_sums import page_sums
from nearcast.store.integrity.wal_frames import WalReader

_LOCK_BYTE = 0x4000_0000
"""SQLite leaves the page with this byte unused."""
_PAGES_AT_ONCE = 4_096


class StateImage:
    """An image of a state's files; a context manager. Raises `CorruptError` if there is none."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self._files: list[BinaryIO] = []
        self._in_log: dict[int, int] = {}
        """Where the newest version of a page is in the write-ahead log."""
        self.damaged: set[int] = set()
        """Pages that are not what was written."""
        self.unverified = 0
        """Pages whose checksums are missing or damaged themselves."""
        self.mark: CommitMark | None = None
        self.has_checksums = False
        try:
            with told(database, "reading it"):
                self._files.append(database.open("rb"))
                self.page_bytes = page_size(self._files[0].read(100))
                self._read_log()
                self.page_count = self._read_page_count()
                self._verify()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "StateImage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def page(self, number: int) -> bytes:
        """Return a page; raises `CorruptError` if there is none."""
        at = self._in_log.get(number)
        file = self._files[0 if at is None else 1]
        with told(self.database, "reading it"):
            file.seek((number - 1) * self.page_bytes if at is None else at)
            data = file.read(self.page_bytes)
        if number < 1 or len(data) < self.page_bytes:
            raise CorruptError(f"{self.database} has no page {number}")
        return data

    def tables(self) -> dict[str, Tree]:
        """Return all tables by their names; without those whose description is damaged."""
        found = {}
        for row in Tree(self.page, 1, self.damaged).rows():
            if isinstance(row, TreeRow) and not row.is_damaged and row.values[0] == "table":
                name, root = row.values[1], row.values[3]
                if isinstance(name, str) and isinstance(root, int):
                    found[name] = Tree(self.page, root, self.damaged)
        return found

    def _read_log(self) -> None:
        path = self.database.with_name(f"{self.database.name}-wal")
        self.log = WalReader(path)
        for frames in self.log.read():
            self._in_log.update(zip(frames.pages.tolist(), frames.offsets.tolist(), strict=True))
        if self._in_log:
            self._files.append(path.open("rb"))

    def _read_page_count(self) -> int:
        if self.log.commits:
            return self.log.page_count
        header = self.page(1)
        (count,) = struct.unpack_from(">I", header, 28)
        return int(count)

    def _verify(self) -> None:
        """Compare the pages of the database with their checksums."""
        checksums = read_checksums(self.database)
        if checksums is None:
            return
        self.has_checksums, self.mark = True, checksums.mark
        file, first = self._files[0], 1
        file.seek(0)
        in_log = np.array(sorted(self._in_log), np.int64)
        unused = _LOCK_BYTE // self.page_bytes + 1
        while data := file.read(self.page_bytes * _PAGES_AT_ONCE):
            words = words_of(data, self.page_bytes)
            pages = np.arange(first, first + len(words))
            relevant = (pages <= self.page_count) & ~np.isin(pages, in_log) & (pages != unused)
            pages = pages[relevant]
            differ = ~checksums.fits(pages, page_sums(words)[relevant])
            intact = checksums.is_intact(pages)
            self.damaged.update(pages[differ & intact].tolist())
            self.unverified += int((differ & ~intact).sum())
            first += len(words)
        missing = range(first, self.page_count + 1)
        self.damaged.update(page for page in missing if page not in self._in_log)
