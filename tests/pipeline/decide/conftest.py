"""What the tests of decisions share."""

import pytest

from nearcast.store import Row
from nearcast.testing import World
from tests.support.logs.recorded_life import log_of_a_life


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """The log of a life with crashes."""
    return log_of_a_life(World(seed=77), 80)
