"""A client that goes on while others attack."""

import itertools
import threading
from typing import Self

from tests.support.clients.raw_client import fresh
from tests.support.clients.stubborn_client import StubbornClient
from tests.support.waiting import WAIT_S


class WellBehaved(threading.Thread):
    """A client that sends itself messages of QoS 1 while something else goes on."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = StubbornClient(fresh("good-"), keep=False)
        self._client.connect(port)
        self._topic = f"good/{self._client.name}"
        self._client.subscribe(self._topic)
        self._done = threading.Event()
        self._count = itertools.count(1)
        self.exchanged = 0
        self._error: BaseException | None = None

    def exchange(self) -> None:
        """Send a message to itself, and get it."""
        payload = b"%d" % next(self._count)
        self._client.publish(self._topic, payload, 1)
        self._client.wait_for(self._topic, payload, WAIT_S)
        self._client.finish(WAIT_S)
        self._client.got.clear()
        self.exchanged += 1

    def run(self) -> None:
        try:
            while not self._done.is_set():
                self.exchange()
                self._done.wait(0.02)
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Self:
        self.exchange()
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self.join(2 * WAIT_S)
        if self._error is None and exception[0] is None:
            self.exchange()
        self._client.disconnect()
        if self._error is not None:
            raise self._error
