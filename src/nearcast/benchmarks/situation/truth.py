"""Compares the events kept by receivers with the expected deliveries: none lost, none duplicated.

The decisions of a broker must agree exactly. Receivers that decide themselves use a flat
approximation of the Earth, so theirs may differ if the distance is very close to the radius.
"""

from collections.abc import Sequence

import numpy as np

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.situation.city import I64, Journey, distances_m

EDGE = 1e-3
"""Relative distance from the radius within which receivers that decide may answer either way."""


def compare(journey: Journey, kept: Sequence[Sequence[int]], *, exact: bool) -> None:
    """Raise `BenchmarkError` with the first difference beyond the tolerance."""
    movers = journey.scenario.movers
    events = [np.array(own, np.int64) * movers + mover for mover, own in enumerate(kept)]
    codes = np.sort(np.concatenate(events))
    twice = codes[1:][codes[1:] == codes[:-1]]
    if len(twice):
        raise BenchmarkError(f"{_pair(twice, movers)} more than once")
    truth = np.concatenate(journey.truth[1:])
    lost, wrong = np.setdiff1d(truth, codes), np.setdiff1d(codes, truth)
    if not exact:
        lost, wrong = _off_the_edge(journey, lost), _off_the_edge(journey, wrong)
    if len(lost):
        raise BenchmarkError(f"{_pair(lost, movers)} not at all, of {len(truth):,}")
    if len(wrong):
        raise BenchmarkError(f"{_pair(wrong, movers)} although it does not concern it")


def _off_the_edge(journey: Journey, codes: I64) -> I64:
    """The codes whose distance differs from the radius by more than EDGE."""
    movers, radius_m = journey.scenario.movers, journey.scenario.radius_m
    found = []
    for code in codes.tolist():
        event, receiver = divmod(code, movers)
        one = next(each for each in reversed(journey.rounds) if each.first <= event)
        publisher = one.publishers[event - one.first]
        (distance_m,) = distances_m(one, [(publisher, receiver)])
        if abs(distance_m - radius_m) > EDGE * radius_m:
            found.append(code)
    return np.array(found, np.int64)


def _pair(codes: I64, movers: int) -> str:
    event, receiver = divmod(int(codes[0]), movers)
    return f"{len(codes):,} deliveries are wrong: mover {receiver} got event {event}"
