"""Recent events read back from the log, so that `count()` continues after a restart."""

from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Forgot, Published
from nearcast.store import Log, StoreError, input_of, plain_event, rows_of

Remembered = tuple[float, Event]
"""The time when an event was ingested, and the event."""


def remembered_events(log: Log, since: float, most: int) -> list[Remembered]:
    """Return the events ingested since a time, oldest first; only the newest `most`.

    Events of nodes that were forgotten since are left out, and those with a smallest people.
    """
    found: list[Remembered] = []
    for batch in log.read_since(since, ("event", "forgotten"), most):
        for row in rows_of(batch):
            event = plain_event(row)
            if event is not None:
                found.append((row.ingested, event))
                continue
            try:
                value = input_of(row)
            except StoreError:
                # A replay of the log cannot apply it either.
                continue
            if isinstance(value, Forgot):
                found = [each for each in found if each[1].publisher != value.node]
            elif isinstance(value, Published) and not value.event.people:
                found.append((row.ingested, value.event))
    return found[-most:]
