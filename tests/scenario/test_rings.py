"""Pairs keep silent over a bad network: what both know is true again soon after it heals.

`NEARCAST_RING_RUNS` is another number of runs.
"""

import os

import pytest

from tests.scenario.silent_pair import SilentPair

RUNS, CHUNK = int(os.environ.get("NEARCAST_RING_RUNS", "200")), 50


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_pairs_agree_and_detect_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, min(first + CHUNK, RUNS)):
        SilentPair(seed).run()
