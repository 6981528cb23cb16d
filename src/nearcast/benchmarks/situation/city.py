"""Movers in a city with hot spots, and the expected deliveries of their events.

Each mover drives between places, most of them near hot spots, at about 10 m/s, publishes its
position every two (virtual) seconds, and an event every five on average. The journey is drawn from
a seed in advance, together with the expected deliveries: for each event the movers within the
radius whose filter, if there is one, accepts its content.
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
"""Decimals of a degree in published positions: a tenth of a metre."""
EVENTS_AT_ONCE = 128


class Scenario(Struct, frozen=True):
    """Parameters of a journey."""

    movers: int = 1_000
    side_m: float = 20_000.0
    rounds: int = 30
    radius_m: float = 1_000.0
    filtered: bool = False
    """True if each subscription also requires one kind and a speed above a threshold."""
    seed: int = 1


class Round(NamedTuple):
    """One round: all movers move, then some publish; `first` is the number of its first event."""

    lat: list[float]
    lon: list[float]
    first: int
    publishers: list[int]
    kinds: list[int]
    speeds: list[float]


class Wishes(NamedTuple):
    """Content filters of all movers: kind, and speed to be exceeded."""

    kinds: list[int]
    least_speeds: list[float]


class Journey(NamedTuple):
    """All rounds of a run, and the expected deliveries."""

    scenario: Scenario
    rounds: list[Round]
    wishes: Wishes
    truth: list[I64]
    """Expected deliveries of each round, sorted; code: event number times movers plus receiver."""

    @property
    def moves(self) -> int:
        """Number of moves after the first round, which only sets the initial positions."""
        return self.scenario.movers * (len(self.rounds) - 1)

    @property
    def events(self) -> int:
        """Number of events after the first round."""
        return sum(len(each.publishers) for each in self.rounds[1:])

    @property
    def useful(self) -> int:
        """Number of expected deliveries after the first round."""
        return sum(len(codes) for codes in self.truth[1:])


def draw_journey(scenario: Scenario) -> Journey:
    """Draw a journey of `rounds` + 1 rounds, the first of which is the warm-up."""
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
    """Distances between pairs of movers in a round, to decide cases at the edge of the radius."""
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
