"""Tracks of moving nodes as points in space, and the pairs of them: real ones, or of a city."""

import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nearcast.core.compiled import compiled
from nearcast.core.model.geometry.geodesy import ecef
from nearcast.simulation.movement.fixes import PERFECT, FixQuality, fixes_of
from nearcast.simulation.movement.population import MovementKind, population

F64 = npt.NDArray[np.float64]

TAXIS = "sf_cabs_20080605_06.parquet"
PEDESTRIANS = "peds_eth_ucy.parquet"
WALKING_GROUPS = "peds_groups.parquet"


class Track(Struct, frozen=True):
    """The fixes of one node: times, and one point in space for each."""

    name: str
    times: F64
    points: F64


class PairTrack(Struct, frozen=True):
    """The fixes of two nodes, instant by instant; NaN where one has none."""

    names: tuple[str, str]
    times: F64
    first: F64
    second: F64

    @property
    def fixes(self) -> int:
        """How many fixes both have."""
        return int((~np.isnan(self.first[:, 0])).sum() + (~np.isnan(self.second[:, 0])).sum())


def pair_track(a: Track, b: Track) -> PairTrack:
    """Return two tracks by instants: fixes of one time are one instant."""
    times = np.union1d(a.times, b.times)
    columns = []
    for track in (a, b):
        points = np.full((len(times), 3), np.nan)
        points[np.searchsorted(times, track.times)] = track.points
        columns.append(points)
    return PairTrack((a.name, b.name), times, columns[0], columns[1])


def read_tracks(file: Path) -> list[Track]:
    """Return the tracks of a Parquet file of `entity_id, ts, lat, lon`."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(file, columns=["entity_id", "ts", "lat", "lon"])
    names = table["entity_id"].to_numpy(zero_copy_only=False)
    times = pc.cast(table["ts"], "int64").to_numpy() / 1000.0
    points = points_of(table["lat"].to_numpy(), table["lon"].to_numpy())
    order = np.lexsort((times, names))
    names, times, points = names[order], times[order], points[order]
    starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
    ends = np.r_[starts[1:], len(names)]
    found = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        # Of several fixes at one time the last counts.
        last = np.r_[times[start + 1 : end] != times[start : end - 1], True]
        track = Track(str(names[start]), times[start:end][last], points[start:end][last])
        found.append(track)
    return found


def random_pairs(tracks: list[Track], count: int, draw: random.Random) -> Iterator[PairTrack]:
    """Yield different random pairs."""
    most = len(tracks) * (len(tracks) - 1) // 2
    seen: set[tuple[int, int]] = set()
    while len(seen) < min(count, most):
        a, b = sorted(draw.sample(range(len(tracks)), 2))
        if (a, b) not in seen:
            seen.add((a, b))
            yield pair_track(tracks[a], tracks[b])


def pairs_together(tracks: list[Track]) -> list[tuple[Track, Track]]:
    """Return all pairs that share two instants or more."""
    found = []
    for a, b in combinations(tracks, 2):
        if a.times[0] <= b.times[-1] and b.times[0] <= a.times[-1]:
            shared = np.intersect1d(a.times, b.times, assume_unique=True)
            if len(shared) > 1:
                found.append((a, b))
    return found


def read_groups(file: Path) -> set[tuple[str, str]]:
    """Return the pairs of pedestrians who were seen to walk together, by name."""
    import pyarrow.parquet as pq

    members: dict[str, list[str]] = {}
    for row in pq.read_table(file).to_pylist():
        members.setdefault(row["group_id"], []).append(row["entity_id"])
    return {pair for group in members.values() for pair in combinations(sorted(group), 2)}


def city_tracks(kind: MovementKind, nodes: int, seconds: float, seed: int) -> list[Track]:
    """Return the tracks of nodes of an invented city, for those who have no real ones."""
    quality = FixQuality(every_s=60.0) if kind is MovementKind.VEHICLES else PERFECT
    found = []
    for node in population(kind, nodes, seed):
        fixes = list(fixes_of(node, quality, seconds, seed))
        times = np.array([fix.time_s for fix in fixes])
        lat = np.array([fix.position.lat for fix in fixes])
        lon = np.array([fix.position.lon for fix in fixes])
        found.append(Track(node.name, times, points_of(lat, lon)))
    return found


@compiled
def points_of(lat: F64, lon: F64) -> F64:
    """Return points in space."""
    found = np.empty((len(lat), 3))
    for i in range(len(lat)):
        found[i, 0], found[i, 1], found[i, 2] = ecef(lat[i], lon[i])
    return found
