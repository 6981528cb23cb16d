"""The manifest: the segments of a log, its low end, and its gaps.

`_manifest.json` is replaced whole; `_manifest.jsonl` gets a line for each later segment, so that
the cost of a segment does not grow with their number. The lines are folded into the whole when they
are many. The files are redundant: a segment whose line was lost in a crash is found by its name and
described by its footer. Spark ignores names that begin with `_`. Both files have checksums, as a
last member `check` of each JSON object, which earlier releases skip.
"""

import bisect
import os
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.store.durable_files import write_whole
from nearcast.store.errors import CorruptError, StoreError, newer, told
from nearcast.store.log.sealed_json import is_intact, sealed
from nearcast.store.log.segments import Segment
from nearcast.store.object_paths import AnyPath, append, read_from, version_of

WHOLE = "_manifest.json"
LINES = "_manifest.jsonl"
FORM = 1
FEWEST_LINES = 256
"""Lines are folded in from this number on, if they are a tenth of all segments."""

_CHECK = b',"check":'
_TORN = 1 << 62
"""More lines than there can be: the next segment folds them in."""


class Gap(Struct, frozen=True):
    """Rows that the log no longer has, the reason, and the file set aside with them."""

    first_seq: int
    last_seq: int
    reason: str
    first: int = 0
    last: int = 0
    set_aside: str | None = None


class Whole(Struct):
    """The content of `_manifest.json`."""

    broker: str
    form: int = FORM
    low: int = 1
    """The lowest segment number that is retained; lower ones were dropped."""
    low_seq: int = 1
    segments: list[Segment] = []
    gaps: list[Gap] = []


