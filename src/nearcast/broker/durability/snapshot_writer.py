"""Snapshots that a pipeline wants of the broker, because the log no longer has what it needs.

The event loop only collects references to what is in force; rows are made of them and written in a
thread of its own, in slices, while the broker goes on. A snapshot appears once the log has all rows
up to it.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from nearcast.core.engine.engine import EngineInputs
from nearcast.logs import log_event
from nearcast.store import (
    AnyPath,
    SnapshotHead,
    Store,
    StoreError,
    answer_pipeline,
    broker_snapshots,
    find_snapshots,
    wanted_snapshot,
    write_snapshot,
)

PAUSE_S = 0.02
"""The rest between two slices, in which the event loop has the interpreter for itself."""

log = logging.getLogger("nearcast.broker")
InForce = Callable[[], tuple[int, EngineInputs]]
"""Returns the last row, and the inputs in force after it; called in the event loop."""


class SnapshotWriter:
    """Writes a snapshot of the broker when the pipeline wants one."""

    def __init__(
        self, store: Store, in_force: InForce, call: Callable[[Callable[[], None]], object]
    ) -> None:
        self._store = store
        self._in_force = in_force
        self._call = call
        self._asked = False
        self._taken: tuple[int, EngineInputs] | None = None
        self._thread = ThreadPoolExecutor(1, "nearcast-snapshot")
        self._writing: Future[AnyPath] | None = None
        self._stopping = False

    def work(self) -> None:
        """Do the next step, if one is due; called often, by the thread of the store."""
        directory = self._store.log.directory
        if self._writing is not None:
            if self._writing.done():
                self._finish(self._writing)
        elif self._taken is not None:
            seq, inputs = self._taken
            if self._store.log.settled_seq >= seq:
                head = SnapshotHead(self._store.broker, seq)
                self._writing = self._thread.submit(
                    write_snapshot, broker_snapshots(directory), head, inputs, self._rest
                )
                self._taken = None
        elif not self._asked and wanted_snapshot(directory) is not None:
            self._asked = True
            self._call(self._take)

    def stop(self) -> None:
        """Give up a snapshot that is being written: it is still wanted at the next start."""
        self._stopping = True
        self._thread.shutdown()

    def _rest(self) -> None:
        if self._stopping:
            raise StoreError("the broker stops")
        time.sleep(PAUSE_S)

    def _take(self) -> None:
        self._taken = self._in_force()

    def _finish(self, writing: "Future[AnyPath]") -> None:
        self._writing, self._asked = None, False
        directory = self._store.log.directory
        try:
            path = writing.result()
            for old in find_snapshots(broker_snapshots(directory)):
                if old.path != path:
                    old.path.unlink(missing_ok=True)
            answer_pipeline(directory)
        except (StoreError, OSError) as error:
            log_event(log, logging.ERROR, "a snapshot cannot be written", why=str(error))
        else:
            log_event(log, logging.INFO, "snapshot written", seq=int(path.stem))
