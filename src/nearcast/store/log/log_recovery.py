"""Recovery when a log is opened: makes its files and its manifest consistent.

A crash may leave a partial file (it is deleted), a segment without its line (its footer describes
it), a merged range beside its parts (the range is used), or dropped files (they are deleted). A
segment that is damaged or missing becomes a gap, unless the state still has its rows: then it is
written again. Every problem is reported.
"""

from pathlib import Path

from nearcast.store.durable_files import PARTIAL
from nearcast.store.errors import CorruptError, told
from nearcast.store.file_access import make_directory
from nearcast.store.log.manifest import (
    LINES,
    WHOLE,
    Gap,
    Manifest,
    Whole,
    drop_damaged_lines,
    file_sizes,
    read_manifest,
)
from nearcast.store.log.segments import Segment, describe, numbers_of

CORRUPT = ".corrupt"


def recover(directory: Path, broker: str, tail_seq: int | None) -> tuple[Manifest, list[str]]:
    """Return the manifest that matches the files, and the problems found.

    `tail_seq` is the first row that the state still has.
    """
    with told(directory, "making it"):
        make_directory(directory)
        for partial in directory.glob(f".*{PARTIAL}"):
            partial.unlink()
    return _Recovery(directory, broker).run(tail_seq)


def set_aside(path: Path) -> str:
    """Rename a damaged file so that it is not read; return its new name."""
    names = (f"_{path.name}{CORRUPT}{suffix}" for suffix in ("", *(f".{n}" for n in range(2, 999))))
    name = next(name for name in names if not path.with_name(name).exists())
    with told(path, "setting it aside"):
        path.rename(path.with_name(name))
    return name


class _Recovery:
    def __init__(self, directory: Path, broker: str) -> None:
        self.directory = directory
        self.problems: list[str] = []
        self.changed = False
        if (problem := drop_damaged_lines(directory)) is not None:
            self.problems.append(problem)
        try:
            self.manifest = read_manifest(directory, broker)
        except CorruptError as error:
            name = set_aside(directory / WHOLE)
            self.problems.append(f"{error}; set aside as {name} and made again from the segments")
            self.manifest = Manifest(directory, Whole(broker))
            self.changed = True
        self.sizes = file_sizes(directory)
        self.files = {at: name for name in self.sizes if (at := numbers_of(name)) is not None}

    def run(self, tail_seq: int | None) -> tuple[Manifest, list[str]]:
        whole = self.manifest.whole
        is_new = not (self.directory / WHOLE).exists()
        if is_new and not whole.segments and self.files:
            whole.low = min(first for first, _ in self.files)
        self._delete_dropped()
        self._adopt_ranges()
        self._lose_damaged(tail_seq)
        self._adopt_new()
        if is_new and whole.segments and whole.low > 1:
            whole.low_seq = whole.segments[0].first_seq
        if is_new or self.changed or (self.directory / LINES).exists():
            self.manifest.save()
        return self.manifest, self.problems

    def _delete_dropped(self) -> None:
        for at in [at for at in self.files if at[1] < self.manifest.whole.low]:
            self._delete(at)

    def _adopt_ranges(self) -> None:
        """Adopt merged ranges that the manifest lacks, and delete files that ranges include."""
        known = {(segment.first, segment.last) for segment in self.manifest.segments}
        for at in sorted(at for at in self.files if at[0] < at[1] and at not in known):
            found = self._described(at)
            if found is not None:
                segments = self.manifest.segments
                segments[:] = [s for s in segments if s.last < at[0] or s.first > at[1]]
                segments.append(found)
                segments.sort(key=lambda segment: segment.first)
                self.changed = True
        for segment in [s for s in self.manifest.segments if s.first < s.last]:
            at = segment.first, segment.last
            inside = [a for a in self.files if at[0] <= a[0] <= a[1] <= at[1] and a != at]
            if inside:
                self._choose(segment, inside)

    def _choose(self, merged: Segment, parts: list[tuple[int, int]]) -> None:
        """Keep a merged range if it is intact, else its parts."""
        self.changed = True
        at = merged.first, merged.last
        if at in self.files and self._described(at) is not None:
            for part in parts:
                self._delete(part)
            return
        segments = self.manifest.segments
        segments.remove(merged)
        segments += [found for part in parts if (found := self._described(part)) is not None]
        segments.sort(key=lambda segment: segment.first)

    def _lose_damaged(self, tail_seq: int | None) -> None:
        at_end = True
        for segment in reversed(self.manifest.segments.copy()):
            reason = self._problem_with(segment)
            at_end = at_end and reason is not None
            if reason is None:
                continue
            self.changed = True
            name = None
            if segment.name in self.sizes:
                name = set_aside(self.directory / segment.name)
                del self.files[segment.first, segment.last]
                reason += f"; set aside as {name}"
            if at_end and tail_seq is not None and segment.first_seq >= tail_seq:
                self.manifest.segments.remove(segment)
                reason += "; its rows are in the state and will be written again"
            else:
                self.manifest.lose(segment, reason, name)
            self.problems.append(reason)

    def _problem_with(self, segment: Segment) -> str | None:
        size = self.sizes.get(segment.name)
        path = self.directory / segment.name
        if size is None:
            return f"{path} is missing"
        if size != segment.bytes:
            return f"{path} has {size} bytes of {segment.bytes}"
        return None

    def _adopt_new(self) -> None:
        """Adopt the segments after the last one in the manifest."""
        after = self.manifest.next_number
        for at in sorted(at for at in self.files if at[0] >= after):
            found = self._described(at)
            if found is None:
                continue
            if self.manifest.last_seq >= found.first_seq:
                name = set_aside(self.directory / found.name)
                problem = f"{found.name} repeats rows from {found.first_seq} on"
                self.problems.append(f"{problem}; set aside as {name}")
                continue
            if found.first > self.manifest.next_number:
                self._note_hole(found)
            self.manifest.segments.append(found)
            self.changed = True

    def _note_hole(self, found: Segment) -> None:
        number, seq = self.manifest.next_number, self.manifest.last_seq + 1
        reason = f"segments {number} to {found.first - 1} are missing"
        if seq < found.first_seq:
            self.manifest.gaps.append(
                Gap(seq, found.first_seq - 1, reason, number, found.first - 1)
            )
        self.problems.append(reason)

    def _described(self, at: tuple[int, int]) -> Segment | None:
        path = self.directory / self.files[at]
        try:
            return describe(path)
        except CorruptError as error:
            name = set_aside(path)
            del self.files[at]
            self.problems.append(f"{error}; set aside as {name}")
            return None

    def _delete(self, at: tuple[int, int]) -> None:
        path = self.directory / self.files.pop(at)
        with told(path, "deleting it"):
            path.unlink()
