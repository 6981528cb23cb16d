"""A thousand runs with faults: sessions, QoS and order are as MQTT and the interface say.

`NEARCAST_RUNS` is another number of runs.
"""

import os

import pytest

from nearcast.testing import explore
from tests.scenario.household import household

RUNS, CHUNK = int(os.environ.get("NEARCAST_RUNS", "1000")), 50


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_everyone_gets_what_was_promised_whatever_goes_wrong(first: int) -> None:
    last = min(first + CHUNK, RUNS)
    assert explore(household, range(first, last)) == last - first
