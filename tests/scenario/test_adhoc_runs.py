"""Crowds without a broker: nothing twice, nothing forged, types and orders kept, from many seeds.

`NEARCAST_ADHOC_RUNS` is another number of runs.
"""

import os

import pytest

from tests.scenario.adhoc_crowd import AdhocCrowd

RUNS, CHUNK = int(os.environ.get("NEARCAST_ADHOC_RUNS", "200")), 25


@pytest.mark.parametrize("first", range(1, RUNS + 1, CHUNK))
def test_what_is_promised_holds_whatever_happens(first: int) -> None:
    deliveries = 0
    for seed in range(first, min(first + CHUNK, RUNS + 1)):
        crowd = AdhocCrowd(seed)
        try:
            crowd.run()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        deliveries += crowd.deliveries
    assert deliveries > 0
