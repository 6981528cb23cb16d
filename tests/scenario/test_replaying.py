"""A run is its seed: it can be had again, to the byte, in another process too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast.testing import World, explore, replay
from tests.scenario.household import household

ROOT = Path(__file__).parents[2]
SEED = 11
PROGRAM = f"""
from nearcast.testing import replay
from tests.scenario.household import household
print(replay(household, {SEED}), end="")
"""


def test_one_seed_is_one_run_and_another_is_another() -> None:
    trace = replay(household, SEED)
    assert "failed" not in trace
    assert replay(household, SEED) == trace
    assert replay(household, SEED + 1) != trace


def test_a_run_is_the_same_in_another_process() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "1234"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == replay(household, SEED)


def test_a_run_that_fails_tells_its_seed_and_how_it_ended() -> None:
    def fails_sometimes(world: World) -> None:
        world.broker()
        ann = world.client("ann")
        world.run_until(lambda: ann.online)
        assert world.seed != 3, "three is too many"

    with pytest.raises(AssertionError, match="three is too many") as caught:
        explore(fails_sometimes, range(10))
    (note,) = caught.value.__notes__
    assert "World(seed=3)" in note
    assert "ann is connected" in note
    assert "run failed: AssertionError: three is too many" in replay(fails_sometimes, 3)
    assert explore(fails_sometimes, range(3)) == 3
