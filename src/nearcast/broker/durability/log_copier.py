"""Keeps the copy of a broker's log in an object store up to date, in a thread of its own.

The broker never waits for the store: while it cannot be reached, segments wait on disk, and what
the pipeline has not read is not dropped. Only forgetting somebody waits for the copy.
"""

import logging
import threading
from concurrent.futures import Future

from nearcast.logs import log_event
from nearcast.store import MissingError, ObjectPath, Store, StoreError, log_directory, path_at
from nearcast.store.log.log_copy import LogCopy

LOOK_S = 1.0
"""How often to look for changes that nobody told of, such as a wish of the pipeline."""
LONGEST_PAUSE_S = 30.0

log = logging.getLogger("nearcast.broker")


class LogCopier:
    """Updates the copy when it is woken, and now and then; failures are retried."""

    def __init__(self, copy: LogCopy) -> None:
        self._copy = copy
        self._lock = threading.Condition()
        self._woken = True
        self._stopping = False
        self._waiting: list[Future[None]] = []
        self._failures = 0
        self._tidied = False
        """True if what an earlier life left behind half way was deleted."""
        self.copied = 0
        """Segments copied so far."""
        self._thread = threading.Thread(target=self._work, name="nearcast-copy", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """What is wrong with the copy; None if nothing is."""
        return "the copy of the log cannot be updated" if self._failures else None

    def wake(self) -> None:
        """Note that the log has changed."""
        with self._lock:
            self._woken = True
            self._lock.notify()

    def update(self) -> "Future[None]":
        """Update the copy with all that is in the log now; the future has an error if it fails."""
        future: Future[None] = Future()
        with self._lock:
            self._waiting.append(future)
            self._lock.notify()
        return future

    def stop(self) -> None:
        """Update the copy once more, if it can be reached, and end."""
        with self._lock:
            self._stopping = True
            self._lock.notify()
        self._thread.join()

    def statistics(self) -> dict[str, float]:
        """Segments copied, and whether the last update failed."""
        return {"copied_segments_total": self.copied, "copy_failing": self._failures > 0}

    def _work(self) -> None:
        while True:
            with self._lock:
                pause_s = min(LONGEST_PAUSE_S, LOOK_S * 2.0 ** min(self._failures, 5))
                # After a failure only time helps, or somebody who waits for the answer.
                self._lock.wait_for(
                    lambda: (
                        self._stopping
                        or bool(self._waiting)
                        or (self._woken and not self._failures)
                    ),
                    pause_s,
                )
                stopping, self._woken = self._stopping, False
                waiting, self._waiting = self._waiting, []
            error = self._try()
            for future in waiting:
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
            if stopping:
                return

    def _try(self) -> StoreError | None:
        """Update the copy; return why it could not be."""
        try:
            try:
                self.copied += self._copy.update()
            except MissingError:
                # Merged or dropped while it was copied.
                self.copied += self._copy.update()
            if not self._tidied:
                self._copy.delete_strangers()
                self._tidied = True
        except StoreError as error:
            if not self._failures:
                log_event(log, logging.WARNING, "the log cannot be copied", why=str(error))
            self._failures += 1
            return StoreError(
                f"the copy of the log is not up to date ({error}); try again when the store of "
                "data.storage can be reached"
            )
        if self._failures:
            log_event(log, logging.INFO, "the log is copied again")
        self._failures = 0
        return None


def copy_of_log(store: Store, storage: str) -> LogCopy | None:
    """Return the copy of a log in a store; None if no store is configured.

    Raises `StoreError` if the location is none of a store; it need not be reachable.
    """
    if not storage:
        return None
    root = path_at(storage)
    assert isinstance(root, ObjectPath)
    root.check_location()
    copy = log_directory(root, store.broker)
    assert isinstance(copy, ObjectPath)
    return LogCopy(store.log.directory, copy, store.broker)
