"""Meetings of many cells are those of the whole globe, whatever is sent to which of them."""

import math
from collections import Counter
from itertools import accumulate
from random import Random

import numpy as np
import pytest

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.relationships.meetings import Fixes, Meetings, MeetingSettings
from tests.support.plain.plain_meetings import (
    NO_FIX,
    Cells,
    Sighting,
    near_and_apart,
    plain_transitions,
)

METRES_PER_DEGREE = 111_195.0
PLACES = {
    "a city": (53.35, -6.26),
    "the equator and the antimeridian": (0.0, 180.0),
    "the antimeridian in the north": (65.0, -179.9999),
    "the north pole": (90.0, 0.0),
    "near the south pole": (-89.9985, 40.0),
}
SIZES = {
    "cells far larger than the distance": (100.0, 1000.0, 400.0),
    "cells as small as they may be": (100.0, 1.0, 400.0),
    "moves far longer than the distance": (60.0, 1.0, 5000.0),
    "a distance far longer than moves": (3000.0, 1.0, 2000.0),
    "a distance no cell serves": (9_000_000.0, 1.0, 2000.0),
}


def somewhere(random: Random, centre: tuple[float, float], spread_m: float) -> tuple[float, float]:
    """Return a place about a centre, also across a pole or the antimeridian."""
    north, east = (random.uniform(-spread_m, spread_m) for _ in range(2))
    if abs(centre[0]) > 89.9:
        lat = centre[0] - math.copysign(abs(north) / METRES_PER_DEGREE, centre[0])
        return max(-90.0, min(90.0, lat)), random.uniform(-180.0, 180.0)
    lat = centre[0] + north / METRES_PER_DEGREE
    lon = centre[1] + east / METRES_PER_DEGREE / math.cos(math.radians(centre[0]))
    return lat, (lon + 180.0) % 360.0 - 180.0


def walk(random: Random, place: str, spread_m: float, count: int = 250) -> list[Sighting]:
    """Return fixes with ties, silences, nodes that go and come back, in the order of time."""
    nodes = [f"n{number}" for number in range(random.randrange(2, 12))]
    spots = [somewhere(random, PLACES[place], spread_m) for _ in range(4)]
    time = 0.0
    sightings: list[Sighting] = []
    while len(sightings) < count:
        # 0: a tie, also of one node with itself; 120: just fresh; else moments and silences.
        time += random.choice([0.0, 0.0, 1.0, 7.0, 20.0, 60.0, 120.0, 150.0])
        lat, lon = random.choice(spots)
        if random.random() < 0.7:
            lat, lon = somewhere(random, PLACES[place], spread_m)
        gone = random.random() < 0.05
        node = random.choice(nodes)
        sightings.append(Sighting(time, node, *((None, None) if gone else (lat, lon))))
    return sightings


def in_batches(random: Random, sightings: list[Sighting]) -> list[list[Sighting]]:
    batches, start = [], 0
    while start < len(sightings):
        end = start + random.randrange(1, 40)
        batches.append(sightings[start:end])
        start = end
    return batches


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(3))
def test_all_cells_together_tell_each_transition_once(place: str, size: str, seed: int) -> None:
    random = Random(f"{place} {size} {seed}")
    within_m, cell_m, spread_m = SIZES[size]
    settings = MeetingSettings(within_m, cell_m=cell_m)
    sightings = walk(random, place, spread_m)
    cells = Cells(settings)
    for batch in in_batches(random, sightings):
        cells.take(batch)
        if random.random() < 0.5:
            # Some cells know earlier than others how late it is.
            now = batch[-1].time - random.choice([0.0, 30.0, 900.0])
            cells.expire(now, lambda _: random.random() < 0.6)
    cells.expire(math.inf)
    expected = sorted(plain_transitions(sightings, settings))
    assert expected
    assert sorted(near_and_apart(cells)) == expected
    assert cells.nodes() == 0


