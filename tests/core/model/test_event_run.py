"""Runs of events: joined, they are the events of the runs one after the other."""

import pytest

from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun, joined_runs


def run(first: int, count: int, subject: str = "a", qos: int = 0) -> EventRun:
    numbers = range(first, first + count)
    return EventRun(
        [f"e{number}" for number in numbers], subject, "ann", 9.0, None,
        [b"%d" % number for number in numbers], qos, "", b"", None,
    )  # fmt: skip


def test_runs_that_differ_in_id_and_payload_only_are_one_run() -> None:
    runs = [run(0, 2), run(2, 1), run(3, 3)]
    whole = joined_runs(runs)
    assert isinstance(whole, EventRun)
    assert list(whole) == [event for each in runs for event in each]


@pytest.mark.parametrize(
    "other", [run(2, 1, "b"), run(2, 1, qos=1), [Event("e2", "a", "ann", 9.0)]]
)
def test_other_runs_are_events_one_after_the_other(other: list[Event] | EventRun) -> None:
    runs = [run(0, 2), other]
    assert joined_runs(runs) == [event for each in runs for event in each]


def test_one_run_stays_as_it_is() -> None:
    only = run(0, 2)
    assert joined_runs([only]) is only
