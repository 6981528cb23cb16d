"""Frames of SQLite's write-ahead log, verified by their chain of checksums.

SQLite ignores all frames after the first whose checksum is wrong, without a word; here that place
is found. The format is documented by SQLite.
"""

import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nearcast.store.errors import CorruptError
from nearcast.store.integrity.page_sums import (
    LongWords,
    SumChain,
    Sums,
    Words,
    sums_of,
    weights,
)

HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
ByteOrder = Literal["<", ">"]
_MAGICS: dict[int, ByteOrder] = {0x377F0682: "<", 0x377F0683: ">"}
_SHARED = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
_AT_ONCE = 1_024
"""Frames that are verified at once."""
_INDEX_HEADER = struct.Struct("=12x4xI4x2I2I8x")
"""The header of SQLite's index of the log: last frame, its sums, salts; in the machine's order."""


class Frames(Struct, frozen=True):
    """Committed versions of pages."""

    pages: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    """Where their content begins in the file."""


class WalIndex(Struct, frozen=True):
    """What a process that uses a log knows of its end."""

    frames: int
    salts: Sums


class WalReader:
    """Reads the committed frames of a write-ahead log, each once; it may grow meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._salts: Sums | None = None
        self._begin(4_096, (0, 0), "<")

    def _begin(self, page_bytes: int, sums: Sums, order: ByteOrder) -> None:
        self.page_bytes = page_bytes
        self.frames = 0
        """Committed frames that were read."""
        self.commits = 0
        self.page_count = 0
        """The size of the database after the last commit, in pages."""
        self._sums = sums
        self._order = order
        self._chain = SumChain((8 + page_bytes) // 4)

    def read(self) -> Iterator[Frames]:
        """Yield the frames that were committed since the last call, many at a time."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            self._salts = None
            return
        try:
            if self._read_header(os.pread(descriptor, HEADER_BYTES, 0)):
                yield from self._read_frames(descriptor)
        finally:
            os.close(descriptor)

    def frames_left(self) -> tuple[int, int]:
        """Return the frames and commits of this log after the last committed one that is valid.

        A few may be of a commit that was under way; otherwise a frame among them is damaged.
        """
        if self._salts is None:
            return 0, 0
        frames = commits = 0
        step = FRAME_HEADER_BYTES + self.page_bytes
        with self._path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for at in range(HEADER_BYTES + self.frames * step, size - FRAME_HEADER_BYTES + 1, step):
                file.seek(at)
                _, after, *salts = struct.unpack(">4I", file.read(16))
                if tuple(salts) == self._salts:
                    frames += 1
                    commits += after > 0
        return frames, commits

    def _read_header(self, header: bytes) -> bool:
        """Note the header; begin anew if the log was begun anew; False if there is none."""
        salts = None
        if len(header) == HEADER_BYTES:
            magic, _, page_bytes, _, *salts, first, second = struct.unpack(">8I", header)
            order = _MAGICS.get(magic)
            if order is not None and page_bytes >= 512 and not page_bytes & (page_bytes - 1):
                words = _words(header[:24], order)
                if tuple(sums_of(words.reshape(1, -1))[0].tolist()) == (first, second):
                    if (salts[0], salts[1]) != self._salts:
                        self._salts = salts[0], salts[1]
                        self._begin(page_bytes, (first, second), order)
                    return True
        self._salts = None
        return False

    def _read_frames(self, descriptor: int) -> Iterator[Frames]:
        step = FRAME_HEADER_BYTES + self.page_bytes
        waiting: list[Frames] = []
        at, sums = self.frames, self._sums
        while True:
            data = os.pread(descriptor, step * _AT_ONCE, HEADER_BYTES + at * step)
            count = len(data) // step
            if not count:
                return
            valid, after, chain, found = self._verified(data[: count * step], at, sums)
            if commits := np.flatnonzero(after[:valid]).tolist():
                # Only whole commits count: what follows the last is read again.
                last = commits[-1] + 1
                self.frames, self._sums = at + last, chain[last - 1]
                self.commits += len(commits)
                self.page_count = int(after[last - 1])
                yield from waiting
                yield _part(found, 0, last)
                waiting = [_part(found, last, valid)]
            else:
                waiting.append(_part(found, 0, valid))
            if valid < count or count < _AT_ONCE:
                return
            at, sums = at + valid, chain[-1]

    def _verified(
        self, data: bytes, at: int, sums: Sums
    ) -> tuple[int, npt.NDArray[np.int64], list[Sums], Frames]:
        """Return the number of valid frames, the sizes after commits, and the chain of sums."""
        assert self._salts is not None
        step = FRAME_HEADER_BYTES + self.page_bytes
        count = len(data) // step
        table = _words(data, self._order).reshape(count, -1)
        heads = _words(data, ">").reshape(count, -1)[:, :6].astype(np.int64)
        own = sums_of(table[:, 6:])
        for each, weight in enumerate(weights(table.shape[1] - 4)):
            own[:, each] += np.einsum("ij,j->i", table[:, :2], weight[:2])
        is_ours = (heads[:, 2:4] == self._salts).all(axis=1).tolist()
        chain: list[Sums] = []
        valid = 0
        told = heads[:, 4:6].tolist()
        for number, (first, second) in enumerate(own.tolist()):
            sums = self._chain.next(first, second, sums)
            if not is_ours[number] or [*sums] != told[number]:
                break
            chain.append(sums)
            valid += 1
        offsets = HEADER_BYTES + (at + np.arange(count)) * step + FRAME_HEADER_BYTES
        return valid, heads[:, 1], chain, Frames(heads[:, 0], offsets)


