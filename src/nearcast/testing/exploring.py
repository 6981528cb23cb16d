"""Many runs of one scenario, each with its own seed; a failure reports its seed."""

from collections.abc import Callable, Iterable

from nearcast.testing.world import World

Scenario = Callable[[World], object]


def explore(scenario: Scenario, seeds: Iterable[int]) -> int:
    """Run a scenario once for each seed, and return the number of runs.

    An exception of a run has a note with its seed and the end of its trace.
    """
    count = 0
    for seed in seeds:
        with World(seed) as world:
            scenario(world)
        count += 1
    return count


def replay(scenario: Scenario, seed: int) -> str:
    """Run a scenario with one seed; return its whole trace, with the failure if there is one."""
    with World(seed) as world:
        try:
            scenario(world)
        except Exception as error:
            world.tell("run", f"failed: {type(error).__name__}: {error}")
    return world.trace
