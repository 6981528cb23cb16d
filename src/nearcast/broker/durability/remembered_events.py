"""Recent events read back from the log, so that `count()` counts on after a restart."""

from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Forgot, Published
from nearcast.store import Log, StoreError, input_of, plain_event, rows_of

Remembered = tuple[float, Event]
"""When an event was taken in, and the event."""


def remembered_events(log: Log, since: float, most: int) -> list[Remembered]:
    """Return the events that were taken in since a time, the oldest first; the newest `most`.

    Without those of nodes that were forgotten meanwhile.
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
                # Nobody who plays the log can apply it either.
                continue
            if isinstance(value, Forgot):
                found = [each for each in found if each[1].publisher != value.node]
            elif isinstance(value, Published):
                found.append((row.ingested, value.event))
    return found[-most:]
