"""Snapshots of players: the inputs in force after a row of a log, so that no row before is needed.

The pipeline saves them, and a broker writes one when it is asked; any of them gives the same
decisions. Beside one that the pipeline saved lies the compiled player, which is only a cache. The
players of shards save a part each; from all parts, players of any number of shards can be loaded.
"""

import logging
from pathlib import Path, PurePosixPath

from msgspec import Struct

from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.logs import log_event
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.decide.player_cache import load_compiled, save_compiled
from nearcast.pipeline.source.row_inputs import Unusable
from nearcast.store import (
    AnyPath,
    CorruptError,
    Row,
    SnapshotFile,
    SnapshotHead,
    UpgradeError,
    asked_snapshot,
    broker_snapshots,
    brokers_in,
    erase_from_snapshot,
    find_parts,
    find_snapshots,
    follower_of,
    log_directory,
    names_in,
    path_at,
    read_snapshot,
    read_standing_rows,
    write_snapshot,
)
from nearcast.store.file_access import make_directory
from nearcast.store.object_paths import folders_in

DIRECTORY = PurePosixPath("checkpoints/snapshots")
KEPT = 3
"""The number of snapshots kept for each broker, the newest ones."""
COMPILED = ".player"
UNDECIDED = ".undecided"
EARLIER = ".snapshot"
"""Files of earlier releases, which only the release that wrote them could read."""

log = logging.getLogger("nearcast.pipeline")


class Snapshots(Struct, frozen=True):
    """The snapshots of one broker's log, for one shard: the pipeline's own, and the broker's."""

    own: AnyPath
    log: AnyPath
    shard: Shard = WHOLE

    @staticmethod
    def of(location: str, broker: str, shard: Shard = WHOLE) -> "Snapshots":
        """The snapshots of a broker in a data directory, or in its copy at a URL."""
        root = path_at(location)
        log = log_directory(root, broker)
        return Snapshots(root / DIRECTORY / broker, log, shard)

    def is_due(self, seq: int) -> bool:
        """True if the broker waits for a snapshot up to `seq`, to drop the rows before it."""
        return self.newest() < asked_snapshot(self.log) <= seq

    def newest(self, most: int | None = None) -> int:
        """The seq of the newest snapshot, up to `most`; 0 if there is none."""
        found = (each.seq for each in self._found() if most is None or each.seq <= most)
        return max(found, default=0)

    def save(self, player: Player) -> AnyPath:
        """Write a snapshot of a player, remove outdated ones, and return its path.

        It is one part if the player has a shard; all shards save theirs at the same seq.
        """
        shard, inputs = player.shard, player.in_force()
        head = SnapshotHead(player.broker, player.seq, part=shard.number, parts=shard.of)
        path = write_snapshot(self.own, head, inputs.of_sessions() if shard.number else inputs)
        save_compiled(path.with_suffix(COMPILED), player)
        self._prune()
        return path

    def load(self, most: int) -> Player | None:
        """Load the newest player that has applied no row after `most`; None if there is none."""
        return self._first_readable([each for each in reversed(self._found()) if each.seq <= most])

    def load_after(self, least: int) -> Player | None:
        """Load the first player that has applied all rows up to `least`; None if there is none."""
        return self._first_readable([each for each in self._found() if each.seq >= least])

    def standing_rows(self, kind: str) -> list[Row]:
        """Return the rows of a kind that stand in the newest snapshot; none without one."""
        found = self._found()
        return read_standing_rows(found[-1].path, kind) if found else []

    def note_undecided(self, rows: Unusable) -> None:
        """Note rows on which nothing could be decided, for the status; again has no effect."""
        if isinstance(self.own, Path):
            make_directory(self.own)
        (self.own / f"{rows.seq:015d}-{rows.last:015d}{UNDECIDED}").write_bytes(b"")

    def undecided(self) -> list[tuple[int, int]]:
        """Return the ranges of rows on which nothing could be decided, oldest first."""
        found: list[tuple[int, int]] = []
        for name in names_in(self.own):
            if not name.endswith(UNDECIDED):
                continue
            first, last = map(int, name.removesuffix(UNDECIDED).split("-"))
            if found and first <= found[-1][1] + 1:
                first, last = found[-1][0], max(last, found.pop()[1])
            found.append((first, last))
        return found

    def _found(self) -> list[SnapshotFile]:
        found = find_snapshots(self.own, broker_snapshots(self.log))
        # Of the same seq the one with a part for this shard comes last, which is the newest.
        return sorted(found, key=lambda each: (each.seq, len(each.paths) == self.shard.of))

    def _first_readable(self, files: list[SnapshotFile]) -> Player | None:
        later: UpgradeError | None = None
        for file in files:
            try:
                return _read(file, self.shard)
            except UpgradeError as error:
                later = error
            except CorruptError as error:
                # Removed meanwhile, or damaged: another one will do.
                log_event(log, logging.WARNING, "a snapshot cannot be used", why=str(error))
        if later is not None:
            raise later
        return None

    def _prune(self) -> None:
        """Remove old snapshots, but none that stands for rows which the broker may have dropped."""
        follower = follower_of(self.log)
        promised = None if follower is None else follower.snapshot
        kept = [each.seq for each in find_snapshots(self.own)][-KEPT:]
        least = min(kept if promised is None else [promised, *kept], default=0)
        for seq, path in find_parts(self.own):
            if seq < least:
                path.with_suffix(COMPILED).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
        _delete(self.own, EARLIER)


def forget_in_snapshots(location: str, node: str) -> None:
    """Rewrite all snapshots without a node, also those of brokers; delete compiled players."""
    root = path_at(location)
    own = [root / DIRECTORY / name for name in folders_in(root / DIRECTORY)]
    logs = [log_directory(root, broker) for broker in brokers_in(root)]
    for _, path in find_parts(*own, *map(broker_snapshots, logs)):
        erase_from_snapshot(path, node)
    for path in own:
        _delete(path, COMPILED, EARLIER)


def _delete(directory: AnyPath, *suffixes: str) -> None:
    for name in names_in(directory):
        if name.endswith(suffixes):
            (directory / name).unlink(missing_ok=True)


def _read(file: SnapshotFile, shard: Shard) -> Player:
    others = file.others
    if len(file.paths) == shard.of:
        compiled = load_compiled(file.paths[shard.number].with_suffix(COMPILED))
        if compiled is not None:
            return compiled
        others = (file.paths[shard.number],) if shard.number else ()
    head, inputs = read_snapshot(file.path, others, shard)
    return Player.restored(head.broker, head.seq, inputs, shard)
