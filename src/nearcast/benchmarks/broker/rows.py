"""The rows of the broker benchmark: the load of each row, and its target ratio to mosquitto."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from nearcast.benchmarks.load.orders import (
    AcknowledgementLatency,
    FanOut,
    Ingest,
    Latency,
    Order,
    Sparse,
    Target,
)

PUBLISHERS = 10
INGEST_CHUNK = 256
CHUNK, SMALLER_CHUNK = 128, 64
OUTSTANDING = 2
"""Chunks in flight at once, so that the next has arrived while one is being counted."""
SPARSE_CHUNK = 100


class BrokerBenchSettings(Struct, frozen=True):
    """Settings of the broker benchmark."""

    deliveries: int = 300_000
    """Approximate number of messages delivered (ingest: accepted) in a run of a row."""
    fan_outs: tuple[int, ...] = (1, 10, 100, 1_000)
    pairs: int = 100
    connections: int = 10_000
    rounds: int = 3
    """Messages per connection in the sparse row."""
    latency_messages: int = 1_000
    runs: int = 3
    settle_s: float = 1.3
    """Seconds to wait until the log is written, so that its CPU time is counted."""
    rows: tuple[str, ...] = ()
    """Names of the rows to run; empty for all."""


class BenchRow(NamedTuple):
    """One row: the order for the load generator, given a broker, and the target."""

    name: str
    describe: str
    order: Callable[[Target], Order]
    wanted: float | None = None
    """Target rate as a multiple of mosquitto's."""
    receivers: int = 0
    """Number of receivers, in rows that show the growth of cost with it; otherwise 0."""
    has_floor: bool = False
    """True if the commit floor is measured as well."""
    anew: bool = False
    """True if every run starts a fresh broker."""


def flow_rows(settings: BrokerBenchSettings) -> list[BenchRow]:
    """The rows that measure messages per CPU-second."""
    return [
        _ingest(0, 1.0, settings),
        _ingest(1, 0.7, settings),
        *(_pipelined(receivers, settings) for receivers in settings.fan_outs),
        *(_one_at_a_time(n, settings) for n in settings.fan_outs if n == 1 or n >= 100),
        _pairs(settings),
        BenchRow(
            "sparse",
            f"{settings.connections:,} pairs, sparse",
            partial(
                Sparse,
                connections=settings.connections,
                chunk=SPARSE_CHUNK,
                rounds=settings.rounds,
                outstanding=OUTSTANDING,
            ),
            wanted=0.7,
        ),
    ]


def latency_rows(settings: BrokerBenchSettings) -> list[BenchRow]:
    """The rows that measure latency."""
    messages, many = settings.latency_messages, min(100, max(settings.fan_outs))
    return [
        BenchRow(
            "latency-1",
            "1→1, 500 a second",
            partial(Latency, receivers=1, messages=messages, per_s=500.0),
        ),
        BenchRow(
            f"latency-{many}",
            f"1→{many}, 20 a second",
            partial(Latency, receivers=many, messages=_parts(messages, 25), per_s=20.0),
        ),
        BenchRow(
            "latency-qos1",
            "QoS 1 → ack, 200 a second",
            partial(AcknowledgementLatency, messages=_parts(2 * messages, 5), per_s=200.0),
            has_floor=True,
        ),
        BenchRow(
            "single-qos1",
            "QoS 1 → ack, one at a time",
            partial(AcknowledgementLatency, messages=2 * messages),
            has_floor=True,
        ),
    ]


def _ingest(qos: int, wanted: float, settings: BrokerBenchSettings) -> BenchRow:
    order = partial(
        Ingest,
        qos=qos,
        publishers=PUBLISHERS,
        chunk=INGEST_CHUNK,
        chunks=_parts(settings.deliveries, PUBLISHERS * INGEST_CHUNK),
    )
    return BenchRow(f"ingest-qos{qos}", f"ingest QoS {qos}", order, wanted)


def _pipelined(receivers: int, settings: BrokerBenchSettings) -> BenchRow:
    chunk = SMALLER_CHUNK if receivers >= 1_000 else CHUNK
    # Batched writes are cheap: without more messages the run would be too short to measure.
    deliveries = settings.deliveries * (3 if receivers >= 100 else 1)
    order = partial(
        FanOut,
        topics=1,
        receivers=receivers,
        chunk=chunk,
        chunks=_parts(deliveries, chunk * receivers),
        outstanding=OUTSTANDING,
    )
    wanted = 1.0 if receivers == 1 else 3.0 if receivers >= 100 else None
    name = f"pipelined-{receivers}"
    return BenchRow(name, f"1→{receivers}, pipelined", order, wanted, receivers)


def _one_at_a_time(receivers: int, settings: BrokerBenchSettings) -> BenchRow:
    # One message to one receiver is mostly waiting: fewer messages take as long.
    messages = min(settings.deliveries // receivers, settings.deliveries // 15)
    order = partial(
        FanOut,
        topics=1,
        receivers=receivers,
        chunk=1,
        chunks=max(1, messages),
        outstanding=1,
    )
    return BenchRow(f"single-{receivers}", f"1→{receivers}, one at a time", order, 0.7)


def _pairs(settings: BrokerBenchSettings) -> BenchRow:
    order = partial(
        FanOut,
        topics=settings.pairs,
        receivers=1,
        chunk=SMALLER_CHUNK,
        chunks=_parts(settings.deliveries, settings.pairs * SMALLER_CHUNK),
        outstanding=OUTSTANDING,
    )
    return BenchRow("pairs", f"{settings.pairs} pairs, pipelined", order, 1.0)


def _parts(whole: int, part: int) -> int:
    return max(1, whole // part)
