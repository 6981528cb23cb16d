"""A disk in virtual time: a real store whose commits take time, and which can lose power.

Ticks that arrive during a commit are the next commit, as with the real broker. A tick that promises
nothing may be synced later: it survives the end of the process, but perhaps not a power cut.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct

from nearcast.broker.durability.commit_gate import OnCommit
from nearcast.broker.durability.journal import Entries, joined
from nearcast.simulation.file_faults import Files
from nearcast.simulation.virtual_clock import Alarm, VirtualClock
from nearcast.store import LogSettings, Store

SYNC_EVERY_S = 5.0
VOLATILE = "-shm"
"""How the names of files end that no power cut leaves."""
Waiting = tuple[Entries, OnCommit | None]
FilesLeft = Callable[[Files, Files], Files]
"""Returns what a disk has after a power cut, from its files before and after a write."""


class DiskQuality(Struct, frozen=True):
    """The duration of a commit, and how often the log is rolled."""

    least_commit_s: float = 0.001
    most_commit_s: float = 0.010
    roll_s: float = 5.0


class VirtualDisk:
    """Stores the ticks of a broker, until it crashes."""

    def __init__(
        self, clock: VirtualClock, directory: Path, broker: str, quality: DiskQuality
    ) -> None:
        self._clock = clock
        self._chance: Random = clock.chance(f"{broker}/disk/{clock.elapsed_s}")
        self._quality = quality
        self.store = Store(directory, broker, LogSettings(roll_s=quality.roll_s))
        self._waiting: list[Waiting] = []
        self._writing: list[Waiting] = []
        self._alarm: Alarm | None = None
        self._swept_at = clock.now()
        self._unsynced: list[Entries] = []
        """Written but not synced: lost if the power is cut now."""

    @property
    def idle(self) -> bool:
        """True if all submitted ticks are written."""
        return not (self._waiting or self._writing)

    def submit(self, entries: Entries, done: OnCommit | None = None) -> None:
        """Commit a tick; `done` is called once it is on disk."""
        self._waiting.append((entries, done))
        if not self._writing:
            self._begin()

    def flush(self) -> None:
        """Commit all written ticks to the store."""
        self._keep([], self._unsynced)
        self._unsynced = []

    def sweep(self) -> None:
        """Sync ticks without waiters from time to time, and write a segment of the log if due."""
        now = self._clock.now()
        if self.idle and now - self._swept_at >= SYNC_EVERY_S:
            self._swept_at = now
            self.flush()
            self.store.roll(now)
            self.store.finish_checkpoint()

    def stop(self) -> None:
        """Commit everything, and close the store."""
        self._halt()
        for entries, _ in [*self._writing, *self._waiting]:
            self._unsynced.append(entries)
        self.flush()
        self.store.close()

    def crash(self, *, power_cut: bool) -> None:
        """Stop at once: ticks reported as on disk are kept, others may be."""
        self._halt()
        survives = len(self._unsynced)
        if power_cut:
            survives = self._chance.randint(0, survives)
        if survives == len(self._unsynced) and self._chance.random() < 0.5:
            # The commit in progress got through, without being reported.
            self._unsynced += [entries for entries, _ in self._writing]
            survives = len(self._unsynced)
        self._keep([], self._unsynced[:survives])
        self.store.abandon()

    def lose_power(self, left: FilesLeft, *, in_checkpoint: bool) -> None:
        """Lose power in the middle of a commit or a checkpoint; `left` says what is on the disk."""
        self._halt()
        directory = self.store.directory
        before = read_files(directory)
        if in_checkpoint:
            self.store.finish_checkpoint()
        else:
            self._keep(self._unsynced, [entries for entries, _ in self._writing])
        after = read_files(directory)
        self.store.abandon()
        _write_files(directory, left(before, after))

    def _begin(self) -> None:
        self._writing, self._waiting = self._waiting, []
        quality = self._quality
        takes_s = 0.0
        if any(entries for entries, _ in self._writing):
            takes_s = self._chance.uniform(quality.least_commit_s, quality.most_commit_s)
        self._alarm = self._clock.after(takes_s, self._finish)

    def _finish(self) -> None:
        written, self._writing = self._writing, []
        entries = [each for each, _ in written if each]
        if any(each.must_sync for each in entries):
            self._keep(self._unsynced, entries)
            self._unsynced = []
        else:
            self._unsynced += entries
        if self._waiting:
            self._begin()
        for _, done in written:
            if done is not None:
                done()

    def _keep(self, before: Sequence[Entries], entries: Sequence[Entries]) -> None:
        together = joined([*before, *entries])
        if together:
            self.store.commit(together.changes, together.rows, now=self._clock.now())

    def _halt(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()


def read_files(directory: Path) -> dict[str, bytes]:
    """Return all files below a directory, as a power cut could leave them."""
    paths = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in paths
        if not path.name.endswith(VOLATILE)
    }


def _write_files(directory: Path, files: Files) -> None:
    """Replace all files below a directory."""
    for path in directory.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
