"""Nearcast's own figures for one size of the city: matching, moving, adding, removing, memory."""

import ctypes
import gc
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import numpy as np
from msgspec import Struct

from nearcast.benchmarks import city as cities
from nearcast.benchmarks.city import I32
from nearcast.benchmarks.matching.agreement import MatchingCity
from nearcast.benchmarks.matching.peers.peer import MatchedPairs
from nearcast.benchmarks.timing import best_cpu_s, cpu_s
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import Event, Position
from nearcast.core.model.event_batch import EventBatch

BATCHES = (1, 64, 4096)
OBJECT_BATCHES = (1, 64)
SINGLE_CALLS = 2_000
"""Number of events in batches of one, and of single calls of `move`, `add` and `remove`."""

CHUNK = 50_000
STEP_M = 30.0


class NearcastFigures(Struct, frozen=True):
    """Figures of Nearcast; rates are per CPU-second, costs in CPU-microseconds."""

    matches_per_event: float
    events_per_s: dict[str, float]
    """By batch size, given prepared batches."""
    from_objects_per_s: dict[str, float]
    """By batch size, including building each batch from `Event` values."""
    us_per_event: float
    us_per_match: float | None
    bytes_per_subscription: float
    rss_bytes_per_subscription: float | None
    move_us: float
    move_single_us: float
    add_us: float
    add_single_us: float
    remove_us: float
    remove_single_us: float
    statistics: dict[str, int]


