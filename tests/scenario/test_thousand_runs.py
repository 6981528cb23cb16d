"""A thousand runs with faults: sessions, QoS and order are as MQTT and the interface say."""

import pytest

from nearcast.testing import explore
from tests.scenario.household import household

RUNS, CHUNK = 1_000, 50


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_everyone_gets_what_was_promised_whatever_goes_wrong(first: int) -> None:
    assert explore(household, range(first, first + CHUNK)) == CHUNK
