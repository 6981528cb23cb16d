"""The thin-link benchmark: how long urgent events take where four times too much is offered.

Two clients, each behind a proxy that passes 200 kb/s, subscribe to the same messages of QoS 1: one
with relevance, one without. The broker measures the link of the first and classifies it; from then
on most of what is offered has low priority for that client. At the end the links recover, and all
that was offered must arrive, once.
"""

import random
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.attacked_broker import AttackedBroker
from nearcast.benchmarks.attacks.raw_connection import RawConnection, connected, drive
from nearcast.benchmarks.broker.peers import OURS
from nearcast.benchmarks.thin_link.subscriber import TOPIC, Content, Subscriber
from nearcast.benchmarks.thin_link.thin_proxy import BufferFigures, ThinProxy, measure_buffers
from nearcast.benchmarks.this_machine import machine
from nearcast.wire.mqtt import Connect, PubAck, Publish, encode

ADAPTED, PLAIN = "with relevance", "without"
WHERE, RELEVANCE = "urgent = 1 OR urgent = 0", "levels:3,1"
WAITING_BYTES = 16_384
"""What may be in the way of an urgent event: buffers on the link, and a message or so."""
WANTED_RATIO = 30.0
_DROPS_S = 0.005


class ThinLinkSettings(Struct, frozen=True):
    """Settings of the thin-link benchmark."""

    kbps: float = 200.0
    excess: float = 4.0
    """How many times the rate of the link is offered."""
    largest_bytes: int = 4_096
    urgent_every_s: float = 0.2
    seconds: float = 40.0
    """From the time when the link is classified until it recovers."""
    classified_within_s: float = 15.0
    quiet_events: int = 20
    """Urgent events before there is any load, for the round trip."""
    seed: int = 1


class UrgentFigures(Struct, frozen=True):
    """How long urgent events took, and what became of everything."""

    urgent: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    others: int
    """Messages that were not urgent."""
    arrived_thin: int
    """How many of them had arrived when the link recovered."""
    lost: int
    doubled: int


class ThinLinkResult(Struct, frozen=True):
    """All figures."""

    settings: ThinLinkSettings
    machine: dict[str, str]
    buffers: BufferFigures
    round_trip_ms: float
    """The median for urgent events on the idle link."""
    aim_ms: float
    """The round trip and 16 KiB at the rate of the link."""
    classified_s: float | None
    """From the begin of the load until the first delivery of low priority; None: there was none."""
    offered_kbps: float
    clients: dict[str, UrgentFigures]
    ratio: float
    """The 99th percentile without relevance by that with it."""
    failures: list[str]
    benchmark: str = "thin-link"


def run(settings: ThinLinkSettings, step: Callable[[str], None]) -> ThinLinkResult:
    """Run it against a broker in a process of its own."""
    step("measuring buffers")
    buffers = measure_buffers()
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name:
        step("starting the broker")
        broker = AttackedBroker(OURS, Path(name))
        try:
            return _run(settings, broker.port, buffers, step)
        finally:
            broker.stop()
            broker.close()


def _run(
    settings: ThinLinkSettings, port: int, buffers: BufferFigures, step: Callable[[str], None]
) -> ThinLinkResult:
    proxies = {name: ThinProxy(port, settings.kbps) for name in (ADAPTED, PLAIN)}
    relevance = ("nc-where", WHERE), ("nc-relevance", RELEVANCE), ("nc-meta", "1")
    clients = {
        ADAPTED: Subscriber("adapted", proxies[ADAPTED].port, relevance),
        PLAIN: Subscriber("plain", proxies[PLAIN].port, ()),
    }
    offer = _Offer(settings, port)
    try:
        step("on the idle link")
        for _ in range(settings.quiet_events):
            offer.publish_urgent()
            time.sleep(0.05)
        _wait(lambda: all(each.count(1) == offer.urgent for each in clients.values()), 10.0)
        quiet = _latencies(offer, clients[ADAPTED], 0)
        round_trip_ms = _percentile(quiet, 0.5)
        step("until the link is classified")
        offer.start()
        began = time.monotonic()
        classified_s = None
        if _wait(lambda: clients[ADAPTED].priority > 1, settings.classified_within_s):
            classified_s = time.monotonic() - began
        step("urgent events on the thin link")
        first = offer.urgent
        time.sleep(settings.seconds)
        offer.stop()
        thin = {name: each.count(0) for name, each in clients.items()}
        step("the links recover")
        for proxy in proxies.values():
            proxy.recover()
        total = offer.urgent + offer.others
        _wait(lambda: all(len(each.came) == total for each in clients.values()), 120.0)
        figures = {name: _figures(offer, each, first, thin[name]) for name, each in clients.items()}
    finally:
        offer.stop()
        offer.close()
        for client in clients.values():
            client.close()
        for proxy in proxies.values():
            proxy.close()
    aim_ms = round_trip_ms + WAITING_BYTES * 8.0 / settings.kbps
    ratio = figures[PLAIN].p99_ms / figures[ADAPTED].p99_ms if figures[ADAPTED].p99_ms else 0.0
    failures = [
        f"{name}: {each.lost} lost, {each.doubled} doubled"
        for name, each in figures.items()
        if each.lost or each.doubled
    ]
    if classified_s is None:
        failures.append("the link was not classified as thin")
    return ThinLinkResult(
        settings, machine(), buffers, round_trip_ms, aim_ms, classified_s,
        offer.offered_kbps, figures, ratio, failures,
    )  # fmt: skip