class Manifest:
    """The manifest in memory, and its two files."""

    def __init__(self, directory: AnyPath, whole: Whole, lines: int = 0) -> None:
        self.directory = directory
        self.whole = whole
        self._lines = lines

    @property
    def segments(self) -> list[Segment]:
        """All segments, from the lowest number."""
        return self.whole.segments

    @property
    def gaps(self) -> list[Gap]:
        """The gaps, from the lowest seq."""
        return self.whole.gaps

    @property
    def next_number(self) -> int:
        """The number of the next segment."""
        segments, gaps = self.whole.segments, self.whole.gaps
        ends = [self.whole.low - 1, *(gap.last for gap in gaps)]
        return max(segments[-1].last if segments else 0, *ends) + 1

    @property
    def last_seq(self) -> int:
        """The last row that a segment holds or held."""
        ends = [self.whole.low_seq - 1, *(gap.last_seq for gap in self.whole.gaps)]
        return max(self.segments[-1].last_seq if self.segments else 0, *ends)

    def lose(self, segment: Segment, reason: str, set_aside: str | None) -> Gap:
        """Replace a segment by a gap."""
        self.segments.remove(segment)
        gap = Gap(
            segment.first_seq, segment.last_seq, reason, segment.first, segment.last, set_aside
        )
        bisect.insort(self.gaps, gap, key=lambda each: each.first_seq)
        return gap

    def at_seq(self, seq: int) -> int:
        """Return the index of the first segment that ends at or after `seq`."""
        return bisect.bisect_left(self.segments, seq, key=lambda each: each.last_seq)

    def at_number(self, number: int) -> int:
        """Return the index of the first segment that ends at or after `number`."""
        return bisect.bisect_left(self.segments, number, key=lambda each: each.last)

    def extend(self, segments: Iterable[Segment]) -> None:
        """Add segments that were read from lines, unless they are already included."""
        for segment in segments:
            if segment.first >= self.next_number:
                self.segments.append(segment)

    def append(self, segment: Segment) -> None:
        """Add the newest segment, whose file is in place."""
        self.segments.append(segment)
        if self._lines >= max(FEWEST_LINES, len(self.segments) // 10):
            self.save()
            return
        path, lines = self.directory / LINES, self._lines
        self._lines = _TORN
        with told(path, "adding to it"):
            append(path, sealed(msgspec.json.encode(segment)) + b"\n")
        self._lines = lines + 1

    def save(self) -> None:
        """Replace `_manifest.json` durably, and remove the lines, which it then includes."""
        write_whole(self.directory / WHOLE, sealed(msgspec.json.encode(self.whole)))
        with told(self.directory / LINES, "emptying it"):
            (self.directory / LINES).unlink(missing_ok=True)
        self._lines = 0


def read_manifest(directory: AnyPath, broker: str | None = None) -> Manifest:
    """Return the manifest from the two files; without them, an empty one of `broker`."""
    return ManifestFiles(directory, broker).read()


class ManifestFiles:
    """The two files for a reader that polls for changes."""

    def __init__(self, directory: AnyPath, broker: str | None = None) -> None:
        self._directory = directory
        self._broker = broker
        self._version: str | None = None
        self._offset = 0

    def read(self) -> Manifest:
        """Return the manifest."""
        path = self._directory / WHOLE
        with told(path, "reading it"):
            # The lines first: lines folded in meanwhile are then in the whole.
            self._offset = 0
            added = list(self._new_lines())
            self._version = version_of(path)
            data = path.read_bytes() if self._version is not None else None
        whole = Whole(self._broker or "") if data is None else self._decoded(data)
        manifest = Manifest(self._directory, whole, len(added))
        manifest.extend(added)
        return manifest

    def refresh(self, manifest: Manifest) -> Manifest:
        """Return the current manifest; costs only what is new, unless lines were folded in."""
        path = self._directory / WHOLE
        with told(path, "reading it"):
            try:
                added = list(self._new_lines())
            except CorruptError:
                # Lines were folded in and begun anew: what is at the offset now is part of one.
                return self.read()
            if self._version is not None and self._version == version_of(path):
                manifest.extend(added)
                return manifest
        return self.read()

    def _new_lines(self) -> Iterator[Segment]:
        try:
            data = read_from(self._directory / LINES, self._offset)
        except FileNotFoundError:
            return
        for line in data.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                # It is being written, or a crash tore it: recovery finds its segment by name.
                return
            segment = _segment_in(line)
            if segment is None:
                path = self._directory / LINES
                raise CorruptError(f"{path} has a damaged line; the broker repairs it at its start")
            self._offset += len(line)
            yield segment

    def _decoded(self, data: bytes) -> Whole:
        path = self._directory / WHOLE
        try:
            whole = msgspec.json.decode(data, type=Whole)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptError(f"{path} cannot be read: {error}") from None
        if not is_intact(data):
            raise CorruptError(f"{path} is not what was written: its checksum differs")
        if whole.form > FORM:
            raise newer(str(path), whole.form, FORM)
        if self._broker is not None and whole.broker != self._broker:
            raise StoreError(f"{path} is of broker {whole.broker!r}, not {self._broker!r}")
        return whole


def drop_damaged_lines(directory: Path) -> str | None:
    """Remove the first damaged line and all after it; return what was done, None if nothing.

    Their segments are found by name.
    """
    path = directory / LINES
    with told(path, "reading it"):
        if not path.exists():
            return None
        lines = path.read_bytes().splitlines(keepends=True)
    good = list(takewhile(lambda line: _segment_in(line) is not None, lines))
    if len(good) == len(lines) or not lines[len(good)].endswith(b"\n"):
        return None
    write_whole(path, b"".join(good))
    return f"{path} had a damaged line; it and {len(lines) - len(good) - 1} after it were removed"


def _segment_in(line: bytes) -> Segment | None:
    """Return the segment of a line, or None if the line is damaged."""
    try:
        segment = msgspec.json.decode(line, type=Segment)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return segment if is_intact(line) else None


def file_sizes(directory: Path) -> dict[str, int]:
    """Return the size of every file of a directory."""
    with told(directory, "listing it"), os.scandir(directory) as entries:
        return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
