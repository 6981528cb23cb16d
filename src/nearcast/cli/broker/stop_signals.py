"""SIGTERM and SIGINT: the first stops the broker, a second ends the process at once.

The first also starts a timer: the process ends when the time for stopping and a margin are over,
whatever its event loop and its threads do. What was acknowledged is on disk by then, since an
acknowledgement is written after its commit.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from nearcast.broker.shutdown import MARGIN_S, Deadline

LATE = b"Stopped, but not in order: there was no time left.\n"
STDERR = 2


class StopSignals:
    """Handles the signals of one program, from `install` to its end."""

    def __init__(self, within_s: float, end_others: Callable[[], None]) -> None:
        """`end_others` ends other processes; it is called before this one ends at once."""
        self.stopped = asyncio.Event()
        """Set by the first signal."""
        self._within_s = within_s
        self._end_others = end_others
        self._deadline: Deadline | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began = threading.Event()

    def install(self) -> None:
        """Handle the signals from now on, for the running event loop, in the main thread."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._watch, name="nearcast-end", daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Not by the event loop: its handlers would wait until a long tick is over.
            signal.signal(number, self._received)

    def deadline(self) -> Deadline:
        """When the broker has to have stopped; it counts from the first signal."""
        if self._deadline is None:
            self._deadline = Deadline(self._within_s)
        return self._deadline

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self._began.is_set():
            self._end(128 + number)
        self.deadline()
        self._began.set()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stopped.set)

    def _watch(self) -> None:
        self._began.wait()
        # Until the very end: threads that are still busy would keep the interpreter from exiting.
        time.sleep(self._within_s + MARGIN_S)
        os.write(STDERR, LATE)
        self._end(0)

    def _end(self, code: int) -> None:
        self._end_others()
        os._exit(code)
