"""The deadline of a stop, which all parts of a broker share.

What comes first may not use up the time of what comes later: clients read what is left until a part
of it has passed, and the rest belongs to the store. Whatever is not done by then is left undone:
nothing that was acknowledged depends on it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from nearcast.broker.durability.log_copier import LogCopier
from nearcast.broker.durability.store_writer import StoreWriter
from nearcast.logs import log_event

BESIDE_PART = 0.3
"""The part of the time after which clients are disconnected, whether HTTP has ended or not."""
CLIENTS_PART = 0.7
"""The part of the time after which clients that have not read everything are cut off."""
MARGIN_S = 2.0
"""How much later than the deadline the process ends at the latest."""
STORE_MARGIN_S = 0.5 * MARGIN_S
"""How much later than the deadline the store may still be writing."""

log = logging.getLogger("nearcast.broker")


class Deadline:
    """When a stop that begins now is to be done."""

    def __init__(self, within_s: float) -> None:
        self._began = time.monotonic()
        self._within_s = within_s

    def left_s(self, part: float = 1.0, margin_s: float = 0.0) -> float:
        """Seconds left of a part of the time, and of a margin; 0.0 if it has passed."""
        return max(0.0, self._began + part * self._within_s + margin_s - time.monotonic())


async def close_store(
    writer: StoreWriter | None, copier: LogCopier | None, deadline: Deadline
) -> None:
    """Commit what is waiting and write the last segment, then update the copy of the log."""
    late = []
    if writer is not None and not await finished(
        writer.stop, deadline.left_s(margin_s=STORE_MARGIN_S)
    ):
        late.append("the store")
    if copier is not None and not await finished(copier.stop, deadline.left_s()):
        late.append("the copy of the log")
    if late:
        log_event(log, logging.WARNING, "no time to finish", what=" and ".join(late))


async def finished(work: Callable[[], None], within_s: float) -> bool:
    """Do something in a thread, and return whether it was done in time.

    A thread that is late is left alone; it does not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def report(error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def do() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(report, error)

    threading.Thread(target=do, name="nearcast-stop", daemon=True).start()
    try:
        await asyncio.wait_for(future, within_s)
    except TimeoutError:
        return False
    return True
