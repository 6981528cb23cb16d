"""Groups share one ring for each member, and one node checks all its regions at once."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.relationships.silence.regions.region import (
    Ball,
    HalfSpace,
    OutsideBall,
    Point,
    Region,
)
from nearcast.core.relationships.silence.regions.region_table import RegionTable
from nearcast.core.relationships.silence.regions.shared_rings import SharedRings, near_pairs

coordinate = st.floats(-100.0, 100.0)
points = st.tuples(coordinate, coordinate, coordinate)
regions = st.one_of(
    st.builds(Ball, points, st.floats(0.0, 200.0)),
    st.builds(OutsideBall, points, st.floats(0.0, 100.0)),
    st.builds(
        HalfSpace,
        st.sampled_from([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.6, -0.8, 0.0)]),
        st.floats(-50.0, 100.0),
    ),
)


@given(
    kept=st.lists(regions, min_size=1, max_size=8),
    way=st.lists(points, min_size=1, max_size=12),
    changes=st.dictionaries(st.integers(0, 11), regions),
)
def test_a_table_finds_what_each_region_alone_finds(
    kept: list[Region], way: list[Point], changes: dict[int, Region]
) -> None:
    table = RegionTable(kept)
    for number, point in enumerate(way):
        if number in changes:
            kept[number % len(kept)] = changes[number]
            table.replace(number % len(kept), changes[number])
        expected = [at for at, each in enumerate(kept) if each.margin(point, 0.0) < -1e-9]
        found = table.left_by(point)
        assert set(expected) <= set(found)
        assert all(kept[at].margin(point, 0.0) < 1e-9 for at in found)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_knows_of_each_pair_at_the_fix(seed: int) -> None:
    chance = Random(seed)
    places = [(chance.uniform(0.0, 60.0), chance.uniform(0.0, 60.0), 0.0) for _ in range(9)]
    rings = SharedRings(places, 10.0)
    reports = 0
    for _ in range(600):
        member = chance.randrange(9)
        x, y, _ = places[member]
        places[member] = (x + chance.gauss(0.0, 1.0), y + chance.gauss(0.0, 1.0), 0.0)
        reports += len(rings.fix(member, places[member]))
        assert np.array_equal(rings.near(), near_pairs(np.array(places), 10.0))
    assert reports < 600
