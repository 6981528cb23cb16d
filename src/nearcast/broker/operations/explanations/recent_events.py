"""The newest events of a log, without a replay: to find an event's id."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Published
from nearcast.core.model.subject import subject_matches
from nearcast.store import LogReader, input_of, rows_of

LOOKED_AT_MOST = 200_000
"""The most rows to search."""


def recent_events(
    log: Path,
    most: int,
    pattern: str = "#",
    fits: Callable[[Event], bool] = lambda event: True,
) -> list[Event]:
    """Return the newest events whose subject matches a pattern, the newest first."""
    found: list[Event] = []
    for event in _backwards(log, pattern):
        if len(found) == most:
            break
        if fits(event):
            found.append(event)
    return found


def _backwards(log: Path, pattern: str) -> Iterator[Event]:
    looked_at = 0
    for batch in LogReader(log).read_backwards():
        if looked_at > LOOKED_AT_MOST:
            return
        looked_at += batch.num_rows
        kinds = batch.column("kind").to_pylist()
        subjects = batch.column("subject").to_pylist()
        for at in range(batch.num_rows - 1, -1, -1):
            if kinds[at] == "event" and subject_matches(pattern, subjects[at]):
                (row,) = rows_of(batch.slice(at, 1))
                value = input_of(row)
                assert isinstance(value, Published)
                yield value.event
