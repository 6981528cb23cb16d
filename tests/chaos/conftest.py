"""Chance that can be repeated: a failure tells the seed, which `NEARCAST_SEED` sets."""

import random

import pytest

from tests.chaos.workers import SEED


@pytest.fixture(scope="module")
def chance() -> random.Random:
    print(f"NEARCAST_SEED={SEED}")  # noqa: T201  # pytest shows it where a test fails
    return random.Random(SEED)
