"""Servers that tests ask for by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mosquitto import MOSQUITTO, Mosquitto


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Mosquitto]:
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    running = Mosquitto(tmp_path)
    yield running
    running.kill()
