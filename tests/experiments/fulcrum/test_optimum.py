"""The optimum finds as many runs as plain geometry does, and no strategy sends fewer messages."""

from random import Random

import numpy as np
import pytest
from shapely import MultiPoint, minimum_bounding_radius

from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.experiments.fulcrum.optimum import fewest_messages
from nearcast.experiments.fulcrum.pair_count import count_pair
from nearcast.experiments.fulcrum.tracks import PairTrack

WITHIN = 10.0


def random_track(seed: int, instants: int = 150) -> PairTrack:
    chance = Random(seed)
    columns = []
    for start in (0.0, 30.0):
        x, y, points = start, 0.0, []
        for number in range(instants):
            x, y = 0.97 * x + chance.gauss(0.0, 2.0), 0.97 * y + chance.gauss(0.0, 2.0)
            has_fix = number == 0 or chance.random() < 0.8
            points.append((x, y, 6.4e6) if has_fix else (np.nan, np.nan, np.nan))
        columns.append(np.array(points))
    return PairTrack(("a", "b"), np.arange(float(instants)), columns[0], columns[1])


def plain_runs(track: PairTrack) -> int:
    """Longest runs by hulls and bounding circles."""
    at: list[tuple[float, float] | None] = [None, None]
    held: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    runs, state = 0, None
    for a, b in zip(track.first, track.second, strict=True):
        for who, point in enumerate((a, b)):
            if not np.isnan(point[0]):
                at[who] = (float(point[0]), float(point[1]))
        assert at[0] is not None
        assert at[1] is not None
        near = float(np.hypot(at[0][0] - at[1][0], at[0][1] - at[1][1])) <= WITHIN
        tried = ([*held[0], at[0]], [*held[1], at[1]])
        if near is state and near:
            holds = minimum_bounding_radius(MultiPoint(tried[0] + tried[1])) <= WITHIN / 2.0 + 1e-6
        else:
            hulls = [MultiPoint(points).convex_hull for points in tried]
            holds = near is state and hulls[0].distance(hulls[1]) > WITHIN
        if not holds:
            runs, state = runs + 1, near
            tried = ([at[0]], [at[1]])
        held = tried
    return runs


@pytest.mark.parametrize("seed", range(12))
def test_longest_runs_are_those_of_plain_geometry(seed: int) -> None:
    track = random_track(seed)
    assert fewest_messages(track, WITHIN) == pytest.approx(plain_runs(track) - 1, abs=1)


@pytest.mark.parametrize("seed", range(4))
def test_every_strategy_detects_all_and_needs_at_least_the_optimum(seed: int) -> None:
    track = random_track(seed)
    for strategy in STRATEGIES.values():
        count = count_pair(track, PairSettings(WITHIN, strategy))
        assert count.wrong == 0, strategy.name
        assert count.raw == track.fixes
        if strategy.name in ("ring", "strip"):
            assert count.messages >= fewest_messages(track, WITHIN)
