"""The matching benchmark: Nearcast and its peers on the same city, in one run.

Each peer must find the same pairs as Nearcast on a sample of the events before it is timed. Rates
are per CPU-second, so that servers and libraries can be compared, also on a busy machine.
"""

import platform
import time
from collections.abc import Callable
from importlib import metadata

import numpy as np
from msgspec import Struct

from nearcast.benchmarks import city as cities
from nearcast.benchmarks.matching.agreement import MatchingCity, check_agreement
from nearcast.benchmarks.matching.first_start import first_start_s
from nearcast.benchmarks.matching.nearcast_side import BATCHES, NearcastFigures, measure
from nearcast.benchmarks.matching.peers import PEERS, MatchedPairs, MatchingPeer
from nearcast.benchmarks.this_machine import machine
from nearcast.benchmarks.timing import peer_cpu_s, peer_rate, whole_rate

LARGEST_FOR_PEERS = 1_000_000
"""Beyond this size, loading the peers takes too much time and memory for what it shows."""


class MatchingBenchSettings(Struct, frozen=True):
    """Settings of the matching benchmark."""

    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    events: int = 20_000
    seed: int = 1
    peers: tuple[str, ...] = tuple(PEERS)
    sample: int = 256
    """Number of events on which all must agree."""
    budget_s: float = 8.0
    """Approximate CPU seconds for timing one peer at one size; all events at once take more."""
    runs: int = 3


class PeerFigures(Struct, frozen=True):
    """Figures of a peer; `skipped` is the reason if it was not measured."""

    describe: str
    skipped: str | None = None
    events_per_s: dict[str, float] = {}
    """By batch size; the last is the best of all sizes and of all events at once."""
    ratios: dict[str, float] = {}
    """Nearcast's events per CPU-second as a multiple of the peer's, by batch size."""
    load_s: float | None = None
    """CPU seconds to load all subscriptions and to build any index."""
    events_timed: dict[str, int] = {}


class SizeFigures(Struct, frozen=True):
    """Figures for one number of subscriptions."""

    subscriptions: int
    people: int
    events: int
    nearcast: NearcastFigures
    peers: dict[str, PeerFigures]


class MatchingResult(Struct, frozen=True):
    """The result of a whole run."""

    benchmark: str
    started: str
    settings: MatchingBenchSettings
    machine: dict[str, str]
    versions: dict[str, str]
    first_start_s: float
    sizes: list[SizeFigures]


def run(settings: MatchingBenchSettings, step: Callable[[str], None]) -> MatchingResult:
    """Run the benchmark; `step` gets progress texts. Raises BenchmarkError."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    missing = {name: PEERS[name].missing() for name in settings.peers}
    step("starting Python anew")
    start_s = first_start_s(settings.runs)
    sizes = [_size(size, settings, missing, step) for size in settings.sizes]
    return MatchingResult(
        benchmark="matching",
        started=started,
        settings=settings,
        machine=machine(),
        versions=_versions(missing),
        first_start_s=start_s,
        sizes=sizes,
    )


def _size(
    size: int,
    settings: MatchingBenchSettings,
    missing: dict[str, str | None],
    step: Callable[[str], None],
) -> SizeFigures:
    def tell(what: str) -> None:
        step(f"{size:,} subscriptions: {what}")

    tell("drawing the city")
    city = draw(size, settings.events, settings.seed)
    figures, pairs = measure(city, min(settings.sample, settings.events), settings.runs, tell)
    peers = {}
    for name, lacks in missing.items():
        describe = PEERS[name].describe
        if lacks is not None:
            peers[name] = PeerFigures(describe, skipped=f"not installed: {lacks}")
        elif size > LARGEST_FOR_PEERS:
            reason = f"not run beyond {LARGEST_FOR_PEERS:,} subscriptions"
            peers[name] = PeerFigures(describe, skipped=reason)
        else:
            tell(f"{name}, {describe}")
            peers[name] = _peer(name, city, pairs, figures, settings)
    return SizeFigures(size, len(city.people.lat), settings.events, figures, peers)


def draw(size: int, events: int, seed: int) -> MatchingCity:
    """Draw a city with `size` subscriptions."""
    rng = np.random.default_rng(seed)
    people = cities.draw_people(-(-size // cities.PEOPLE_PER), rng)
    subscriptions = cities.draw_subscriptions(size, rng)
    return MatchingCity(subscriptions, people, cities.draw_events(events, rng))


def _peer(
    name: str,
    city: MatchingCity,
    ours: MatchedPairs,
    figures: NearcastFigures,
    settings: MatchingBenchSettings,
) -> PeerFigures:
    peer = PEERS[name].start()
    try:
        load_s = peer_cpu_s(peer, lambda: peer.load(city.subscriptions, city.people))
        sample = min(settings.sample, settings.events)
        check_agreement(city, name, peer.match(city.events, 0, sample), ours)
        rates, timed = _peer_rates(peer, city, settings)
    finally:
        peer.close()
    return PeerFigures(
        describe=PEERS[name].describe,
        events_per_s=rates,
        ratios={size: figures.events_per_s[size] / rate for size, rate in rates.items()},
        load_s=load_s,
        events_timed=timed,
    )


def _peer_rates(
    peer: MatchingPeer, city: MatchingCity, settings: MatchingBenchSettings
) -> tuple[dict[str, float], dict[str, int]]:
    rates, timed = {}, {}
    share_s = settings.budget_s / len(BATCHES)
    for size in BATCHES:
        rates[str(size)], timed[str(size)] = peer_rate(
            peer, city.events, size, share_s, settings.runs
        )
    # Databases are fastest with all events in one query: measure that if it fits the budget.
    largest = str(BATCHES[-1])
    if settings.events / rates[largest] <= 2.0 * settings.budget_s:
        rates["all"] = whole_rate(peer, city.events, settings.runs)
        timed["all"] = settings.events
    best = max(rates, key=lambda size: rates[size])
    rates[largest], timed[largest] = rates[best], timed[best]
    sizes = [str(size) for size in BATCHES]
    return {size: rates[size] for size in sizes}, {size: timed[size] for size in sizes}


def _versions(missing: dict[str, str | None]) -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("nearcast", "numpy", "numba"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed as a package"
    for name, lacks in missing.items():
        if lacks is None:
            versions[name] = PEERS[name].version()
    return versions