@pytest.mark.parametrize("seed", range(20))
def test_out_of_order_a_pair_still_alternates_and_never_runs_back(seed: int) -> None:
    random = Random(seed)
    settings = MeetingSettings(100.0, cell_m=1.0)
    sightings = walk(random, "a city", 300.0)
    lagging = {f"n{number}" for number in range(0, 12, 2)}
    # The nodes of one broker come up to a few hundred seconds later than those of another.
    arrivals = sorted(
        sightings,
        key=lambda each: each.time + (random.uniform(0, 300) if each.node in lagging else 0),
    )
    cells = Cells(settings)
    seen = -math.inf
    for batch in in_batches(random, arrivals):
        cells.take(batch)
        seen = max(seen, *(each.time for each in batch))
        cells.expire(seen - 300.0)
    cells.expire(math.inf)
    pairs: dict[tuple[str, str], Counter[float]] = {}
    for a, b, state, time, *_ in near_and_apart(cells):
        pairs.setdefault((a, b), Counter())[time] += 1 if state == "near" else -1
    assert pairs
    for changes in pairs.values():
        states = list(accumulate(changes[time] for time in sorted(changes)))
        # Near and apart may fall on one moment; else each follows the other.
        assert set(states) <= {0, 1}
        assert states[-1] == 0


def test_a_fix_is_fresh_up_to_the_moment_and_let_go_after_it() -> None:
    cells = Cells(MeetingSettings(100.0, fresh_s=120.0))
    cells.take([Sighting(0.0, "ann", 53.35, -6.26), Sighting(1.0, "ben", 53.35, -6.26)])
    cells.expire(120.0)
    assert [told[2:4] for told in cells.told] == [("near", 1.0)]
    cells.expire(120.001)
    assert [told[2:4] for told in cells.told] == [("near", 1.0), ("apart", 120.0)]


def test_each_halving_of_the_distance_is_told() -> None:
    settings = MeetingSettings(100.0)
    at = 53.35, -6.26
    cells = Cells(settings)
    cells.take([Sighting(0.0, "ann", *at)])
    for number, metres in enumerate((90.0, 60.0, 45.0, 48.0, 10.0, 80.0, 40.0)):
        lat = at[0] + metres / METRES_PER_DEGREE
        cells.take([Sighting(1.0 + number, "ben", lat, at[1])])
    assert [(state, time) for _, _, state, time, *_ in cells.told] == [
        ("near", 1.0),
        ("closer", 3.0),
        ("closer", 5.0),
        ("closer", 7.0),
    ]
    assert cells.told[2][4] == pytest.approx(10.0, rel=0.01)


def test_what_stands_where_and_how_far_is_in_a_transition() -> None:
    cells = Cells(MeetingSettings(100.0))
    cells.take([Sighting(5.0, "ben", 53.35, -6.26), Sighting(9.0, "ann", 53.3501, -6.26)])
    a, b, state, time, distance, lat, lon = cells.told[0]
    assert (a, b, state, time, lat, lon) == ("ann", "ben", "near", 9.0, 53.3501, -6.26)
    assert distance == distance_m(53.35, -6.26, 53.3501, -6.26)


def test_state_is_small_and_knows_its_form() -> None:
    settings = MeetingSettings()
    nodes = [f"cab:{number:04d}" for number in range(1000)]
    fixes = np.array([(float(number), 0.0, 0.0) for number in range(1000)])
    meetings = Meetings(settings, _home(settings))
    meetings.advance(Fixes(nodes, fixes, np.array([NO_FIX] * 1000)))
    data = meetings.to_bytes()
    assert len(meetings) == 1000
    assert len(data) < 40 * 1000
    assert meetings.next_expiry() == 120.0
    later = data.replace(b"\x93\x01", b"\x93\x7f", 1)
    with pytest.raises(ModelError, match="build the state anew"):
        Meetings.from_bytes(settings, 0, later)


def _home(settings: MeetingSettings) -> int:
    from nearcast.core.relationships.meeting_cells import cells_of

    return int(cells_of(settings.grid, np.zeros(1), np.zeros(1))[0])
