"""The load generator of the situation benchmark: runs a scenario against a server and measures.

By rounds, as fast as possible: all movers move, until the server has applied it; some publish,
until all deliveries have arrived; at the end the kept events are compared with the expected ones.
Or in real time, for latency. Run it with `python -m`; it reads an order from standard input and
answers with one line.
"""

import gc
import os
import sys
import time
from typing import NamedTuple

import msgspec

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load.process_figures import cpu_s, wait_until_quiet
from nearcast.benchmarks.situation.city import KINDS, STEP_S, Journey, Round, draw_journey
from nearcast.benchmarks.situation.grid import GridWay
from nearcast.benchmarks.situation.orders import (
    GRID,
    NEARCAST,
    Order,
    SituationFailed,
    SituationOutcome,
    SituationPlayed,
)
from nearcast.benchmarks.situation.truth import compare
from nearcast.benchmarks.situation.ways import ClientApproach, KeepEvents, NearcastWay, Told
from nearcast.benchmarks.this_machine import cores_apart
from nearcast.wire.mqtt import ProtocolError

LATE_S = 1.0
"""Seconds to wait for late deliveries: unexpected ones, or the last ones in real time."""


def play(order: Order) -> SituationOutcome:
    """Execute an order and return its figures."""
    journey = draw_journey(order.scenario)
    kept: list[list[int]] = [[] for _ in range(order.scenario.movers)]
    sent_ns = [0] * sum(len(each.publishers) for each in journey.rounds)
    late_ns: list[int] = []

    def keep(mover: int, events: list[int]) -> None:
        kept[mover] += events

    def keep_with_time(mover: int, events: list[int]) -> None:
        now = time.perf_counter_ns()
        late_ns.extend([now - sent_ns[event] for event in events])

    way = _way(order, journey, keep_with_time if order.paced else keep)
    try:
        way.join()
        _play_round(way, journey, 0)
        wait_until_quiet(order.pid, order.settle_s)
        for own in kept:
            own.clear()
        late_ns.clear()
        figures = _Figures.of(order.pid, way)
        gc.collect()
        gc.freeze()
        began = time.perf_counter()
        if order.paced:
            _play_at_the_pace_of_life(way, journey, sent_ns)
        else:
            for number in range(1, len(journey.rounds)):
                _play_round(way, journey, number)
        wall_s = time.perf_counter() - began
        gc.unfreeze()
        client_cpu_s = time.process_time() - figures.client_cpu_s
        wait_until_quiet(order.pid, order.settle_s)
        after = _Figures.of(order.pid, way)
        if not order.paced:
            way.crowd.take_for(LATE_S)
            compare(journey, kept, exact=order.way == NEARCAST)
    finally:
        way.close()
    late_ns.sort()
    return SituationPlayed(
        journey.moves,
        journey.events,
        len(late_ns) if order.paced else journey.useful,
        after.arrived - figures.arrived,
        after.server_cpu_s - figures.server_cpu_s,
        client_cpu_s,
        wall_s,
        after.bytes_moved - figures.bytes_moved,
        after.move_messages - figures.move_messages,
        late_ns[len(late_ns) // 2] / 1e3 if late_ns else None,
        late_ns[len(late_ns) * 99 // 100] / 1e3 if late_ns else None,
    )


class _Figures(NamedTuple):
    """Values of all counters at one moment."""

    server_cpu_s: float
    client_cpu_s: float
    bytes_moved: int
    move_messages: int
    arrived: int

    @staticmethod
    def of(pid: int, way: ClientApproach) -> "_Figures":
        moved, messages = way.bytes_moved(), way.move_messages
        return _Figures(cpu_s(pid), time.process_time(), moved, messages, way.crowd.arrived)


def _way(order: Order, journey: Journey, keep: KeepEvents) -> ClientApproach:
    if order.way == NEARCAST:
        return NearcastWay(journey, keep, order.port)
    if order.way == GRID:
        return GridWay(journey, keep, order.port, order.cell_m, order.kind_in_topic)
    from nearcast.benchmarks.situation.redis import RedisWay

    return RedisWay(journey, keep, order.port)


def _play_round(way: ClientApproach, journey: Journey, number: int) -> None:
    one = journey.rounds[number]
    for mover, (lat, lon) in enumerate(zip(one.lat, one.lon, strict=True)):
        way.move(mover, lat, lon)
    way.settle()
    _tell_all(way, one)
    way.flush()
    way.wait(number)


def _tell_all(way: ClientApproach, one: Round) -> None:
    rows = zip(one.publishers, one.kinds, one.speeds, strict=True)
    for number, (mover, kind, speed) in enumerate(rows, one.first):
        way.tell(mover, Told(number, KINDS[kind], speed), one)


class _Act(NamedTuple):
    """A scheduled action: the publication of an event, or a move."""

    due_s: float
    one: Round
    mover: int
    told: Told | None


def _acts(journey: Journey) -> list[_Act]:
    """Schedule all moves and events, spread evenly over each step."""
    acts: list[_Act] = []
    count = journey.scenario.movers
    for step, one in enumerate(journey.rounds[1:]):
        begin_s = step * STEP_S
        acts += [_Act(begin_s + mover / count * STEP_S, one, mover, None) for mover in range(count)]
        rows = zip(one.publishers, one.kinds, one.speeds, strict=True)
        for number, (mover, kind, speed) in enumerate(rows, one.first):
            due_s = begin_s + (number - one.first + 0.5) / len(one.publishers) * STEP_S
            acts.append(_Act(due_s, one, mover, Told(number, KINDS[kind], speed)))
    acts.sort(key=lambda act: act.due_s)
    return acts


def _play_at_the_pace_of_life(way: ClientApproach, journey: Journey, sent_ns: list[int]) -> None:
    began = time.perf_counter()
    for act in _acts(journey):
        due = began + act.due_s
        while (left := due - time.perf_counter()) > 0.0:
            way.crowd.take(left)
        if act.told is None:
            way.move(act.mover, act.one.lat[act.mover], act.one.lon[act.mover])
        else:
            sent_ns[act.told.event] = time.perf_counter_ns()
            way.tell(act.mover, act.told, act.one)
        way.flush()
        way.crowd.take(0.0)
    way.crowd.take_for(LATE_S)


def main() -> None:
    """Read an order, execute it and write the outcome."""
    # Pinned to its own core: the scheduler would move it to the server's, where it would wait.
    os.sched_setaffinity(0, cores_apart()[1])
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    outcome: SituationOutcome
    try:
        outcome = play(order)
    except (BenchmarkError, ProtocolError, OSError) as error:
        outcome = SituationFailed(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")


if __name__ == "__main__":
    main()