class _Offer:
    """The publisher: messages that are not urgent at a steady rate, and urgent ones now and then.

    All by the clock, whether or not the broker has acknowledged what came before.
    """

    def __init__(self, settings: ThinLinkSettings, port: int) -> None:
        self._settings = settings
        self._connection: RawConnection = connected(port, Connect("publisher"))
        self._chance = random.Random(settings.seed)
        self._packet_id = 0
        self._bytes = 0
        self._loaded_s = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.sent_at: list[float] = []
        """When each urgent event was published."""
        self.others = 0

    @property
    def urgent(self) -> int:
        """How many urgent events were published."""
        return len(self.sent_at)

    @property
    def offered_kbps(self) -> float:
        """The rate of messages that are not urgent."""
        return self._bytes * 0.008 / self._loaded_s if self._loaded_s else 0.0

    def start(self) -> None:
        """Begin with the load."""
        self._thread = threading.Thread(target=self._load, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the load once everything is acknowledged."""
        if self._thread is not None:
            self._stopped.set()
            self._thread.join()
            self._thread = None
            drive([self._connection], lambda: self._acknowledged == self._packet_id)

    def close(self) -> None:
        """Cut the connection."""
        self._connection.close()

    def publish_urgent(self) -> None:
        """Publish an urgent event."""
        self.sent_at.append(time.monotonic())
        self._publish(Content(1, self.urgent - 1))

    @property
    def _acknowledged(self) -> int:
        return self._connection.counts[PubAck]

    def _load(self) -> None:
        settings = self._settings
        bytes_per_s = settings.kbps * 125.0 * settings.excess
        began = next_other = time.monotonic()
        next_urgent = began + settings.urgent_every_s
        while not self._stopped.is_set():
            now = time.monotonic()
            if now >= next_urgent:
                next_urgent += settings.urgent_every_s
                self.publish_urgent()
            if now >= next_other:
                size = self._chance.randrange(256, settings.largest_bytes - 200)
                sent = self._publish(Content(0, self.others, "x" * size))
                self._bytes += sent
                self.others += 1
                next_other += sent / bytes_per_s
            drive([self._connection], lambda: False, _DROPS_S, _DROPS_S)
        self._loaded_s = time.monotonic() - began

    def _publish(self, content: Content) -> int:
        self._packet_id += 1
        packet = Publish(TOPIC, msgspec.json.encode(content), qos=1, packet_id=self._packet_id)
        data = encode(packet)
        self._connection.send(data)
        self._connection.write()
        return len(data)


def _figures(offer: _Offer, client: Subscriber, first: int, arrived_thin: int) -> UrgentFigures:
    latencies = _latencies(offer, client, first)
    return UrgentFigures(
        len(latencies), _percentile(latencies, 0.5), _percentile(latencies, 0.99),
        _percentile(latencies, 1.0), offer.others, arrived_thin,
        offer.urgent + offer.others - len(client.came), client.doubled,
    )  # fmt: skip


def _latencies(offer: _Offer, client: Subscriber, first: int) -> list[float]:
    """Milliseconds of the urgent events from a number on, in order of size."""
    return sorted(
        1_000.0 * (client.came[1, number] - offer.sent_at[number])
        for number in range(first, offer.urgent)
        if (1, number) in client.came
    )


def _percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def _wait(done: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
