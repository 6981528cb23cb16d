"""Why a relationship is near or apart: whose report decided, in which regions, by what margin.

The log is replayed from the last definition of the relationship on, by the engine that decided, so
each change is found with the input that caused it.
"""

from collections import deque
from pathlib import Path
from typing import TypeGuard

import msgspec
import pyarrow.compute as pc
from msgspec import Struct

from nearcast.broker.operations.explanations.log_replay import (
    Progress,
    replayed_inputs,
    resume_before,
    rows_in,
)
from nearcast.broker.situation.metadata import time_text
from nearcast.core.engine.engine import Engine
from nearcast.core.engine.outcome import Notice, RelationshipNotice
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Input,
    RelationshipDefined,
    RelationshipEnded,
    RelationshipSettled,
    RelationshipSilenced,
    TimePassed,
)
from nearcast.core.model.region_record import RegionRecord
from nearcast.core.relationships.relationship import Relationship
from nearcast.store import LogReader, Row, StoreError

USUAL_CHANGES = 20
GREW_OLD = "the last report of a member grew old"


class StateNow(Struct, frozen=True):
    """A state of a relationship, or of one of its members if each has metres of its own."""

    state: str
    by: str
    since: float
    distance: float | None
    """None if too few members count."""
    limit: float
    margin: float | None
    """By how much the distance may change before the state does."""


class ExplainedMember(Struct, frozen=True):
    """What counts of a member."""

    node: str
    position: Position | None
    value: float | None
    """The number that is compared in place of a position."""
    reported: float | None
    """When it reported its position."""
    why: str
    """Why it does not count; empty if it does."""
    regions: tuple[RegionRecord, ...]
    """Where it keeps silent."""


class StateChange(Struct, frozen=True):
    """A state that changed, and why."""

    seq: int
    time: float
    state: str
    by: str
    ended: bool
    distance: float | None
    margin: float | None
    node: str | None
    """The node whose report it was."""
    why: str
    regions: tuple[RegionRecord, ...] = ()
    """If its members kept silent: the regions that hold from here on."""


class RelationshipExplanation(Struct, frozen=True):
    """A relationship, as it is after the last input of the log."""

    name: str
    seq: int
    time: float
    defined: RelationshipDefined | None
    """None if it has ended."""
    silent: bool
    states: tuple[StateNow, ...]
    members: tuple[ExplainedMember, ...]
    changes: tuple[StateChange, ...]
    """The last ones, the oldest first."""
    missing: tuple[str, ...] = ()
    """Missing parts of the log, because of which the result may be wrong."""


def explain_relationship(
    log: Path, name: str, most: int = USUAL_CHANGES, progress: Progress | None = None
) -> RelationshipExplanation:
    """Explain the states of a relationship; raises `StoreError` if the log knows none."""
    reader = LogReader(log)
    if not rows_in(reader):
        raise StoreError(f"there is no log in {log}; name the broker's data directory")
    engine, missing = Engine(), list[str]()
    defined_at = _last_definition(reader, name)
    first_seq = resume_before(engine, log, defined_at or rows_in(reader) + 1)
    changes: deque[StateChange] = deque(maxlen=most)
    watch = _Watch(engine, name)
    seq, now = first_seq - 1, 0.0
    for row, value in replayed_inputs(reader, first_seq, missing, progress):
        changes += watch.play(row, value)
        seq, now = row.seq, row.ingested
    if engine.relationships.get(name) is None and not changes:
        raise StoreError(f"no relationship {name!r} in {log} (inputs 1 to {seq})")
    return watch.explanation(seq, now, tuple(changes), tuple(missing))


def _last_definition(reader: LogReader, name: str) -> int:
    """The row that defined a relationship last; 0 if the log has none."""
    found = 0
    for part in reader.read_columns("data"):
        rows = part.filter(pc.equal(part.column("kind"), "relationship"))
        columns = (rows[column].to_pylist() for column in ("seq", "data"))
        for seq, data in zip(*columns, strict=True):
            if msgspec.json.decode(data, type=dict[str, object]).get("name") == name:
                found = seq
    return found


