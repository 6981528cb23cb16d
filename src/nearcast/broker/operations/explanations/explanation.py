"""Why a node did or did not get an event: the log is replayed up to it.

A decision depends only on the inputs before it in its broker's log, so an engine that has processed
just those decides the same. It begins from the last snapshot before the event, if there is one. A
live event may reach a node later: then the replay continues.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from nearcast.broker.operations.explanations.gathering_explanation import gathered, waits
from nearcast.broker.operations.explanations.log_replay import (
    replayed_inputs,
    resume_before,
    rows_in,
)
from nearcast.broker.situation.metadata import time_text
from nearcast.core.engine.engine import Engine
from nearcast.core.engine.engine import EngineSettings as EngineSettings
from nearcast.core.engine.outcome import Outcome
from nearcast.core.matching.reference import Verdict, VerdictStep, Weighing
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.inputs import Published
from nearcast.core.model.subscription_id import SubscriptionId
from nearcast.store import LogReader, StoreError


class AmbiguousEventError(StoreError):
    """Several publishers gave an event the same id, and no publisher is named."""

    def __init__(self, event_id: str, publishers: Sequence[str]) -> None:
        super().__init__(
            f"{len(publishers)} publishers have an event {event_id!r}: "
            f"{', '.join(map(repr, publishers))}; say whose is meant (--publisher NAME)"
        )
        self.publishers = tuple(publishers)


class Later(Struct, frozen=True):
    """The later delivery of a live event: by which input, and when."""

    seq: int
    time: float


class Explanation(Struct, frozen=True):
    """An event, a node, and the verdict of each of its subscriptions."""

    seq: int
    event: Event
    node: str
    verdicts: tuple[Verdict, ...]
    missing: tuple[str, ...] = ()
    """Missing parts of the log before the event, because of which the result may be wrong."""
    later: Later | None = None
    """The later delivery, if it was not delivered at once."""

    @property
    def delivered(self) -> bool:
        """Whether it was to be delivered, at once or later."""
        return self.later is not None or any(verdict.passed for verdict in self.verdicts)


def explain(
    log: Path,
    event_id: str,
    node: str,
    settings: EngineSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
    publisher: str | None = None,
    asker: str | None = None,
) -> Explanation:
    """Explain why a node did or did not get an event; raises `StoreError` if it is unknown.

    Ids are unique per publisher only: if several have the same, `publisher` selects one, and
    without it `AmbiguousEventError` names them all. To an `asker`, events of others with a smallest
    people are unknown.
    """
    playing = _Playing(log, event_id, publisher, settings, progress, asker)
    found = playing.explain((node,))[0]
    if waits(found.verdicts):
        return playing.follow(found)
    if found.delivered or not found.event.stays:
        return found
    for row, value in playing.rows:
        outcome = playing.engine.play([value], [row.ingested], again=True, quietly=True)
        if _copies(outcome, found.event, node):
            return replace(found, later=Later(row.seq, row.ingested))
    return found


def explain_everyone(
    log: Path,
    event_id: str,
    settings: EngineSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
    publisher: str | None = None,
) -> list[Explanation]:
    """Explain why each node with a subscription did or did not get an event when it came.

    Raises as `explain` does. A live event may have reached some of them later.
    """
    return _Playing(log, event_id, publisher, settings, progress).explain()


class _Playing:
    """A replay of a log up to an event."""

    def __init__(
        self,
        log: Path,
        event_id: str,
        publisher: str | None,
        settings: EngineSettings | None,
        progress: Callable[[int, int], None] | None,
        asker: str | None = None,
    ) -> None:
        reader = LogReader(log)
        found = {
            name: seq
            for name, (seq, hidden) in _events_named(reader, event_id).items()
            if asker is None or not hidden or name == asker
        }
        if publisher is None and len(found) > 1:
            raise AmbiguousEventError(event_id, list(found))
        total = rows_in(reader)
        if publisher is None:
            publisher = next(iter(found), None)
        if publisher not in found:
            raise _unknown_event(log, event_id, publisher, total)
        self.engine = Engine(settings)
        first_seq = resume_before(self.engine, log, found[publisher])
        self._missing: list[str] = []
        self.rows = replayed_inputs(reader, first_seq, self._missing, progress)
        for row, value in self.rows:
            if row.seq == found[publisher] and isinstance(value, Published):
                self._row, self._value = row, value
                return
            # The deliveries of earlier inputs are not needed, except where later decisions depend
            # on them.
            self.engine.play([value], [row.ingested], again=True, quietly=True)
        # Its segment was dropped meanwhile.
        raise _unknown_event(log, event_id, publisher, total)

    def explain(self, nodes: Sequence[str] | None = None) -> list[Explanation]:
        """Replay the event, and explain it for these nodes, or for all with a subscription."""
        engine, event = self.engine, self._value.event
        if nodes is None:
            nodes = sorted({each.node for each in engine.subscriptions.values()})
        verdicts = {node: engine.explain(event, node) for node in nodes}
        if event.people:
            verdicts = {
                node: [_hidden(each, event) for each in own] for node, own in verdicts.items()
            }
        outcome = engine.play([self._value], [self._row.ingested], again=True)
        found = []
        for node in nodes:
            copies = _copies(outcome, event, node)
            made = tuple(
                _with_what_came_of_it(each, event, engine, copies, outcome)
                for each in verdicts[node]
            )
            found.append(Explanation(self._row.seq, event, node, made, tuple(self._missing)))
        return found

    def follow(self, found: Explanation) -> Explanation:
        """Replay the rest of the log, until nothing of an event waits."""
        verdicts = list(found.verdicts)
        for row, value in self.rows:
            outcome = self.engine.play([value], [row.ingested], again=True, quietly=True)
            if not outcome.sent:
                continue
            for place, verdict in enumerate(verdicts):
                if waits([verdict]):
                    verdicts[place], _ = gathered(verdict, found.event, self.engine, outcome)
            if not waits(verdicts):
                break
        else:
            nothing = Outcome()
            for place, verdict in enumerate(verdicts):
                if waits([verdict]):
                    verdicts[place], _ = gathered(verdict, found.event, self.engine, nothing)
        return replace(found, verdicts=tuple(verdicts))


def events_named(reader: LogReader, event_id: str) -> dict[str, int]:
    """The first event with this id of each publisher, the earliest first: publisher and seq."""
    return {name: seq for name, (seq, _) in _events_named(reader, event_id).items()}


def _events_named(reader: LogReader, event_id: str) -> dict[str, tuple[int, bool]]:
    """The same, with whether it has a smallest number of people."""
    found: dict[str, tuple[int, bool]] = {}
    for part in reader.read_columns("event_id", "publisher", "data"):
        same = pc.and_(
            pc.equal(part.column("kind"), "event"), pc.equal(part.column("event_id"), event_id)
        )
        some = part.filter(same)
        columns = (some.column(name).to_pylist() for name in ("publisher", "seq", "data"))
        for publisher, seq, data in zip(*columns, strict=True):
            hidden = "people" in msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            found.setdefault(publisher, (seq, hidden))
    return found


def _hidden(verdict: Verdict, event: Event) -> Verdict:
    """Return the verdict on an event that nobody sees by itself."""
    why = f"it goes out only together with those of at least {event.people} people"
    return Verdict(verdict.subscription, None, (VerdictStep("people", False, why),))


def _unknown_event(log: Path, event_id: str, publisher: str | None, total: int) -> StoreError:
    if not total:
        return StoreError(f"there is no log in {log}; name the broker's data directory")
    whose = "" if publisher is None else f" of {publisher!r}"
    return StoreError(
        f"no event {event_id!r}{whose} in {log} (inputs 1 to {total}); an event is there a "
        "second after it was published, until it is older than log.keep_s"
    )


def _copies(outcome: Outcome, event: Event, node: str) -> list[Delivery]:
    """The copies of an event that a node gets."""
    return [
        copy
        for copy in outcome.deliveries
        if copy.node == node
        and copy.event.id == event.id
        and copy.event.publisher == event.publisher
    ]


def _with_what_came_of_it(
    verdict: Verdict, event: Event, engine: Engine, copies: list[Delivery], outcome: Outcome
) -> Verdict:
    """Return a verdict with further steps: a withdrawal, No Local, or a shared group."""
    wanted = engine.subscriptions.get(verdict.subscription)
    if wanted is None:
        return verdict
    got = any(verdict.subscription in copy.subscriptions for copy in copies)
    if got and not verdict.passed:
        # A withdrawal is delivered to all who have the event, wherever they are.
        step = VerdictStep("withdrawal", True, "it has the event that this withdraws")
        return replace(verdict, priority=1, steps=(*verdict.steps, step))
    if not verdict.passed:
        return verdict
    if wanted.group is not None:
        why = "it was this member's turn" if got else "another member of the group had its turn"
        step = VerdictStep("shared", got, why)
    elif wanted.no_local and wanted.owner == event.origin:
        step = VerdictStep("no local", False, "its own session published it")
    elif wanted.aggregate is not None and event.valid_s != 0.0:
        return gathered(verdict, event, engine, outcome)[0]
    elif event.valid_s == 0.0 and not got:
        step = VerdictStep("withdrawal", False, "it does not have the event that this withdraws")
    else:
        return verdict
    return replace(
        verdict, priority=verdict.priority if got else None, steps=(*verdict.steps, step)
    )


def as_value(found: Explanation) -> dict[str, object]:
    """Return an explanation as plain values."""
    return {
        "event": found.event.id,
        "seq": found.seq,
        "subject": found.event.subject,
        "node": found.node,
        "publisher": found.event.publisher,
        "delivered": found.delivered,
        "time": time_text(found.event.time),
        "later": None
        if found.later is None
        else {"seq": found.later.seq, "time": time_text(found.later.time)},
        "subscriptions": [
            {
                "subscription": label_of(verdict.subscription),
                "priority": verdict.priority,
                "steps": msgspec.to_builtins(verdict.steps),
                **_weighing(verdict.weighing),
                **({} if verdict.gathering is None else {"gathering": dict(verdict.gathering)}),
            }
            for verdict in found.verdicts
        ],
        "missing": list(found.missing),
    }


def _weighing(weighing: Weighing | None) -> dict[str, object]:
    if weighing is None:
        return {}
    return {
        "class": weighing.context_class,
        "matrix": list(map(list, weighing.matrix)),
        "atoms": msgspec.to_builtins(weighing.atoms),
    }


def label_of(subscription: str) -> str:
    """The label of a subscription: its filter, or its name."""
    return SubscriptionId.parse(subscription).label or subscription