def measure(
    city: MatchingCity, sample: int, runs: int, step: Callable[[str], None]
) -> tuple[NearcastFigures, MatchedPairs]:
    """Measure all figures; also return the pairs of the first `sample` events."""
    step("warming up")
    _warm_up(city)
    before = _rss_bytes()
    matcher = Matcher()
    step("adding subscriptions")
    numbers, add_s = _filled(matcher, city)
    people = len(city.people.lat)
    rows = matcher.rows(f"p{i}" for i in range(people))
    matcher.move_many(rows, city.people.lat, city.people.lon)
    after = _rss_bytes()
    step("matching")
    rates, found = _rates(matcher, city, runs)
    step("matching from objects")
    objects = _object_rates(matcher, city, runs)
    pairs = _sampled(matcher, city, numbers, sample)
    nbytes, statistics = matcher.nbytes, matcher.statistics()
    step("moving everyone")
    move_us, move_single_us = _moves(matcher, city, rows, runs)
    step("adding and removing one by one")
    add_single_us, remove_single_us = _singles(matcher, city)
    step("removing")
    some = np.random.default_rng(0).permutation(numbers)[: max(1, len(numbers) // 10)]
    remove_us = cpu_s(lambda: matcher.remove_many(some)) / len(some) * 1e6
    fastest = 1e6 / rates[str(BATCHES[-1])]
    matches = found / len(city.events.lat)
    figures = NearcastFigures(
        matches_per_event=matches,
        events_per_s=rates,
        from_objects_per_s=objects,
        us_per_event=fastest,
        us_per_match=fastest / matches if matches else None,
        bytes_per_subscription=nbytes / len(city),
        rss_bytes_per_subscription=(
            (after - before) / len(city) if before is not None and after is not None else None
        ),
        move_us=move_us,
        move_single_us=move_single_us,
        add_us=add_s / len(city) * 1e6,
        add_single_us=add_single_us,
        remove_us=remove_us,
        remove_single_us=remove_single_us,
        statistics=statistics,
    )
    return figures, pairs


def _warm_up(city: MatchingCity) -> None:
    matcher = Matcher()
    count = min(1_000, len(city))
    numbers = matcher.add_many(cities.nearcast_subscriptions(city.subscriptions, 0, count))
    at = Position(float(city.people.lat[0]), float(city.people.lon[0]))
    matcher.move("p0", at)
    rows = matcher.rows(("p0",))
    matcher.move_many(rows, city.people.lat[:1], city.people.lon[:1])
    for size in BATCHES:
        matcher.match(cities.nearcast_batch(city.events, 0, min(size, len(city.events.lat))))
    matcher.remove_many(numbers)


def _filled(matcher: Matcher, city: MatchingCity) -> tuple[I32, float]:
    numbers: list[I32] = []
    used = 0.0
    for first in range(0, len(city), CHUNK):
        last = min(len(city), first + CHUNK)
        some = cities.nearcast_subscriptions(city.subscriptions, first, last)
        used += cpu_s(lambda some=some: numbers.append(matcher.add_many(some)))  # type: ignore[misc]
    return np.concatenate(numbers), used


def _rates(matcher: Matcher, city: MatchingCity, runs: int) -> tuple[dict[str, float], int]:
    rates = {}
    found = 0
    for size in BATCHES:
        count = _count(city, size)
        batches = [
            cities.nearcast_batch(city.events, first, min(count, first + size))
            for first in range(0, count, size)
        ]
        rates[str(size)] = count / best_cpu_s(lambda b=batches: _match_all(matcher, b), runs)  # type: ignore[misc]
        found = _match_all(matcher, batches)
    return rates, found


def _object_rates(matcher: Matcher, city: MatchingCity, runs: int) -> dict[str, float]:
    rates = {}
    for size in OBJECT_BATCHES:
        count = _count(city, size)
        columns = cities.nearcast_batch(city.events, 0, count)
        events = [columns.event(i) for i in range(count)]
        lists = [events[first : first + size] for first in range(0, count, size)]
        rates[str(size)] = count / best_cpu_s(lambda e=lists: _build_and_match(matcher, e), runs)  # type: ignore[misc]
    return rates


def _count(city: MatchingCity, size: int) -> int:
    return min(len(city.events.lat), SINGLE_CALLS) if size == 1 else len(city.events.lat)


def _match_all(matcher: Matcher, batches: Sequence[EventBatch]) -> int:
    found = 0
    for batch in batches:
        found += len(matcher.match(batch).event)
    return found


def _build_and_match(matcher: Matcher, lists: Sequence[Sequence[Event]]) -> None:
    for events in lists:
        matcher.match(EventBatch.of(events))


def _sampled(matcher: Matcher, city: MatchingCity, numbers: I32, sample: int) -> MatchedPairs:
    row_of = np.full(int(numbers.max()) + 1, -1, np.int32)
    row_of[numbers] = np.arange(len(numbers), dtype=np.int32)
    events, rows = [], []
    for first in range(0, sample, 64):
        last = min(sample, first + 64)
        matches = matcher.match(cities.nearcast_batch(city.events, first, last))
        events.append(matches.event + np.int32(first))
        rows.append(row_of[matches.subscription])
    return MatchedPairs(np.concatenate(events), np.concatenate(rows))


def _moves(matcher: Matcher, city: MatchingCity, rows: I32, runs: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    lat, lon = city.people.lat, city.people.lon
    used = []
    for _ in range(runs):
        lat = lat + rng.normal(0.0, STEP_M / np.sqrt(2.0), len(lat)) / cities.M_PER_LAT
        lon = lon + rng.normal(0.0, STEP_M / np.sqrt(2.0), len(lon)) / cities.M_PER_LON
        order = rng.permutation(len(rows))
        arguments = rows[order], lat[order], lon[order]
        used.append(cpu_s(lambda a=arguments: matcher.move_many(*a)) / len(rows))  # type: ignore[misc]
    some = rng.permutation(len(rows))[:SINGLE_CALLS]
    moves = [(f"p{i}", Position(float(lat[i]) + 0.0002, float(lon[i]))) for i in some.tolist()]

    def move_one_by_one() -> None:
        for node, position in moves:
            matcher.move(node, position)

    return min(used) * 1e6, cpu_s(move_one_by_one) / len(moves) * 1e6


def _singles(matcher: Matcher, city: MatchingCity) -> tuple[float, float]:
    some = cities.nearcast_subscriptions(city.subscriptions, 0, min(SINGLE_CALLS, len(city)))
    numbers: list[int] = []

    def add_one_by_one() -> None:
        numbers.extend(matcher.add(subscription) for subscription in some)

    def remove_one_by_one() -> None:
        for number in numbers:
            matcher.remove(number)

    return cpu_s(add_one_by_one) / len(some) * 1e6, cpu_s(remove_one_by_one) / len(some) * 1e6


def _rss_bytes() -> int | None:
    """Resident memory after returning free memory to the system; None without psutil."""
    if not find_spec("psutil"):
        return None
    import psutil

    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return int(psutil.Process().memory_info().rss)
