"""CPU time, as the best of several runs, because noise only ever adds to it."""

import time
from collections.abc import Callable
from functools import partial

from nearcast.benchmarks.city import Events
from nearcast.benchmarks.matching.peers.peer import MatchingPeer

FIRST_EVENTS = 16
MOST_GROWTH = 16
LEAST_S = 0.2
"""Minimum CPU seconds of a run: the CPU time of a server has a resolution of 10 ms."""


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of this process for one call of `work`."""
    start = time.process_time()
    work()
    return time.process_time() - start


def best_cpu_s(work: Callable[[], object], runs: int) -> float:
    """The minimum of CPU seconds over several runs."""
    return min(cpu_s(work) for _ in range(runs))


def peer_cpu_s(peer: MatchingPeer, work: Callable[[], object]) -> float:
    """CPU seconds of this process and of the peer's server for one call of `work`."""
    server = peer.server_cpu_s()
    return cpu_s(work) + peer.server_cpu_s() - server


def peer_rate(
    peer: MatchingPeer, events: Events, batch: int, budget_s: float, runs: int
) -> tuple[float, int]:
    """Events per CPU-second and the number of events timed, within about `budget_s` CPU seconds.

    The number of events grows until one run takes half of its share of the budget, or all events
    are used.
    """
    total = len(events.lat)
    count = min(FIRST_EVENTS, total)
    share_s = budget_s / (runs + 1)
    while True:
        used = max(peer_cpu_s(peer, partial(_match, peer, events, count, batch, 1)), 1e-3)
        if count == total or used >= share_s / 2:
            break
        count = min(total, max(2 * count, min(int(count * share_s / used), MOST_GROWTH * count)))
    repeats = max(1, int(min(LEAST_S, share_s) / used))
    work = partial(_match, peer, events, count, batch, repeats)
    least = min(peer_cpu_s(peer, work) for _ in range(runs))
    return count * repeats / max(least, 1e-3), count


def whole_rate(peer: MatchingPeer, events: Events, runs: int) -> float:
    """Events per CPU-second with all events in one call."""
    total = len(events.lat)
    work = partial(_match, peer, events, total, total, 1)
    return total / max(min(peer_cpu_s(peer, work) for _ in range(runs)), 1e-3)


def _match(peer: MatchingPeer, events: Events, count: int, batch: int, repeats: int) -> None:
    for _ in range(repeats):
        for first in range(0, count, batch):
            peer.match(events, first, min(count, first + batch))