class _Watch:
    """Replays inputs, and notes what becomes of one relationship."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine = engine
        self._name = name
        self._regions: dict[tuple[str, str], RegionRecord] = {}
        """By member and peer."""
        self._is_silent = False

    def play(self, row: Row, value: Input | TimePassed) -> list[StateChange]:
        """Apply an input; return the states that it changed."""
        engine, name = self._engine, self._name
        # What time alone brings about comes before the input.
        aged = engine.play([], [], row.ingested, again=True, quietly=True)
        before = engine.relationships.get(name)
        outcome = engine.play([value], [row.ingested], again=True, quietly=True)
        after = engine.relationships.get(name)
        told: tuple[RegionRecord, ...] = ()
        if isinstance(value, RelationshipSettled) and value.name == self._name:
            told = value.regions
            self._regions |= {(each.node, each.peer): each for each in told}
        elif isinstance(value, RelationshipSilenced) and value.name == self._name:
            self._is_silent = value.silent
            self._regions = {}
        if after is None:
            self._is_silent, self._regions = False, {}
        found = []
        for notice in aged.notices:
            if self._is_change(notice):
                assert before is not None, "what grows old was defined"
                found.append(_change(row, notice, before, None, GREW_OLD))
        for notice in outcome.notices:
            if self._is_change(notice):
                defined = before if notice.ended else after
                assert defined is not None, "what changes or ends was defined"
                found.append(_change(row, notice, defined, *self._cause(row, value, notice), told))
        return found

    def _is_change(self, notice: Notice) -> TypeGuard[RelationshipNotice]:
        return (
            isinstance(notice, RelationshipNotice)
            and notice.relationship == self._name
            and (notice.ended or not (notice.is_old or notice.veiled))
        )

    def _cause(
        self, row: Row, value: Input | TimePassed, notice: RelationshipNotice
    ) -> tuple[str | None, str]:
        """Whose report an input was, and what it said."""
        if isinstance(value, RelationshipDefined | RelationshipEnded) and value.name == self._name:
            if notice.ended:
                return None, "it was ended, or defined for others"
            assert isinstance(value, RelationshipDefined)
            return value.node, f"{value.node} defined it"
        if isinstance(value, RelationshipSettled) and value.name == self._name:
            tellers = list(dict.fromkeys(each.told_by for each in value.regions))
            who = " and ".join(tellers) or "its members"
            why = f"{who} left a region, and the peer has answered"
            return tellers[0] if len(tellers) == 1 else None, why
        if isinstance(value, RelationshipSilenced) and value.name == self._name:
            return None, "its members report every fix from here on"
        node = row.node or row.publisher
        if node in notice.members:
            if row.kind == "context":
                return node, f"{node} changed its context"
            at = self._engine.position(node)
            where = "no position" if at is None else f"{at.lat},{at.lon}"
            return node, f"{node} reported {where}"
        return None, "what may be seen of its members changed"

    def explanation(
        self, seq: int, now: float, changes: tuple[StateChange, ...], missing: tuple[str, ...]
    ) -> RelationshipExplanation:
        """Return what is known after the last input."""
        defined = self._engine.relationships.get(self._name)
        if defined is None:
            return RelationshipExplanation(
                self._name, seq, now, None, False, (), (), changes, missing
            )
        found = self._engine.relationship(self._name)
        numbers = range(len(found.states))
        return RelationshipExplanation(
            self._name, seq, now, defined, self._is_silent,
            tuple(_state_now(found, number) for number in numbers),
            tuple(self._member_now(found, place) for place in range(len(defined.members))),
            changes, missing,
        )  # fmt: skip

    def _member_now(self, found: Relationship, place: int) -> ExplainedMember:
        node, value = found.defined.members[place], found.values[place]
        known = self._engine.nodes.get(node)
        at = value if isinstance(value, Position) else None
        number = None if isinstance(value, Position) else value
        reported = known.position_at if known is not None and at is not None else None
        regions = tuple(each for each in self._regions.values() if each.node == node)
        why = "" if value is not None else self._why_not(found.defined, node)
        return ExplainedMember(node, at, number, reported, why, regions)

    def _why_not(self, defined: RelationshipDefined, node: str) -> str:
        """Why a member does not count."""
        known = self._engine.nodes.get(node)
        if known is None:
            return "nothing is known of it"
        if defined.of is not None:
            return f"{defined.of} is no number, hidden from {defined.node}, or it does not fit"
        if self._engine.position(node) is None:
            return "it has not said where it is, or too long ago"
        return f"it is hidden from {defined.node}, or does not fit the condition"


def _change(
    row: Row,
    notice: RelationshipNotice,
    defined: RelationshipDefined,
    node: str | None,
    why: str,
    regions: tuple[RegionRecord, ...] = (),
) -> StateChange:
    far = notice.distance
    margin = None if far is None else abs(limit_of(defined, notice.by) - far)
    return StateChange(
        row.seq, notice.time, _word(notice.near), notice.by, notice.ended, far, margin, node, why,
        regions,
    )  # fmt: skip


def limit_of(defined: RelationshipDefined, by: str) -> float:
    """Return the distance at which a state changes."""
    if defined.metres:
        return defined.metres[defined.members.index(by)]
    limit = defined.within if defined.within is not None else defined.beyond
    assert limit is not None, "a relationship has a distance"
    return limit


def _state_now(found: Relationship, number: int) -> StateNow:
    defined, state = found.defined, found.states[number]
    by = defined.members[number] if defined.metres else ""
    limit, far = limit_of(defined, by), found.distance(number)
    margin = None if far is None else abs(limit - far)
    return StateNow(_word(state.near), by, state.since, far, limit, margin)


def _word(near: bool) -> str:
    return "near" if near else "apart"


def _lon_lat(position: Position | None) -> list[float] | None:
    return None if position is None else [position.lon, position.lat]


def relationship_value(found: RelationshipExplanation) -> dict[str, object]:
    """Return an explanation as plain values."""
    return {
        "relationship": found.name,
        "seq": found.seq,
        "time": time_text(found.time),
        "silent": found.silent,
        "states": [
            {
                "state": each.state,
                **({"by": each.by} if each.by else {}),
                "since": time_text(each.since),
                "distance": each.distance,
                "limit": each.limit,
                "margin": each.margin,
            }
            for each in found.states
        ],
        "members": [
            {
                "node": each.node,
                "position": None
                if each.position is None
                else [each.position.lon, each.position.lat],
                **({} if each.value is None else {"value": each.value}),
                "reported": None if each.reported is None else time_text(each.reported),
                **({"why": each.why} if each.why else {}),
                "regions": msgspec.to_builtins(each.regions),
            }
            for each in found.members
        ],
        "changes": [
            {
                "seq": each.seq,
                "time": time_text(each.time),
                "state": each.state,
                **({"by": each.by} if each.by else {}),
                **({"ended": True} if each.ended else {}),
                "distance": each.distance,
                "margin": each.margin,
                "node": each.node,
                "why": each.why,
                "regions": msgspec.to_builtins(each.regions),
            }
            for each in found.changes
        ],
        "missing": list(found.missing),
    }
