"""Runs in which the disk fails too: what it kept its promise for is there, all else is told.

`NEARCAST_RUNS` says how many runs there are of each kind.
"""

import os
from random import Random

import pytest

from nearcast.simulation.file_faults import FileFault, Files, damaged, torn
from nearcast.store import StoreError, discard_damaged
from nearcast.testing import World, explore
from nearcast.testing.virtual_disk import read_files
from tests.scenario.household import TROUBLE_S, Household

RUNS = int(os.environ.get("NEARCAST_RUNS", "40"))
CHUNK = 20
STATE, LOG, SUMS = "state.sqlite", "state.sqlite-wal", "state.sqlite-sums"


class FailingHousehold(Household):
    """A household whose broker loses power while it writes."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.faults: Random = world.clock.chance("files")
        self.refused = ""
        """Why the broker did not start."""
        self.told: list[str] = []
        """What it said of the damage when it started."""
        self.is_over = False
        self._older: Files = {}

    # A disk that keeps its promises

    def tear(self) -> None:
        """Lose power in the middle of a commit or a checkpoint."""
        if not self.broker.is_up:
            return
        in_checkpoint = self.faults.random() < 0.5

        def left(before: Files, after: Files) -> Files:
            # Checksums are synced before a checkpoint begins, and marked after a commit has ended.
            synced = after if in_checkpoint else before
            return torn(before, after, self.faults) | {SUMS: synced[SUMS]}

        self.broker.lose_power(left, in_checkpoint=in_checkpoint)
        self.world.clock.after(self.faults.uniform(0.0, 2.0), self.broker.start)

    # A disk that does not

    def remember(self) -> None:
        """Note the files, to which one may revert later."""
        if self.broker.is_up:
            self._older = read_files(self.broker.disk.store.directory)

    def break_promise(self) -> None:
        """Lose power, and something that was synced."""
        if not self.broker.is_up:
            return
        fault = self.faults.choice(list(FileFault))

        def left(before: Files, after: Files) -> Files:
            names = [name for name in after if name.startswith((STATE, "log/"))]
            name = self.faults.choice(names)
            self.world.tell("disk", f"{name}: {fault.value}")
            return damaged(after, self._older, name, fault, self.faults)

        self.broker.lose_power(left)
        self.world.clock.after(self.faults.uniform(0.0, 2.0), self._start)

    def _start(self) -> None:
        try:
            self.broker.start()
        except StoreError as error:
            self.refused = str(error)
            self._go_on_without()
        else:
            store = self.broker.disk.store
            self.told = [*store.problems, *store.state_problems]

    def _go_on_without(self) -> None:
        """Discard what is damaged, as an operator would; else that is the end."""
        assert self.world.directory is not None
        try:
            discard_damaged(self.world.directory, self.broker.name)
            self.broker.start()
        except StoreError as error:
            self.world.tell("operator", f"gives up: {error}")
            self.is_over = True


def with_torn_writes(world: World) -> None:
    people = FailingHousehold(world)
    people.gather()
    people.plan()
    for _ in range(2):
        world.clock.after(people.faults.uniform(0.3, TROUBLE_S), people.tear)
    people.finish()


def with_broken_promises(world: World) -> None:
    people = FailingHousehold(world)
    people.gather()
    people.plan()
    at_s = people.faults.uniform(0.3, TROUBLE_S)
    world.clock.after(people.faults.uniform(0.1, at_s), people.remember)
    world.clock.after(at_s, people.break_promise)
    # Until then the disk does what it should: it is up.
    world.run_until(lambda: world.clock.elapsed_s > TROUBLE_S + 3.0 or people.is_over)
    if people.is_over:
        assert people.refused
    elif people.refused:
        # Somebody may wait for what is lost.
        world.run(5.0)
        people.truth.check_known(people.people)
    elif people.told:
        world.settle()
        people.truth.check_known(people.people)
        people.truth.check_received(people.people)
    else:
        people.finish()


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_what_a_disk_promised_is_there_after_a_power_cut_in_any_write(first: int) -> None:
    last = min(first + CHUNK, RUNS)
    assert explore(with_torn_writes, range(first, last)) == last - first


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_a_disk_that_breaks_its_promise_is_found_out_or_nothing_is_missing(first: int) -> None:
    last = min(first + CHUNK, RUNS)
    assert explore(with_broken_promises, range(first, last)) == last - first
