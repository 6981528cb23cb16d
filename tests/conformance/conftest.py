"""One broker for each module; each test hangs up its own clients.

A module that says `KEEPS = True` has a broker with a data directory and doors, as users have it.
"""

from collections.abc import Iterator

import pytest

from tests.support.running_broker import RunningBroker


@pytest.fixture(scope="module")
def shared_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    keeps = getattr(request.module, "KEEPS", False)
    running = RunningBroker(data=tmp_path_factory.mktemp("data") if keeps else None)
    yield running
    running.validate()
    running.stop()


@pytest.fixture
def broker(shared_broker: RunningBroker) -> Iterator[RunningBroker]:
    yield shared_broker
    shared_broker.hang_up()
