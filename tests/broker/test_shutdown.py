"""The deadline of a stop: what is done until then, and what is left undone."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from nearcast.broker.config.settings import NodeSection, Settings
from nearcast.broker.server import Server
from nearcast.broker.shutdown import Deadline, finished
from nearcast.store import Change, RowBuffer, SessionPut, Store
from nearcast.wire.mqtt import Connect, Publish
from tests.support.clients.raw_client import RawClient
from tests.support.running_broker import ON_FREE_PORTS, RunningBroker

MANY = 500
"""More than leave in one tick."""
LEFT_ALONE = ("nearcast-store", "nearcast-stop")


class HangingStore(Store):
    """A store on a disk that stops to answer when a test says so."""

    def __init__(self, data: Path, broker: str) -> None:
        super().__init__(data, broker)
        self.answers = threading.Event()
        self.answers.set()

    def commit(
        self, changes: Sequence[Change], rows: RowBuffer | None = None, *, now: float
    ) -> None:
        self.answers.wait()
        super().commit(changes, rows, now=now)


def test_all_sessions_are_stored_as_left(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    for number in range(MANY):
        broker.client(f"client-{number}", expiry=60)
    broker.stop()
    store = Store(tmp_path, "local")
    kept = [each.session for each in store.load() if isinstance(each, SessionPut)]
    store.close()
    assert len(kept) == MANY
    assert all(each.disconnected is not None for each in kept)


def test_a_disk_that_hangs_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        store = HangingStore(tmp_path, "local")
        settings = Settings(node=NodeSection(data=str(tmp_path)), listen=ON_FREE_PORTS)
        server = Server(settings, store)
        await server.start()
        client = RawClient(server.port)
        await asyncio.to_thread(client.connect, Connect("client"))
        store.answers.clear()
        client.send(Publish("news", b"not promised", 1, packet_id=1))
        while not server.hub.statistics()["messages_received_total"]:
            await asyncio.sleep(0.01)
        await server.stop(Deadline(0.1))
        store.answers.set()
        client.close()
        while any(each.name in LEFT_ALONE for each in threading.enumerate()):
            await asyncio.sleep(0.01)

    with caplog.at_level("WARNING"):
        asyncio.run(run())
    assert "no time to finish" in caplog.text


def test_what_fails_in_its_thread_fails_here() -> None:
    def fail() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        asyncio.run(finished(fail, 60.0))


def test_what_hangs_is_not_waited_for() -> None:
    hanging = threading.Event()

    def hang() -> None:
        hanging.wait()

    assert not asyncio.run(finished(hang, 0.0))
    hanging.set()
    assert asyncio.run(finished(lambda: None, 60.0))


def test_parts_of_the_time_pass_before_the_whole() -> None:
    deadline = Deadline(1_000.0)
    assert 0.0 < deadline.left_s(0.3) < deadline.left_s(0.7) < deadline.left_s()
    assert deadline.left_s() < deadline.left_s(margin_s=10.0)
    assert Deadline(0.0).left_s() == 0.0
