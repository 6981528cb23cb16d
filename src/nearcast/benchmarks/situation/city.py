"""Movers in a city with hot spots, and the truth of who is concerned by what they tell.

Everyone drives to places where people are, at some 10 m/s, says every two (virtual) seconds where
it is, and tells of something every five. All of it is drawn from a seed beforehand, and so is the
truth that deliveries are compared with: who is within the radius of an event and, where there are
filters, wants its content.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nearcast.benchmarks.city import M_PER_LAT, M_PER_LON, SOUTH, WEST
from nearcast.benchmarks.matching.peers.columns import chord_m, points

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
BOOL = npt.NDArray[np.bool_]

STEP_S, EVENT_EVERY_S = 2.0, 5.0
SPEED_M_S, SPEED_SPREAD, SPEED_LEAST, SPEED_MOST = 10.0, 3.0, 2.0, 20.0
HOT_SPOTS_PER_KM2, HOT_SHARE, HOT_WIDTH_M = 0.02, 0.7, 1_000.0
KINDS = ("car", "bus", "tram", "taxi", "bike", "truck", "works", "crowd")
WANTED_SPEEDS = (20.0, 40.0, 60.0)
DECIMALS = 6
"""Of a degree, as positions are sent: a tenth of a metre."""
EVENTS_AT_ONCE = 128


class Scenario(Struct, frozen=True):
    """Who moves where, and what they want."""

    movers: int = 1_000
    side_m: float = 20_000.0
    rounds: int = 30
    radius_m: float = 1_000.0
    filtered: bool = False
    """Each also wants just one kind, above some speed."""
    seed: int = 1


class Round(NamedTuple):
    """Everyone moves, then some tell of something; events are numbered through."""

    lat: list[float]
    lon: list[float]
    first: int
    publishers: list[int]
    kinds: list[int]
    speeds: list[float]


class Wishes(NamedTuple):
    """What everyone wants of content."""

    kinds: list[int]
    least_speeds: list[float]


class Journey(NamedTuple):
    """A whole run, and what must come of it."""

    scenario: Scenario
    rounds: list[Round]
    wishes: Wishes
    truth: list[I64]
    """For each round the useful deliveries: event number times movers plus receiver, sorted."""

    @property
    def moves(self) -> int:
        """How many there are after the first round, in which everyone just appears."""
        return self.scenario.movers * (len(self.rounds) - 1)

    @property
    def events(self) -> int:
        """How many there are after the first round."""
        return sum(len(each.publishers) for each in self.rounds[1:])

    @property
    def useful(self) -> int:
        """How many useful deliveries there are after the first round."""
        return sum(len(codes) for codes in self.truth[1:])


def draw_journey(scenario: Scenario) -> Journey:
    """Draw everything; the first of `rounds` + 1 is there to warm up."""
    rng = np.random.default_rng(scenario.seed)
    count = scenario.movers
    spots = rng.random((max(1, round(_km2(scenario) * HOT_SPOTS_PER_KM2)), 2)) * scenario.side_m
    at, goal = _places(count, spots, scenario, rng), _places(count, spots, scenario, rng)
    speed = rng.normal(SPEED_M_S, SPEED_SPREAD, count).clip(SPEED_LEAST, SPEED_MOST) * STEP_S
    wishes = Wishes(
        rng.integers(0, len(KINDS), count).tolist(), rng.choice(WANTED_SPEEDS, count).tolist()
    )
    rounds: list[Round] = []
    truth: list[I64] = []
    number = 0
    for _ in range(scenario.rounds + 1):
        told = np.flatnonzero(rng.random(count) < STEP_S / EVENT_EVERY_S)
        lat = np.round(SOUTH + at[:, 1] / M_PER_LAT, DECIMALS)
        lon = np.round(WEST + at[:, 0] / M_PER_LON, DECIMALS)
        kinds = rng.integers(0, len(KINDS), len(told))
        speeds = np.round(rng.gamma(4.0, 11.0, len(told)), 1)
        rounds.append(
            Round(
                lat.tolist(), lon.tolist(), number, told.tolist(), kinds.tolist(), speeds.tolist()
            )
        )
        truth.append(_truth(rounds[-1], wishes, scenario))
        number += len(told)
        way = goal - at
        left = np.hypot(way[:, 0], way[:, 1])
        arrived = left <= speed
        at = np.where(arrived[:, None], goal, at + way * (speed / np.maximum(left, 1e-9))[:, None])
        goal = np.where(arrived[:, None], _places(count, spots, scenario, rng), goal)
    return Journey(scenario, rounds, wishes, truth)


def distances_m(one: Round, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """How far apart pairs of movers are in a round, for what is at the edge."""
    x, y, z = points(np.array(one.lat), np.array(one.lon))
    return [float(np.hypot(np.hypot(x[a] - x[b], y[a] - y[b]), z[a] - z[b])) for a, b in pairs]


def _truth(one: Round, wishes: Wishes, scenario: Scenario) -> I64:
    x, y, z = points(np.array(one.lat), np.array(one.lon))
    limit = float(chord_m(np.array(scenario.radius_m)) ** 2)
    wanted_kind, least = np.array(wishes.kinds), np.array(wishes.least_speeds)
    codes: list[I64] = []
    for start in range(0, len(one.publishers), EVENTS_AT_ONCE):
        some = slice(start, start + EVENTS_AT_ONCE)
        told = np.array(one.publishers[some])
        near: BOOL = (
            (x[told, None] - x) ** 2 + (y[told, None] - y) ** 2 + (z[told, None] - z) ** 2
        ) <= limit
        near[np.arange(len(told)), told] = False
        if scenario.filtered:
            near &= np.array(one.kinds[some])[:, None] == wanted_kind
            near &= np.array(one.speeds[some])[:, None] > least
        event, receiver = np.nonzero(near)
        codes.append((event + one.first + start) * scenario.movers + receiver)
    return np.concatenate(codes) if codes else np.zeros(0, np.int64)


def _places(count: int, spots: F64, scenario: Scenario, rng: np.random.Generator) -> F64:
    hot = spots[rng.integers(0, len(spots), count)] + rng.normal(0.0, HOT_WIDTH_M, (count, 2))
    anywhere = rng.random((count, 2)) * scenario.side_m
    at = np.where((rng.random(count) < HOT_SHARE)[:, None], hot, anywhere)
    inside: F64 = at.clip(0.0, scenario.side_m)
    return inside


def _km2(scenario: Scenario) -> float:
    return (scenario.side_m / 1e3) ** 2
