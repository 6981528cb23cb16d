"""A virtual broker that keeps what it is told, and a pipeline that is connected to it."""

from collections.abc import Iterator

import pytest

from nearcast.testing import DiskQuality, VirtualClient, World
from tests.support.clients.pipeline_client import PIPELINE


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=5) as world:
        world.broker(disk=DiskQuality())
        yield world


@pytest.fixture
def pipeline(world: World) -> VirtualClient:
    return world.client("$pipeline~1", PIPELINE)
