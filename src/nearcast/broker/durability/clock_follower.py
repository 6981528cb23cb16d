"""Follows the machine's clock: marks of it are kept in the broker's directory, jumps are logged."""

import logging
import threading
from pathlib import Path

from nearcast.broker.broker_clock import BrokerClock, HostClocks, starting_time
from nearcast.logs import log_event
from nearcast.store import Store, StoreError, read_clock_mark, write_clock_mark

FAR_OFF_S = 60.0
"""From this difference to the machine's clock on, the broker says so."""

log = logging.getLogger("nearcast.broker")


def clock_for(store: Store | None, clocks: HostClocks | None = None) -> BrokerClock:
    """Return the clock of the broker that uses a store; it continues from its last life."""
    chosen = HostClocks() if clocks is None else clocks
    if store is None:
        return BrokerClock(chosen)
    mark = read_clock_mark(store.directory)
    return BrokerClock(chosen, starting_time(chosen, mark, store.log.last_ingested))


class ClockFollower:
    """Lets a clock follow that of the machine; without a directory no mark is kept."""

    def __init__(self, clock: BrokerClock, directory: Path | None) -> None:
        self._clock = clock
        self._directory = directory
        self._was_far = False

    @property
    def problem(self) -> str | None:
        """What is wrong with the clocks; None if nothing is."""
        off_s = self._clock.off_s
        if abs(off_s) < FAR_OFF_S:
            return None
        where = "ahead of" if off_s > 0.0 else "behind"
        return f"the machine's clock is {abs(off_s):.0f} s {where} the broker's"

    def look(self) -> None:
        """Look at the machine's clock; log a jump, and keep a mark if one is due."""
        self._clock.follow()
        if self._clock.needs_mark():
            self._clock.mark()
            # The event loop does not wait for the disk.
            threading.Thread(target=self.keep_mark, name="nearcast-clock", daemon=True).start()
        problem = self.problem
        if (problem is not None) == self._was_far:
            return
        self._was_far = problem is not None
        if problem is None:
            log_event(log, logging.INFO, "the clocks agree again")
        else:
            log_event(log, logging.WARNING, "the clocks differ; time is not set", why=problem)

    def keep_mark(self) -> None:
        """Write the mark from which the next life continues."""
        if self._directory is None:
            return
        try:
            write_clock_mark(self._directory, self._clock.mark())
        except StoreError as error:
            log_event(log, logging.WARNING, "the time cannot be kept", why=str(error))
