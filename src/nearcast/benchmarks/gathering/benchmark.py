"""The cost of events that wait for subscribers of one rule: by how many subscribers there are.

All subscribe to one subject with the same `volume`. The engine takes one event a step, as a broker
does with one in a tick. What an event costs until it completes an aggregate is measured apart from
the release, which writes to everybody.
"""

import os
import time
from collections.abc import Callable

from msgspec import Struct

from nearcast.benchmarks.this_machine import machine
from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Published, Subscribed
from nearcast.core.model.payload import attributes_of

SUBJECT = "traffic/n11"
COUNTABLE = 10_000
"""With fewer subscriptions other memory counts more than theirs."""
PAYLOAD = b'{"speed": 42, "lane": "left"}'


class GatheringBenchSettings(Struct, frozen=True):
    """What is measured."""

    subscribers: tuple[int, ...] = (6, 600, 60_000)
    volume: int = 50
    rounds: int = 4


class GatheringCost(Struct, frozen=True):
    """The cost with so many subscribers."""

    subscribers: int
    arrive_us: float
    """Microseconds of an event that waits; the best round."""
    filtered_us: float
    """The same where everybody has a filter, so that each event is matched."""
    release_us: float
    """Microseconds of the event that completes an aggregate, for each subscriber."""
    subscriber_bytes: float | None
    """Memory of a subscription, about; None if there are too few to tell."""


class GatheringBenchResult(Struct, frozen=True):
    """All figures."""

    settings: GatheringBenchSettings
    machine: dict[str, str]
    costs: list[GatheringCost]
    benchmark: str = "gathering"


def run(settings: GatheringBenchSettings, step: Callable[[str], None]) -> GatheringBenchResult:
    """Measure; `step` is told what is measured."""
    costs = []
    for count in settings.subscribers:
        step(f"{count} subscribers")
        costs.append(_cost(settings, count))
    return GatheringBenchResult(settings, machine(), costs)


def _cost(settings: GatheringBenchSettings, count: int) -> GatheringCost:
    before = _memory()
    engine = _engine(settings, count, filtered=False)
    of_subscriptions = _memory() - before
    arrive_us, release_us = _round_us(engine, settings)
    filtered_us, _ = _round_us(_engine(settings, count, filtered=True), settings)
    return GatheringCost(
        count,
        arrive_us,
        filtered_us,
        release_us / count,
        of_subscriptions / count if count >= COUNTABLE else None,
    )


def _engine(settings: GatheringBenchSettings, count: int, *, filtered: bool) -> Engine:
    engine, where = Engine(), parse("speed > 1") if filtered else None
    rule = f"volume {settings.volume} at most 10000"
    engine.step(
        [
            Subscribed(Subscription(f"{name}\0s", name, SUBJECT, where, aggregate=rule))
            for name in (f"c{number}" for number in range(count))
        ],
        0.0,
    )
    return engine


def _round_us(engine: Engine, settings: GatheringBenchSettings) -> tuple[float, float]:
    """Return microseconds of an event that waits, and of a release: the best of all rounds."""
    arrive = release = float("inf")
    for number in range(settings.rounds):
        events = [_event(f"{number}", place) for place in range(settings.volume)]
        start = time.process_time()
        for event in events[:-1]:
            assert not engine.step([event], 1.0).sent
        waited = time.process_time()
        assert engine.step([events[-1]], 1.0).sent
        release = min(release, time.process_time() - waited)
        arrive = min(arrive, (waited - start) / (settings.volume - 1))
    return 1e6 * arrive, 1e6 * release


def _event(name: str, number: int) -> Published:
    said = attributes_of(PAYLOAD)
    return Published(
        Event(f"{name} {number}", SUBJECT, f"car-{number}", 1.0, said, payload=PAYLOAD)
    )


def _memory() -> int:
    """The resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
