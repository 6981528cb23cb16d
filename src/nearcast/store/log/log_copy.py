"""A copy of a broker's log in an object store, for readers that cannot see its disk.

The copy has the layout of the log: closed segments, the manifest and the broker's snapshots. A file
is copied before the manifest names it and deleted after the manifest does not, so that a reader of
the copy sees a log that is merely a little behind. Erased segments are replaced like any that
changed. What broker and pipeline tell each other in files is carried both ways.
"""

from pathlib import Path

from msgspec.structs import replace

from nearcast.store.errors import MissingError, told
from nearcast.store.log.followers import DUE, WANTED, answer_pipeline, ask_broker, wanted_snapshot
from nearcast.store.log.manifest import FEWEST_LINES, Manifest, ManifestFiles, Whole, read_manifest
from nearcast.store.log.segments import Segment, numbers_of
from nearcast.store.log.snapshots import broker_snapshots, find_snapshots
from nearcast.store.object_paths import ObjectPath, names_in


class LogCopy:
    """The copy of one log; one process at a time copies a log."""

    def __init__(self, log: Path, copy: ObjectPath, broker: str) -> None:
        self._log = log
        self._copy = copy
        self._broker = broker
        self._files = ManifestFiles(log, broker)
        self._local: Manifest | None = None
        self._copied: Manifest | None = None
        self._due: bytes | None = None
        self._brought: int | None = None
        """The row for which the pipeline's wish for a snapshot was carried to the broker."""
        self._snapshots: set[str] | None = None
        """The broker's snapshots in the copy."""

    def update(self) -> int:
        """Copy what is new and delete what is gone; return the number of segments copied.

        Raises `StoreError`; the next call goes on where this one stopped.
        """
        self._carry_messages()
        kept = self._copy_snapshots()
        copied = self._copy_segments()
        # Last: rows that a snapshot stands for may be missing only once the copy has a later one.
        self._delete_snapshots(kept)
        return copied

    def delete_strangers(self) -> None:
        """Delete segments of the copy that its manifest does not name: an update was cut short."""
        named = {segment.name for segment in self._manifest_of_copy().segments}
        with told(self._copy, "listing it"):
            for name in names_in(self._copy):
                if numbers_of(name) is not None and name not in named:
                    (self._copy / name).unlink(missing_ok=True)

    def _copy_segments(self) -> int:
        local = self._files.read() if self._local is None else self._files.refresh(self._local)
        self._local = local
        copied = self._manifest_of_copy()
        if local.whole == copied.whole:
            return 0
        known = {segment.name: segment for segment in copied.segments}
        new = [each for each in local.segments if known.get(each.name) != each]
        for segment in new:
            self._copy_file(segment)
            if segment.name in known:
                # Erased: a reader that finds other bytes than the manifest says looks at it again,
                # but not for long.
                at = copied.segments.index(known[segment.name])
                copied.segments[at] = segment
                copied.save()
        old = [known[name] for name in known.keys() - {each.name for each in local.segments}]
        added = [each for each in new if each.name not in known]
        if len(added) < FEWEST_LINES and _is_longer(local.whole, copied.whole, added):
            for segment in added:
                copied.append(segment)
        else:
            whole = replace(local.whole, segments=list(local.segments), gaps=list(local.gaps))
            self._copied = copied = Manifest(self._copy, whole)
            copied.save()
        for segment in old:
            path = self._copy / segment.name
            with told(path, "deleting it"):
                path.unlink(missing_ok=True)
        return len(new)

    def _copy_file(self, segment: Segment) -> None:
        path = self._copy / segment.name
        with told(path, "copying it"):
            try:
                data = (self._log / segment.name).read_bytes()
            except FileNotFoundError:
                # Merged or dropped since: the manifest will say so.
                self._local = None
                raise MissingError(f"{self._log / segment.name} is missing") from None
            path.write_bytes(data)

    def _manifest_of_copy(self) -> Manifest:
        if self._copied is None:
            self._copied = read_manifest(self._copy, self._broker)
        return self._copied

    def _copy_snapshots(self) -> set[str]:
        """Copy new snapshots of the broker, and return the names of all that it has."""
        directory, target = broker_snapshots(self._log), broker_snapshots(self._copy)
        if self._snapshots is None:
            self._snapshots = {each.path.name for each in find_snapshots(target)}
        found = {each.path.name for each in find_snapshots(directory)}
        for name in found - self._snapshots:
            with told(target / name, "copying it"):
                (target / name).write_bytes((directory / name).read_bytes())
            self._snapshots.add(name)
        return found

    def _delete_snapshots(self, kept: set[str]) -> None:
        assert self._snapshots is not None
        for name in self._snapshots - kept:
            path = broker_snapshots(self._copy) / name
            with told(path, "deleting it"):
                path.unlink(missing_ok=True)
            self._snapshots.discard(name)

    def _carry_messages(self) -> None:
        """Carry what the broker waits for to the copy, and what the pipeline wants from there."""
        path = self._log / DUE
        due = path.read_bytes() if path.exists() else None
        if due is not None and due != self._due:
            with told(self._copy / DUE, "writing it"):
                (self._copy / DUE).write_bytes(due)
            self._due = due
        if self._brought is not None and not (self._log / WANTED).exists():
            # The broker has written its snapshot, which must be there before this is taken back.
            self._copy_snapshots()
            answer_pipeline(self._copy)
            self._brought = None
        wanted = wanted_snapshot(self._copy)
        if wanted is not None and wanted != self._brought:
            ask_broker(self._log, wanted)
            self._brought = wanted


def _is_longer(local: Whole, copied: Whole, new: list[Segment]) -> bool:
    """True if a manifest is another with some segments appended."""
    before = replace(local, segments=local.segments[: len(local.segments) - len(new)])
    return before == copied
