"""Clients in threads of their own, which come back whenever their broker does."""

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterable

from tests.support.clients.stubborn_client import GoneError, StubbornClient
from tests.support.waiting import WAIT_S, until

SEED = int(os.environ.get("NEARCAST_SEED", str(random.SystemRandom().randrange(1 << 32))))


class Worker(threading.Thread):
    """A client that only listens; others say what else they do in `step`."""

    def __init__(self, client: StubbornClient, port: int) -> None:
        super().__init__(name=client.name, daemon=True)
        self.client = client
        self.error: BaseException | None = None
        self.done = threading.Event()
        self._port = port

    def run(self) -> None:
        try:
            while not self.done.is_set():
                with contextlib.suppress(GoneError):
                    self._connect()
                    self.step()
        except BaseException as error:
            self.error = error
        finally:
            self.client.leave()

    def _connect(self) -> None:
        client = self.client
        if client.connected:
            return
        try:
            known = client.connect(self._port)
        except GoneError:
            self.done.wait(0.05)
            raise
        assert known or client.connections == 1, f"{client.name}: the session is lost"

    def step(self) -> None:
        """Do something for a moment, while there is a connection."""
        self.client.listen(0.05)

    def end(self) -> None:
        self.done.set()
        self.join(WAIT_S)


def check_errors(workers: Iterable[Worker]) -> None:
    """Raise what went wrong in a thread."""
    for worker in workers:
        if worker.error is not None:
            raise worker.error


def until_with(
    workers: Iterable[Worker], holds: Callable[[], bool], what: str, every_s: float = 0.1
) -> None:
    """Return once something holds, or raise what went wrong in a thread."""

    def checked() -> bool:
        check_errors(workers)
        return holds()

    until(checked, what, every_s=every_s)
