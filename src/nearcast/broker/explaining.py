"""Why a node did or did not get an event: the log is played again up to it.

A decision depends only on the inputs before it in its broker's log, so the engine that has seen
just those says the same as the one that decided.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from nearcast.core.engine import Engine
from nearcast.core.engine import Settings as EngineSettings
from nearcast.core.matching.reference import Verdict
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Published
from nearcast.store import NO_INPUTS, Gap, LogReader, Row, StoreError, input_of, rows_of


class NotFoundError(StoreError):
    """There is no such event in the log."""


class Explanation(Struct, frozen=True):
    """An event, a node, and what each of its subscriptions made of it."""

    seq: int
    event: Event
    node: str
    verdicts: tuple[Verdict, ...]
    missing: tuple[str, ...] = ()
    """What of the log before it is missing, so that the answer may be another."""

    @property
    def delivered(self) -> bool:
        """Whether it was to be delivered."""
        return any(verdict.passed for verdict in self.verdicts)


def explain(
    log: Path,
    event_id: str,
    node: str,
    settings: EngineSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Explanation:
    """Say why a node did or did not get an event; raises `NotFoundError` if it is unknown."""
    reader = LogReader(log)
    segments = reader.segments()
    total = segments[-1].last_seq if segments else 0
    engine = Engine(settings)
    missing: list[str] = []
    for row in _rows(reader, missing):
        if row.kind in NO_INPUTS:
            continue
        value = input_of(row)
        if row.event_id == event_id and isinstance(value, Published):
            verdicts = tuple(engine.explain(value.event, node))
            return Explanation(row.seq, value.event, node, verdicts, tuple(missing))
        if isinstance(value, Published) and not value.event.stays:
            # Who got it does not matter now: only that it counts.
            engine.note([value.event], row.ingested)
        else:
            engine.step([value], row.ingested)
        if progress is not None and row.seq % 1_000 == 0:
            progress(row.seq, total)
    raise NotFoundError(
        f"no event {event_id!r} in {log} (inputs 1 to {total}); an event is there a second after "
        "it was published, until it is older than log.keep_s"
    )


def _rows(reader: LogReader, missing: list[str]) -> Iterator[Row]:
    for part in reader.read():
        if isinstance(part, Gap):
            missing.append(part.reason)
        else:
            yield from rows_of(part)


def as_value(found: Explanation) -> dict[str, object]:
    """Return an explanation as plain values."""
    return {
        "event": found.event.id,
        "seq": found.seq,
        "subject": found.event.subject,
        "node": found.node,
        "delivered": found.delivered,
        "subscriptions": [
            {
                "subscription": label_of(verdict.subscription),
                "priority": verdict.priority,
                "steps": msgspec.to_builtins(verdict.steps),
            }
            for verdict in found.verdicts
        ],
        "missing": list(found.missing),
    }


def label_of(subscription: str) -> str:
    """What a subscription is called: its filter, or its name."""
    return subscription.partition("\0")[2].lstrip("\0") or subscription
