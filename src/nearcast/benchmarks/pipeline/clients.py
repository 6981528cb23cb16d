"""Throughput and latency of the pipeline with a real broker and real clients.

Broker and pipeline are started as a user starts them, by `nearcast up` and `nearcast pipeline
run`, on the same machine as the clients.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

from nearcast.benchmarks.broker.peers import Running
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.client.api.node import connect
from nearcast.pipeline.jobs.status import read_status
from nearcast.wire.mqtt import MQTT_5, Connect, Publish, Subscribe, TopicFilter, encode

if TYPE_CHECKING:
    from nearcast.benchmarks.pipeline.benchmark import (
        ClientFigures,
        PipelineBenchSettings,
        PipelineLatencyFigures,
    )

TOPICS, READERS_A_TOPIC = 50, 20
"""Number of topics over which events are spread, and of sessions that receive each event."""
WARM_UPS, WARM_UP = 8, 2_000
"""Number of warm-up rounds before the measurement, and of events in each."""
START_WITHIN_S = 180.0
DONE_WITHIN_S = 240.0
LAST_S = 60.0
"""Timeout for outstanding aggregates after the last event."""
RATE = 1_000
"""Events per second while latency is measured."""
PARTS = 10
MOVERS = 10
"""Number of nodes in the measurement with movement; all of them are near each other."""
WARM_UP_S = 45.0
"""Thresholds completed within this time are not counted, because Spark is still warming up."""
_CONFIG = """
[listen]
mqtt_port = 0
ws_port = -1
http_port = -1
[limits]
connects_per_s = 1e6
[logging]
level = "warning"
"""


def measure_clients(
    settings: "PipelineBenchSettings", step: Callable[[str], None]
) -> "ClientFigures":
    """Measure the time until all events, decided in Spark, have reached all clients."""
    from nearcast.benchmarks.pipeline.benchmark import ClientFigures

    events = settings.client_events
    with _pipeline('[decide]\n"bench/#" = "spark"\n', step) as port:
        step(f"{events:,} events to {READERS_A_TOPIC} clients each, decided in Spark")
        seconds = asyncio.run(_flood(port, events))
    return ClientFigures(events, events * READERS_A_TOPIC, events / seconds, seconds)


def measure_latency(
    settings: "PipelineBenchSettings", step: Callable[[str], None], movers: int
) -> "PipelineLatencyFigures":
    """Complete thresholds at a constant rate of events, and measure the latency of aggregates."""
    from nearcast.benchmarks.pipeline.benchmark import PipelineLatencyFigures

    rule = f'[aggregates]\n"spots/#" = "people {PARTS}"\n'
    with _pipeline(rule, step) as port:
        step(f"thresholds at {RATE:,} events a second, {movers} nodes moving")
        took = asyncio.run(_thresholds_meanwhile(port, settings.latency_s, movers))
    cuts = quantiles(took, n=20, method="inclusive")
    return PipelineLatencyFigures(movers, RATE, len(took), cuts[9], cuts[18], max(took))


@contextmanager
def _pipeline(config: str, step: Callable[[str], None]) -> Iterator[int]:
    """Run a broker and a pipeline; yield the port of the broker once both are ready."""
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as directory:
        path = Path(directory) / "nearcast.toml"
        path.write_text(_CONFIG + config)
        data = Path(directory) / "data"
        options = ["--config", str(path), "--data", str(data)]
        command = [sys.executable, "-m", "nearcast"]
        step("starting a broker and a pipeline")
        broker = Running([*command, "up", "--no-pipeline", *options], Path(directory), None)
        said = (Path(directory) / "pipeline.txt").open("w")
        pipeline = subprocess.Popen(
            [*command, "pipeline", "run", *options], stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            _wait_for(data, pipeline)
            yield broker.port
        finally:
            said.close()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pipeline.pid, signal.SIGTERM)
            try:
                pipeline.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(pipeline.pid, signal.SIGKILL)
                pipeline.wait()
            broker.close()


def _wait_for(data: Path, pipeline: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        status = read_status(data)
        states = set() if status is None else {query.state for query in status.queries}
        if states == {"running"}:
            return
        if pipeline.poll() is not None:
            raise BenchmarkError(f"the pipeline ended with code {pipeline.returncode}")
        time.sleep(0.5)
    raise BenchmarkError(f"the pipeline does not run after {START_WITHIN_S:.0f} s")


class _ByteCounter(asyncio.Protocol):
    """A client that subscribes and counts the bytes it receives, acknowledgements included."""

    def __init__(self, name: str, topics: list[str]) -> None:
        self._hello = encode(Connect(name, keep_alive=0), MQTT_5) + encode(
            Subscribe(1, tuple(TopicFilter(topic) for topic in topics)), MQTT_5
        )
        self.bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)


async def _flood(port: int, events: int) -> float:
    """Publish as fast as the broker reads; return the seconds until all clients have all events."""
    loop = asyncio.get_running_loop()
    readers: list[_ByteCounter] = []
    for number in range(READERS_A_TOPIC):
        topics = [f"bench/{topic:02d}" for topic in range(TOPICS)]
        _, reader = await loop.create_connection(
            lambda number=number, topics=topics: _ByteCounter(f"reader-{number}", topics),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        readers.append(reader)
    _, writer = await loop.create_connection(
        lambda: _ByteCounter("writer", ["none"]), "127.0.0.1", port
    )
    await asyncio.sleep(2.0)
    frames = [encode(Publish(f"bench/{topic:02d}", b"x" * 60), MQTT_5) for topic in range(TOPICS)]
    for _ in range(WARM_UPS):
        before = [reader.bytes for reader in readers]
        await _publish(writer, frames, WARM_UP)
        await _until(readers, before, WARM_UP * len(frames[0]))
    before = [reader.bytes for reader in readers]
    started = time.monotonic()
    await _publish(writer, frames, events)
    await _until(readers, before, events * len(frames[0]))
    taken = time.monotonic() - started
    for each in (*readers, writer):
        each.transport.close()
    return taken


async def _publish(writer: _ByteCounter, frames: list[bytes], count: int) -> None:
    whole = b"".join(frames)
    for _ in range(count // len(frames)):
        writer.transport.write(whole)
        while writer.transport.get_write_buffer_size() > 1 << 20:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)


async def _until(readers: list[_ByteCounter], before: list[int], wanted: int) -> None:
    deadline = time.monotonic() + DONE_WITHIN_S
    while any(r.bytes - b < wanted for r, b in zip(readers, before, strict=True)):
        if time.monotonic() > deadline:
            got = min(r.bytes - b for r, b in zip(readers, before, strict=True))
            raise BenchmarkError(f"a client got {got} of {wanted} bytes in {DONE_WITHIN_S:.0f} s")
        await asyncio.sleep(0.02)


async def _thresholds_meanwhile(port: int, seconds: float, movers: int) -> list[float]:
    """Run `_thresholds` while nodes near each other move once a second."""
    async with contextlib.AsyncExitStack() as stack:
        url = f"mqtt://127.0.0.1:{port}"
        nodes = [
            await stack.enter_async_context(connect(url, node=f"mover-{number}"))
            for number in range(movers)
        ]

        async def walk() -> None:
            for step in itertools.count():
                for number, node in enumerate(nodes):
                    await node.move(53.3 + 1e-4 * number + 1e-5 * (step % 50), -6.2)
                await asyncio.sleep(1.0)

        walking = asyncio.create_task(walk())
        try:
            return await _thresholds(port, seconds)
        finally:
            walking.cancel()


async def _thresholds(port: int, seconds: float) -> list[float]:
    """Let PARTS nodes publish to one spot after another; return the latency of each aggregate.

    Latency is counted from the publication of the last node, which completes the threshold.
    """
    url = f"mqtt://127.0.0.1:{port}"
    completed: dict[str, float] = {}
    took: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        people = [
            await stack.enter_async_context(connect(url, node=f"person-{number}"))
            for number in range(PARTS)
        ]
        watcher = await stack.enter_async_context(connect(url, node="watcher"))
        events = await stack.enter_async_context(watcher.subscribe("spots/#"))

        async def watch() -> None:
            async for event in events:
                if event.publisher == "$pipeline":
                    began = completed.pop(event.subject, None)
                    if began is not None and began >= started + WARM_UP_S:
                        took.append(time.monotonic() - began)

        started, spot, sent = time.monotonic(), 0, 0
        watching = asyncio.create_task(watch())
        while time.monotonic() - started < WARM_UP_S + seconds:
            for number, person in enumerate(people):
                if number == PARTS - 1:
                    completed[f"spots/{spot}"] = time.monotonic()
                await person.publish(f"spots/{spot}", json.dumps({"n": sent}).encode(), qos=0)
                sent += 1
            spot += 1
            ahead = sent / RATE - (time.monotonic() - started)
            if ahead > 0:
                await asyncio.sleep(ahead)
        deadline = time.monotonic() + LAST_S
        while completed and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        watching.cancel()
    if completed:
        raise BenchmarkError(f"{len(completed)} aggregates did not come within {LAST_S:.0f} s")
    return took
