"""The store writer: commits in a thread of its own, so that the event loop need not wait.

Ticks are submitted in order; all that were submitted during one commit form the next. The callback
of a tick is called when it is on disk. If the disk fails, the same commit is retried every second:
nothing promised is lost, and nothing new is promised. Log segments are written in a second thread.
Free space is measured here too, and old segments are dropped when there is little.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from traceback import format_exc

from nearcast.broker.config.settings import DiskSection, LogSection
from nearcast.broker.durability.disk_space import DiskCondition, DiskSpace, DiskStage
from nearcast.broker.durability.journal import Entries, Journal, joined
from nearcast.broker.durability.log_retention import LogRetention
from nearcast.broker.durability.snapshot_writer import InForce, SnapshotWriter
from nearcast.logs import log_event
from nearcast.store import Merging, Segment, Store, StoreError, is_followed

RETRY_S = 1.0
GATHER_S = 0.05
"""How long entries without a callback (QoS 0) are collected before they are committed."""
AWAIT_S = 0.001
"""How long the event loop itself waits at most for the commit of a small, lone tick."""
AWAITED_BYTES = 16_384
"""The maximum memory of a small tick."""
FAST_S = 0.000_5
"""Commits are awaited while synced ones take at most this long on average."""
CHECKPOINT_EVERY_S = 1.0
TEND_EVERY_S = 10.0
LOOK_EVERY_S = 1.0
"""How often to check whether a reader follows the log, or wants a snapshot, and the free space."""
RESTART_READS_S = 600.0
"""Rows of the last so many seconds are never dropped for want of space: a restart reads them."""

_STAGE_MEANINGS = {
    DiskStage.AMPLE: "there is enough",
    DiskStage.WARNED: "free some",
    DiskStage.RECLAIMING: "old segments of the log that nobody needs are dropped",
    DiskStage.UNRECORDED: "events of QoS 0 are not recorded",
    DiskStage.REFUSING: "messages of QoS 1 and 2 are refused",
}

log = logging.getLogger("nearcast.broker")
Done = Callable[[], None]


class StoreWriter:
    """Commits ticks in a thread of its own; `call` runs callbacks in the event loop."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], float],
        call: Callable[[Done], object],
        section: LogSection | None = None,
        in_force: InForce | None = None,
        settled: Callable[[], None] | None = None,
        disk: DiskSpace | None = None,
        disk_changed: Callable[[DiskCondition], None] | None = None,
    ) -> None:
        """`in_force` is what a snapshot consists of; without it none is written.

        `settled` is called after a segment was written, in any thread; `disk_changed` in the event
        loop when the condition of the disk has changed.
        """
        self._store = store
        self._section = LogSection() if section is None else section
        self._retention = LogRetention(store.log, self._section.keep_s)
        self._settled = settled
        self._snapshots = None if in_force is None else SnapshotWriter(store, in_force, call)
        self._merging: tuple[Merging, Future[Segment]] | None = None
        self._tend_at = 0.0
        self._looked_at = 0.0
        self._now = now
        self._call = call
        self._lock = threading.Condition()
        self._waiting: list[tuple[Entries, Done | None]] = []
        self._stopping = False
        self._erasing: list[tuple[str, Future[int]]] = []
        self._urgent = False
        """A callback waits for the submitted entries."""
        self._committing = False
        self._unanswered = 0
        """The number of callbacks still to be called."""
        self._awaited = False
        """The event loop waits for the single tick that was submitted."""
        self._answer = threading.Lock()
        self._answer.acquire()
        self.awaited_s = 0.0
        """How long the event loop itself has waited for commits, in all."""
        self._usual_s = 0.0
        """Moving average of the duration of synced commits."""
        self.waiting_bytes = 0
        """Estimated memory of entries that are not on disk yet."""
        self._failing: str | None = None
        self.problem: str | None = None
        """Why segments cannot be written now; their rows stay in the state."""
        self._disk = DiskSpace(store.directory, DiskSection()) if disk is None else disk
        self._disk_changed = disk_changed
        self.reclaimed_bytes = 0
        self._files = ThreadPoolExecutor(1, "nearcast-files")
        self._writing: Future[Segment] | None = None
        self._checkpointing: Future[None] | None = None
        self._checkpointed = now()
        self.commits = 0
        self._thread = threading.Thread(target=self._run, name="nearcast-store", daemon=True)
        self._thread.start()

    @property
    def failing(self) -> str | None:
        """Why the store cannot be written to now; None if it can."""
        return self._failing

    def submit(self, entries: Entries, done: Done | None = None) -> None:
        """Commit a tick; `done` is called in the event loop once it is on disk.

        For a small tick with none before it this happens before the return, unless the disk is
        slow: two thread switches and a loop iteration take as long as its commit.
        """
        size = entries.size
        with self._lock:
            alone = not (self._waiting or self._committing or self._unanswered)
            self._waiting.append((entries, done))
            self.waiting_bytes += size
            if done is not None:
                self._urgent = True
                self._unanswered += 1
            if self._urgent or len(self._waiting) == 1:
                self._lock.notify()
            if not alone or done is None or not entries.must_sync or size > AWAITED_BYTES:
                return
            if self._usual_s > FAST_S:
                return
            self._awaited = True
        began = time.perf_counter()
        is_committed = self._await_answer()
        self.awaited_s += time.perf_counter() - began
        if is_committed:
            self._call_all((done,))

    def _await_answer(self) -> bool:
        """Wait for the commit of the single tick that was submitted; False if it takes long."""
        if not self._answer.acquire(timeout=AWAIT_S):
            with self._lock:
                if self._awaited:
                    # The callback is called as after any other commit.
                    self._awaited = False
                    return False
            self._answer.acquire()
        return True

    def stop(self) -> None:
        """Commit all submitted entries, write the last segment, and close the store."""
        with self._lock:
            self._stopping = True
            self._lock.notify()
        self._thread.join()
        if self._snapshots is not None:
            self._snapshots.stop()
        self._files.shutdown()
        self._settle()
        if self._merging is not None:
            self._tend()
        if self._failing is None:
            self._store.close()
        else:
            self._store.abandon()

    def statistics(self) -> dict[str, float]:
        """Commits, backlog and state of the store."""
        return {
            "commits_total": self.commits,
            "waiting_ticks": len(self._waiting),
            "waiting_bytes": self.waiting_bytes,
            "failing": self._failing is not None,
            "seq": self._store.seq,
            "disk_free_bytes": self._disk.free_bytes,
            "disk_stage": int(self._disk.stage),
            "reclaimed_bytes_total": self.reclaimed_bytes,
        }

    def erase(self, node: str) -> "Future[int]":
        """Erase a node from the log, after all entries submitted so far."""
        future: Future[int] = Future()
        with self._lock:
            self._erasing.append((node, future))
            self._lock.notify()
        return future

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            # A defect of ours: nothing is acknowledged from here on, and that is said.
            what = "the writer of the store ended; restart the broker"
            log_event(log, logging.CRITICAL, what, traceback=format_exc())
            self._failing = f"a defect ended the writer of the store, restart the broker: {error!r}"
            self._tell_condition()
            with self._lock:
                erasing, self._erasing = self._erasing, []
            for _, future in erasing:
                future.set_exception(StoreError(self._failing))

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting and not self._stopping and not self._erasing:
                    self._lock.wait(self._next_wake())
                if self._waiting:
                    self._lock.wait_for(lambda: self._urgent or self._stopping, GATHER_S)
                taken, self._waiting, self._urgent = self._waiting, [], False
                self._committing = bool(taken)
                stopping = self._stopping
            if taken:
                self._commit(taken)
            elif stopping:
                return
            elif self._erasing:
                self._erase()
            self._roll()

    def _next_wake(self) -> float:
        """Return how long to sleep: until a segment is due, or until the next look at files."""
        if self._writing is not None or self._merging is not None:
            return 0.02
        due = self._store.log.next_due()
        return LOOK_EVERY_S if due is None else min(LOOK_EVERY_S, max(0.0, due - self._now()))

    def _commit(self, taken: Sequence[tuple[Entries, Done | None]]) -> None:
        together = joined([entries for entries, _ in taken])
        began = time.perf_counter()
        while together:
            try:
                keep = self._store.commit if together.must_sync else self._store.commit_unsynced
                keep(together.changes, together.rows, now=self._now())
                break
            except StoreError as error:
                if self._failing is None:
                    log_event(
                        log, logging.ERROR, "nothing can be kept; clients wait", why=str(error)
                    )
                    self._failing = str(error)
                    self._tell_condition()
                self._look_at_disk()
                with self._lock:
                    if self._stopping:
                        return
                    self._lock.wait_for(lambda: self._stopping, RETRY_S)
        if self._failing is not None:
            log_event(log, logging.WARNING, "the store works again")
            self._failing = None
            self._tell_condition()
        self.commits += 1
        if together.must_sync:
            # An outlier is capped, as it predicts little.
            took_s = min(time.perf_counter() - began, 10 * FAST_S)
            self._usual_s += (took_s - self._usual_s) / 10
        finished = [done for _, done in taken if done is not None]
        with self._lock:
            self.waiting_bytes -= together.size
            awaited, self._awaited, self._committing = self._awaited, False, False
        if awaited:
            self._answer.release()
        elif finished:
            self._call(lambda: self._call_all(finished))

    def _call_all(self, finished: Sequence[Done]) -> None:
        with self._lock:
            self._unanswered -= len(finished)
        for done in finished:
            done()

    def _erase(self) -> None:
        """Erase a node once no file is being written."""
        for pending in (self._writing, self._merging[1] if self._merging else None):
            if pending is not None:
                wait([pending])
        self._settle()
        self._tend()
        with self._lock:
            node, future = self._erasing.pop(0)
        try:
            future.set_result(self._store.erase(node, now=self._now()))
        except StoreError as error:
            future.set_exception(error)

    def _roll(self) -> None:
        """Seal a due segment, settle a written one, and checkpoint periodically."""
        self._settle()
        self._tend()
        now = self._now()
        if abs(now - self._looked_at) > LOOK_EVERY_S:
            self._looked_at = now
            self._look_at_disk()
            self._store.log.follow(is_followed(self._store.log.directory))
            if self._snapshots is not None:
                self._snapshots.work()
        due = self._store.log.next_due()
        if self._writing is None and due is not None and due <= now:
            sealed = self._store.log.seal()
            if sealed is not None:
                self._writing = self._files.submit(sealed.write)
        if self._checkpointing is not None:
            if self._checkpointing.done():
                self._checkpointing = None
                with suppress(StoreError):
                    self._store.finish_checkpoint()
        elif now - self._checkpointed > CHECKPOINT_EVERY_S:
            self._checkpointed = now
            self._checkpointing = self._files.submit(self._checkpoint)

    def _look_at_disk(self) -> None:
        """Measure the free space, say what follows from it, and drop what nobody needs."""
        disk = self._disk
        if disk.look():
            level = logging.WARNING if disk.stage else logging.INFO
            meaning, free = _STAGE_MEANINGS[disk.stage], disk.free_bytes
            log_event(log, level, "disk space", stage=disk.stage.name.lower(), means=meaning,
                      free_bytes=free)  # fmt: skip
            self._tell_condition()
        if disk.stage >= DiskStage.RECLAIMING and self._merging is None:
            try:
                since = self._now() - RESTART_READS_S
                freed = self._retention.reclaim(disk.wanted_bytes, since)
            except StoreError as error:
                log_event(log, logging.ERROR, "the log cannot be tidied", why=str(error))
                return
            if freed:
                self.reclaimed_bytes += freed
                log_event(log, logging.WARNING, "old segments dropped for space", bytes=freed)

    def _tell_condition(self) -> None:
        if self._disk_changed is not None:
            condition, changed = self._disk.condition(self._failing), self._disk_changed
            self._call(lambda: changed(condition))

    def _settle(self) -> None:
        writing = self._writing
        if writing is None or not (writing.done() or self._stopping):
            return
        self._writing = None
        try:
            self._store.log.settle(writing.result())
            self.problem = None
            if self._settled is not None:
                self._settled()
        except StoreError as error:
            self.problem = f"a segment cannot be written: {error}"
            log_event(log, logging.ERROR, "a segment cannot be written", why=str(error))
            self._store.log.unseal(self._now() + RETRY_S)

    def _tend(self) -> None:
        """Merge segments at the old end of the log, and drop those past their retention."""
        try:
            if self._merging is not None:
                merging, future = self._merging
                if future.done() or self._stopping:
                    self._merging = None
                    self._store.log.settle_merge(merging, future.result())
            elif self._now() >= self._tend_at:
                self._tend_at = self._now() + TEND_EVERY_S
                self._retention.drop(self._now())
                self._begin_merge()
        except StoreError as error:
            log_event(log, logging.ERROR, "the log cannot be tidied", why=str(error))

    def _begin_merge(self) -> None:
        singles = [each for each in self._store.log.segments() if each.first == each.last]
        if len(singles) > self._section.merge_after:
            last = singles[self._section.merge_after - 1].last
            merging = self._store.log.plan_merge(singles[0].first, last)
            self._merging = merging, self._files.submit(merging.write)

    def _checkpoint(self) -> None:
        with suppress(StoreError):
            self._store.checkpoint()


def journal_for(store: Store) -> Journal:
    """Return a journal whose numbers continue those of the store."""
    return Journal(True, store.message_ids, store.queue_numbers, store.broker)