def read_index(descriptor: int) -> WalIndex | None:
    """Return the end of a log as its index (`-shm`) has it; None while that changes."""
    first, second = os.pread(descriptor, 48, 0), os.pread(descriptor, 48, 48)
    if len(second) < 48 or first != second:
        return None
    frames, _, _, *salts = _INDEX_HEADER.unpack(first)
    # The salts are kept as they are in the log, which is big-endian.
    one, two = struct.unpack(">2I", struct.pack("=2I", *salts))
    return WalIndex(frames, (one, two))


def mapped_frames(
    path: Path, page_bytes: int, first: int, end: WalIndex
) -> tuple[npt.NDArray[np.int64], LongWords]:
    """Map the frames from `first` to the end of a log: return pages and their contents.

    The frames were written by a process that knows their end; only their salts are compared.
    Raises `CorruptError`.
    """
    step = FRAME_HEADER_BYTES + page_bytes
    start = HEADER_BYTES + first * step
    offset = start - start % mmap.ALLOCATIONGRANULARITY
    count, start = end.frames - first, start - offset
    size = start + count * step
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size < offset + size:
            raise CorruptError(f"{path} is shorter than what was written")
        # It stays mapped as long as somebody has the contents.
        mapped = mmap.mmap(file.fileno(), size, _SHARED, mmap.PROT_READ, offset=offset)
    heads = np.frombuffer(mapped, ">u4", count * step // 4, start).reshape(count, step // 4)
    told = heads[:, :4].astype(np.int64)
    if (told[:, 2:4] != end.salts).any():
        raise CorruptError(f"{path} is not what was written")
    words = np.frombuffer(mapped, "<u8", count * step // 8, start).reshape(count, step // 8)
    return told[:, 0], words[:, FRAME_HEADER_BYTES // 8 :]


def _words(data: bytes, order: ByteOrder) -> Words:
    return np.frombuffer(data, np.dtype("u4").newbyteorder(order)).astype(np.uint32, copy=False)


def _part(frames: Frames, first: int, last: int) -> Frames:
    return Frames(frames.pages[first:last], frames.offsets[first:last])
