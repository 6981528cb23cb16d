"""Strategies on tracks: what they save, and how far they are from the clairvoyant optimum."""

import random
from collections.abc import Iterable
from pathlib import Path

from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.regions.region import position_limit
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.experiments.experiment_result import ExperimentRow
from nearcast.experiments.fulcrum.optimum import fewest_messages
from nearcast.experiments.fulcrum.pair_count import PairCount, count_pair
from nearcast.experiments.fulcrum.tracks import (
    PEDESTRIANS,
    TAXIS,
    WALKING_GROUPS,
    PairTrack,
    city_tracks,
    pair_track,
    pairs_together,
    random_pairs,
    read_groups,
    read_tracks,
)
from nearcast.simulation.movement.population import MovementKind

TAXIS_WITHIN_M, PEDESTRIANS_WITHIN_M = 100.0, 2.0
PAPER_SAVES = 81.0
"""Percent of the traffic: Fulcrum itself, as the text says."""
RATIO_NOTE = (
    "Fixed convex regions chosen with the future known: far two half-planes, near one disc; "
    "without set-up, acknowledgements and notices."
)


def taxi_rows(data: Path | None, pairs: int, seed: int) -> list[ExperimentRow]:
    """Return the rows of random pairs of taxis, or of vehicles in an invented city."""
    draw = random.Random(f"{seed}/taxis")
    if data is not None and (data / TAXIS).exists():
        return _rows("taxis", random_pairs(read_tracks(data / TAXIS), pairs, draw), TAXIS_WITHIN_M)
    tracks = city_tracks(MovementKind.VEHICLES, 60, 12 * 3600.0, seed)
    return _rows("vehicles of an invented city", random_pairs(tracks, pairs, draw), TAXIS_WITHIN_M)


def pedestrian_rows(data: Path | None, pairs: int | None, seed: int) -> list[ExperimentRow]:
    """Return the rows of pedestrians who are there together, or of walkers of a square."""
    draw = random.Random(f"{seed}/pedestrians")
    groups: set[tuple[str, str]] = set()
    if data is not None and (data / PEDESTRIANS).exists():
        source = "pedestrians"
        tracks = read_tracks(data / PEDESTRIANS)
        if (data / WALKING_GROUPS).exists():
            groups = read_groups(data / WALKING_GROUPS)
    else:
        source = "walkers of an invented square"
        tracks = city_tracks(MovementKind.WALKERS, 60, 600.0, seed)
    together = pairs_together(tracks)
    if pairs is not None and pairs < len(together):
        together = draw.sample(together, pairs)
    rows = _rows(source, (pair_track(a, b) for a, b in together), PEDESTRIANS_WITHIN_M)
    if groups:
        walking = [(a, b) for a, b in together if (a.name, b.name) in groups]
        rows += _group_rows([pair_track(a, b) for a, b in walking])
    return rows


def _rows(source: str, pairs: Iterable[PairTrack], within_m: float) -> list[ExperimentRow]:
    within = position_limit(within_m)
    counts = {name: PairCount() for name in STRATEGIES}
    fewest = 0
    for pair in pairs:
        fewest += fewest_messages(pair, within)
        for name, strategy in STRATEGIES.items():
            counts[name].add(count_pair(pair, PairSettings(within, strategy)))
    some = next(iter(counts.values()))
    rows = [
        ExperimentRow(source, "pairs", None, some.pairs),
        ExperimentRow(source, "raw", None, some.raw, "messages"),
        ExperimentRow(source, "near or apart began", None, some.changes, "times"),
        ExperimentRow(source, "clairvoyant optimum", None, fewest, "messages", note=RATIO_NOTE),
        ExperimentRow(source, "clairvoyant optimum: saved", None, _saved(fewest, some.raw), "%"),
    ]
    for name, count in counts.items():
        rows += [
            ExperimentRow(source, f"{name}: messages", None, count.messages, "messages"),
            ExperimentRow(
                source, f"{name}: saved", PAPER_SAVES if name == "ring" else None,
                _saved(count.messages, count.raw), "%",
            ),
            ExperimentRow(
                source, f"{name}: times the optimum", None, count.messages / max(fewest, 1)
            ),
            ExperimentRow(source, f"{name}: fixes with a wrong state", None, count.wrong, "fixes"),
        ]  # fmt: skip
    return rows


def _group_rows(pairs: list[PairTrack]) -> list[ExperimentRow]:
    """People who were seen to walk together: how long they are near, and what it costs to know."""
    strategy = STRATEGIES["predictive-strip"]
    settings = PairSettings(position_limit(PEDESTRIANS_WITHIN_M), strategy)
    total, found = PairCount(), 0
    for pair in pairs:
        count = count_pair(pair, settings)
        found += count.near_s > 0.5 * count.together_s
        total.add(count)
    return [
        ExperimentRow("walking groups", "pairs seen to walk together", None, len(pairs)),
        ExperimentRow("walking groups", "of them near for most of the time", None, found),
        ExperimentRow("walking groups", f"{strategy.name}: saved", None,
                      _saved(total.messages, total.raw), "%"),
    ]  # fmt: skip


def _saved(messages: int, raw: int) -> float:
    return 100.0 * (1.0 - messages / max(raw, 1))
