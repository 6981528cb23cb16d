"""Explanations are made beside the broker: the same answers, and none of their cost here."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Coroutine
from pathlib import Path

import pytest

from nearcast.broker.config.settings import Settings
from nearcast.broker.operations.explanations import explanation_queue
from nearcast.broker.operations.explanations.explanation import as_value, explain, explain_everyone
from nearcast.broker.operations.explanations.explanation_queue import (
    MOST_WAITING,
    ExplanationBusyError,
    ExplanationFailedError,
    ExplanationQueue,
)
from nearcast.broker.operations.explanations.explanation_worker import (
    MEMORY_BYTES,
    ExplainRequest,
    framed,
)
from nearcast.broker.operations.metrics import Metrics
from nearcast.console.http import make_app
from nearcast.console.server import HttpServer
from nearcast.core.engine.engine import Engine, Record
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, Published, Subscribed
from nearcast.store import (
    Row,
    SnapshotHead,
    broker_snapshots,
    input_of,
    is_input,
    record_row,
    write_snapshot,
)
from nearcast.testing import World
from tests.support.clients.http_requests import ask
from tests.support.logs.broker_log import drop_segments, write_log
from tests.support.logs.recorded_life import log_of_a_life

EVENTS = 10_000
ASKERS = 12
PAYLOAD = b'{"speed": 50, "text": "%s"}' % (b"x" * 1_000)
ALLOCATED_MOST = 4 << 20
"""Bytes; the payloads of the log alone are more than twice that."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with some subscriptions and many events."""
    wanted: list[Input] = [
        Subscribed(Subscription(f"s{number}", f"node-{number}", "bus/+"))
        for number in range(ASKERS // 2)
    ]
    published: list[Input] = [
        Published(Event(f"e{number}", f"bus/{number % 7}", "ann", 1.7e9, payload=PAYLOAD))
        for number in range(EVENTS)
    ]
    rows = [
        record_row(Record(seq, 1.7e9, value), "local")
        for seq, value in enumerate([*wanted, *published], 1)
    ]
    return write_log(tmp_path_factory.mktemp("data"), "local", rows, 2_000)


@pytest.fixture
def queue(log: Path) -> ExplanationQueue:
    return ExplanationQueue(log)


def run(queue: ExplanationQueue, work: Coroutine[object, object, None]) -> None:
    async def and_stop() -> None:
        try:
            await work
        finally:
            await queue.stop()

    asyncio.run(and_stop())


def test_many_at_once_get_the_same_answers_and_nothing_is_allocated_here(
    log: Path, queue: ExplanationQueue
) -> None:
    asked = [(f"e{EVENTS - 1 - number}", f"node-{number}") for number in range(ASKERS)]

    async def ask_all() -> None:
        tracemalloc.start()
        try:
            found = await asyncio.gather(*(queue.explain(*each) for each in asked))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < ALLOCATED_MOST < EVENTS * len(PAYLOAD) / 2
        for (event, node), answer in zip(asked, found, strict=True):
            assert answer.status == "found"
            assert answer.value == json.loads(json.dumps(as_value(explain(log, event, node))))
        assert {answer.value["delivered"] for answer in found} == {True, False}

    run(queue, ask_all())


def test_what_nobody_published_is_unknown(queue: ExplanationQueue) -> None:
    async def ask_it() -> None:
        assert (await queue.explain("none", "node-1")).status == "unknown"
        assert (await queue.explain("e1", "node-1", "ben")).status == "unknown"

    run(queue, ask_it())


def test_only_so_many_wait(queue: ExplanationQueue) -> None:
    async def ask_many() -> None:
        waiting = [
            asyncio.create_task(queue.explain(f"e{number}", "node-1"))
            for number in range(MOST_WAITING)
        ]
        await asyncio.sleep(0)
        with pytest.raises(ExplanationBusyError):
            await queue.explain("e1", "node-1")
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert queue.waiting == 0
        assert (await queue.explain("e1", "node-1")).status == "found"

    run(queue, ask_many())


def test_who_stops_to_wait_ends_the_work(queue: ExplanationQueue) -> None:
    async def leave() -> None:
        asked = asyncio.create_task(queue.explain(f"e{EVENTS - 1}", "node-1"))
        while queue.pid is None:
            await asyncio.sleep(0.01)
        pid = queue.pid
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await queue.stop()
        assert not Path(f"/proc/{pid}").exists()
        assert queue.waiting == 0

    run(queue, leave())


def test_a_process_that_dies_is_an_error_and_the_next_one_answers(queue: ExplanationQueue) -> None:
    async def kill() -> None:
        asked = asyncio.create_task(queue.explain(f"e{EVENTS - 1}", "node-1"))
        while queue.pid is None:
            await asyncio.sleep(0.01)
        os.kill(queue.pid, signal.SIGKILL)
        with pytest.raises(ExplanationFailedError):
            await asked
        assert (await queue.explain("e1", "node-1")).status == "found"

    run(queue, kill())


@pytest.mark.skipif(sys.platform != "linux", reason="others do not limit the memory of data")
@pytest.mark.parametrize(("size", "answers"), [(MEMORY_BYTES // 4, True), (MEMORY_BYTES, False)])
def test_the_process_ends_without_an_answer_if_it_takes_too_much_memory(
    size: int, answers: bool
) -> None:
    worker = "nearcast.broker.operations.explanations.explanation_worker"
    # Memory that is asked for and never touched.
    takes = f"worker.answer = lambda _: worker.ExplainAnswer(str(len(bytearray({size}))))"
    done = subprocess.run(
        [sys.executable, "-c", f"import {worker} as worker; {takes}; worker.main()"],
        input=framed(ExplainRequest("log", "event", "node")),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert bool(done.stdout) == answers
    assert (done.returncode == 0) == answers
    assert (b"MemoryError" in done.stderr) != answers


@pytest.mark.parametrize(("limit", "value"), [("IDLE_S", 0.0), ("REQUESTS", 1)])
def test_the_process_ends_when_it_is_idle_and_after_some_requests(
    queue: ExplanationQueue, monkeypatch: pytest.MonkeyPatch, limit: str, value: float
) -> None:
    monkeypatch.setattr(explanation_queue, limit, value)

    async def wait() -> None:
        await queue.explain("e1", "node-1")
        while queue.pid is not None:
            await asyncio.sleep(0.01)
        assert (await queue.explain("e1", "node-1")).status == "found"

    run(queue, wait())


def test_a_client_that_hangs_up_cancels_its_request(log: Path) -> None:
    app = make_app(Metrics({}), {}, Settings(), log)
    queue: ExplanationQueue = app.state.explanations

    async def hang_up() -> None:
        async with HttpServer(app, port=0) as server:
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                path = f"/api/explain/e{EVENTS - 1}/node-1"
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                while queue.pid is None:
                    await asyncio.sleep(0.01)
            while queue.waiting:
                await asyncio.sleep(0.01)
            assert queue.pid is None

    asyncio.run(hang_up())


def test_beyond_the_queue_one_is_told_when_to_ask_again(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explanation_queue, "MOST_WAITING", 0)

    async def too_many() -> None:
        async with HttpServer(make_app(Metrics({}), {}, Settings(), log), port=0) as server:
            answer = await ask(server.port, "/api/explain/e1/node-1")
            assert answer.status == 503
            assert int(answer.headers["Retry-After"]) > 0

    asyncio.run(too_many())


@pytest.mark.parametrize("seed", range(4))
def test_from_a_snapshot_the_explanation_is_the_same(tmp_path: Path, seed: int) -> None:
    rows = log_of_a_life(World(seed=seed), 60)
    log = write_log(tmp_path, "broker", rows, 40)
    events = [row for row in rows if row.kind == "event"]
    asked = [(str(row.event_id), row.publisher) for row in events[len(events) // 2 :]]
    before = [explain_everyone(log, event, publisher=who) for event, who in asked]

    middle = events[len(events) // 2].seq - 1
    snapshot(log, rows, middle)
    assert [explain_everyone(log, event, publisher=who) for event, who in asked] == before
    # Rows before it are no longer needed.
    whole = sum(row.seq <= middle for row in rows) // 40
    drop_segments(tmp_path, "broker", whole)
    assert [explain_everyone(log, event, publisher=who) for event, who in asked] == before


def snapshot(log: Path, rows: list[Row], seq: int) -> None:
    """Write a snapshot of what is in force after a row."""
    engine = Engine()
    for row in rows:
        if row.seq <= seq and is_input(row.kind):
            engine.play([input_of(row)], [row.ingested], again=True, quietly=True)
    write_snapshot(broker_snapshots(log), SnapshotHead("broker", seq), engine.in_force())
