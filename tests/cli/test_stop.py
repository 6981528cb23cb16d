"""A broker that is told to stop ends in time, whatever it has to do, and keeps what it promised."""

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearcast.broker.shutdown import Deadline
from nearcast.cli.broker.pipeline_process import PipelineBeside
from nearcast.wire.mqtt import Connect, Publish, encode
from tests.support.broker_process import STOP_WITHIN_S, BrokerProcess
from tests.support.clients.raw_client import RawClient
from tests.support.clients.stubborn_client import GoneError, StubbornClient
from tests.support.clients.talker import words
from tests.support.logs.broker_log import read_log
from tests.support.object_store import client_environment
from tests.support.waiting import until

SETTINGS = {"shutdown.within_s": 1, "listen.http_port": 0}
LINKS = 300
Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[BrokerProcess] = []

    def started(**settings: object) -> BrokerProcess:
        chosen = SETTINGS | {name.replace("__", "."): value for name, value in settings.items()}
        running.append(BrokerProcess(tmp_path / "data", chosen))
        return running[-1].wait_until_it_listens()

    yield started
    for broker in running:
        broker.end()


def test_what_was_acknowledged_under_load_is_on_disk(start: Start) -> None:
    broker = start()
    clients = [StubbornClient(f"publisher-{number}") for number in range(4)]
    for client in clients:
        client.connect(broker.port)

    def publish(client: StubbornClient) -> None:
        number = 0
        try:
            while True:
                client.publish("load", f"{client.name} {number}".encode(), qos=1)
                number += 1
                while not client.has_room:
                    client.listen(0.01)
        except GoneError:
            pass

    threads = [threading.Thread(target=publish, args=(each,)) for each in clients]
    for thread in threads:
        thread.start()
    until(lambda: all(each.acknowledged for each in clients), "messages are acknowledged")

    assert broker.stop() == 0
    for client, thread in zip(clients, threads, strict=True):
        thread.join()
        client.leave()
    kept = {row.payload for row in read_log(broker.data) if row.kind == "event"}
    assert all(payload in kept for each in clients for _, payload in each.acknowledged)


def test_clients_that_never_read_and_idle_sockets_do_not_keep_it(start: Start) -> None:
    broker = start()
    deaf = [RawClient(broker.port) for _ in range(LINKS)]
    for number, client in enumerate(deaf):
        client.connect(Connect(f"deaf-{number}"))
        client.subscribe("noise")
    idle = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(LINKS)]
    slow = [socket.create_connection(("127.0.0.1", broker.ports["http"])) for _ in range(LINKS)]
    for each in slow:
        each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    loud = RawClient(broker.port)
    loud.connect(Connect("loud"))
    for _ in range(100):
        loud.send(Publish("noise", bytes(200_000)))

    assert broker.stop() == 0
    for opened in (*idle, *slow):
        opened.close()
    for client in (*deaf, loud):
        client.close()


def test_ticks_with_much_to_do_do_not_keep_it(start: Start) -> None:
    broker = start()
    counter = RawClient(broker.port)
    counter.connect(Connect("counter"))
    for number in range(100):
        where = f"count('load/+', 'speed > {number}') > 1000000 AND speed <> {number}"
        counter.subscribe(f"$share/group-{number}/load/+", properties=words(where=where))
    loud = RawClient(broker.port)
    loud.connect(Connect("loud"))
    packets = [
        encode(Publish(f"load/{number % 4}", b'{"speed": %d}' % (number % 200)), 5)
        for number in range(5_000)
    ]
    loud.send(b"".join(packets))

    assert broker.stop() == 0
    for client in (counter, loud):
        client.close()


def test_an_object_store_that_never_answers_does_not_keep_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        for name, value in client_environment(silent.getsockname()[1]).items():
            monkeypatch.setenv(name, value)
        broker = start(data__storage="s3://nearcast/silent", log__roll_s=0.1)
        publisher = StubbornClient("publisher")
        publisher.connect(broker.port)
        publisher.exchange("news", b"kept", qos=1)
        publisher.leave()

        assert broker.stop() == 0
    assert b"kept" in {row.payload for row in read_log(broker.data)}


def test_a_disk_that_does_not_write_does_not_keep_it(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", SETTINGS, largest_file=2 << 20)
    broker.wait_until_it_listens()
    publisher = StubbornClient("publisher", window=1_000)
    publisher.connect(broker.port)
    try:
        try:
            while "failing" not in broker.ask("/healthz"):
                publisher.publish("fill", bytes(100_000), qos=1)
                publisher.listen(0.0)
        except GoneError:
            # Who sends much is not read while the disk is behind.
            until(lambda: "failing" in broker.ask("/healthz"), "the disk is found to fail")
        assert broker.stop() == 0
    finally:
        broker.end()
        publisher.leave()


def test_a_second_signal_ends_it_at_once(start: Start) -> None:
    broker = start(shutdown__within_s=600)
    deaf = RawClient(broker.port)
    deaf.connect(Connect("deaf"))
    deaf.subscribe("noise")
    loud = RawClient(broker.port)
    loud.connect(Connect("loud"))
    for _ in range(100):
        loud.send(Publish("noise", bytes(200_000)))
    publisher = StubbornClient("publisher")
    publisher.connect(broker.port)
    publisher.exchange("news", b"kept", qos=1)
    publisher.leave()

    broker.process.send_signal(signal.SIGTERM)
    until(lambda: not listens(broker.port), "it stops to listen")
    assert broker.runs
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(STOP_WITHIN_S) == 128 + signal.SIGINT

    again = start()
    assert again.stop() == 0
    assert b"kept" in {row.payload for row in read_log(again.data)}
    for client in (deaf, loud):
        client.close()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5.0).close()
    except OSError:
        return False
    return True


def test_a_pipeline_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn, began = tmp_path / "stubborn", tmp_path / "began"
    stubborn.write_text(f"#!/bin/sh\ntrap '' TERM\ntouch {began}\nwhile :; do sleep 1; done\n")
    stubborn.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(stubborn))

    async def run() -> None:
        beside = PipelineBeside([])
        beside.start()
        while not began.exists():
            await asyncio.sleep(0.01)
        await beside.stop(Deadline(0.2))
        assert beside.pid is None

    asyncio.run(run())
