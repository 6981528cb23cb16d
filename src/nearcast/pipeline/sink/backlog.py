"""The backlog of a broker: rows on disk that wait until the broker has them.

Tasks write rows to part files, which count once an entry names them. An entry is an epoch of a
query; entries are numbered, and sent in that order. What an entry names is durable before `add`
returns. Parts that no entry names, of tasks that were tried again or of epochs that did not
finish, are deleted.
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

import msgspec
from msgspec import Struct

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.sink.sink_options import SinkPart
from nearcast.store.durable_files import sync_directory, write_whole
from nearcast.store.file_access import create_file, make_directory
from nearcast.wire.handover import HandedRow, Packer

FORM = 1
"""The format version of entries and parts."""
PARTS = "parts"
LONG_S = 86_400.0
"""A part of another query that no entry has named for so long is of one that is no more."""
_LENGTH_BYTES = 4
_UNCUT = 1 << 30
"""Chunks are not cut here: how large a packet may be is the broker's to say."""


class Entry(Struct, frozen=True):
    """An epoch of a query that waits for a broker."""

    query: str
    epoch: int
    parts: tuple[str, ...]
    """Names of part files, in the order of their partitions."""
    rows: int
    size: int
    """The bytes of all parts."""
    since: float
    number: int
    """The place in the order of sending."""
    form: int = FORM


class BacklogStatus(Struct, frozen=True):
    """What waits for a broker, since when, and why."""

    broker: str
    rows: int = 0
    bytes: int = 0
    since: float | None = None
    """The time of the oldest entry."""
    problem: str = ""
    """Why the last attempt to send failed; empty if it did not."""
    full: bool = False
    """True while a query waits for room."""
    dropped_rows: int = 0
    """Rows that were dropped for room, since the pipeline started."""


class Backlog:
    """The entries for one broker; its user serialises the calls."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        make_directory(directory)
        make_directory(directory / PARTS)
        self.rows = self.size = 0
        """The number and the bytes of the rows that wait."""
        self._entries: dict[int, Entry] = {}
        self._by_epoch: dict[tuple[str, int], Entry] = {}
        for entry in _entries(directory):
            self._take(entry)
        self._next = max(self._entries, default=0) + 1

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, entry: Entry) -> bool:
        return entry.number in self._entries

    @property
    def first(self) -> Entry | None:
        """The entry to be sent next."""
        return next(iter(self._entries.values()), None)

    def add(self, parts: Iterable[SinkPart]) -> Entry:
        """Add an epoch of a query, or return its entry if it was added before.

        Parts of the query that no entry names are deleted.
        """
        found = sorted(parts, key=lambda part: part.partition)
        query, epoch = found[0].query, found[0].epoch
        names = tuple(map(part_name, found))
        entry = self._by_epoch.get((query, epoch))
        if entry is None:
            sync_directory(self.directory / PARTS)
            size = sum((self.directory / PARTS / name).stat().st_size for name in names)
            rows = sum(part.rows for part in found)
            entry = Entry(query, epoch, names, rows, size, time.time(), self._next)
            write_whole(self._path(entry), msgspec.json.encode(entry))
            self._take(entry)
            self._next += 1
        self._delete_unnamed(query)
        return entry

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """Yield the chunks of an entry's rows, in order."""
        for name in entry.parts:
            yield from read_chunks(self.directory / PARTS / name)

    def remove(self, entry: Entry) -> None:
        """Delete an entry."""
        if self._entries.pop(entry.number, None) is not None:
            del self._by_epoch[entry.query, entry.epoch]
            self.rows -= entry.rows
            self.size -= entry.size
        # The entry first: what it named is then of no use.
        self._path(entry).unlink(missing_ok=True)
        for name in entry.parts:
            (self.directory / PARTS / name).unlink(missing_ok=True)

    def _take(self, entry: Entry) -> None:
        self._entries[entry.number] = entry
        self._by_epoch[entry.query, entry.epoch] = entry
        self.rows += entry.rows
        self.size += entry.size

    def _path(self, entry: Entry) -> Path:
        return self.directory / f"{entry.number:012d}.json"

    def _delete_unnamed(self, query: str) -> None:
        """Delete the parts that no entry names, of a query and of any that has long ended."""
        named = {part for entry in self._entries.values() for part in entry.parts}
        own, old = f"{_digest(query)}-", time.time() - LONG_S
        for path in (self.directory / PARTS).iterdir():
            if path.name not in named and (path.name.startswith(own) or path.stat().st_mtime < old):
                path.unlink(missing_ok=True)


class PartWriter:
    """Writes the rows of one task for one broker to a part file."""

    def __init__(self, directory: Path, part: SinkPart) -> None:
        self._part = part
        self._packer = Packer(_UNCUT)
        self._rows = self._chunks = 0
        parts = directory / PARTS
        make_directory(directory)
        make_directory(parts)
        self._file = os.fdopen(create_file(parts / part_name(part)), "wb")

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, rows: Iterable[HandedRow]) -> None:
        """Write rows."""
        for row in rows:
            self._rows += 1
            self._write(self._packer.add(row))

    def finish(self) -> SinkPart:
        """Make the part durable, and return it."""
        self._write(self._packer.rest())
        self._file.flush()
        os.fsync(self._file.fileno())
        return msgspec.structs.replace(self._part, packets=self._chunks, rows=self._rows)

    def _write(self, packets: Iterable[bytes]) -> None:
        for packet in packets:
            self._file.write(chunk_bytes(packet))
            self._chunks += 1


def part_name(part: SinkPart) -> str:
    """Return the file name of a part."""
    return f"{_digest(part.query)}-{part.epoch}-{part.partition}-{part.attempt}"


def _digest(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:16]


def _entries(directory: Path) -> Iterator[Entry]:
    for path in sorted(directory.glob("*.json")):
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=Entry)
        except msgspec.MsgspecError as error:
            raise PipelineError(
                f"{path} cannot be read: {error}; restore it, or delete it to give up its rows"
            ) from None
        if entry.form > FORM:
            raise PipelineError(
                f"{path} was written by a later release (form {entry.form}; this one knows {FORM})"
            )
        yield entry


def chunk_bytes(packet: bytes) -> bytes:
    """Return the form of a packet in a part: its length instead of the mark that it is whole."""
    return (len(packet) - 1).to_bytes(_LENGTH_BYTES) + packet[1:]


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the chunks of a part; raises `PipelineError` if it is damaged."""
    with path.open("rb") as file:
        while head := file.read(_LENGTH_BYTES):
            length = int.from_bytes(head)
            chunk = file.read(length)
            if len(head) < _LENGTH_BYTES or len(chunk) < length:
                raise PipelineError(f"{path} is damaged: it ends within a chunk")
            yield chunk
