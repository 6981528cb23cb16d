"""The inputs in force in an engine as rows: those of the log, with a few columns more.

A row has the `part` that it belongs to. A node is its one or two fixes and its context; a live
event also has its expiry and the sessions that have seen it. A time of ingest that the engine does
not know is NaN.
"""

import math
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.engine.engine_inputs import EngineInputs, LiveEvent
from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.core.gathering.waiting import WaitingEvent, WaitingPool
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    Published,
    Restarted,
    Subscribed,
    Undelivered,
)
from nearcast.core.model.record import Record
from nearcast.store.errors import CorruptError
from nearcast.store.rows.row_json import text
from nearcast.store.rows.rows import Row, input_of, record_row
from nearcast.store.rows.waiting_rows import pool_in, pool_row, waiting_in

SETTINGS = "settings"
STANDING = "standing"
REMOVED_PLACE = "removed place"
SUBSCRIPTION = "subscription"
NODE = "node"
LIVE = "live"
RECENT = "recent"
TURN = "turn"
WAITING_POOL = "pool"
WAITING = "waiting"
HIDDEN_GROUP = "hidden pool"
HIDDEN = "hidden"
"""The parts of a snapshot; a turn and a pool are also kinds of rows, which no log has."""


class SnapshotRow(Struct, frozen=True, gc=False):
    """A row of a snapshot."""

    part: str
    row: Row
    expires_at: float | None = None
    """The expiry of an event's message, as exactly as the engine knows it."""
    until: float | None = None
    """The time when a live event ends."""
    seen: tuple[str, ...] | None = None
    """The sessions that have seen a live event, or the subscriptions of a pool; of an event that
    waits the id of its pool, its number and its priority."""


def snapshot_rows(inputs: EngineInputs, broker: str) -> Iterator[SnapshotRow]:
    """Yield inputs in force as rows, numbered from 1."""
    for seq, (part, ingested, value, extra) in enumerate(_values(inputs), 1):
        if isinstance(value, _Turn):
            row = Row(broker, seq, TURN, ingested, data=text(msgspec.structs.asdict(value)))
        elif isinstance(value, WaitingPool):
            row = pool_row(value, broker, seq)
        else:
            row = record_row(Record(seq, ingested, value), broker)
        yield SnapshotRow(part, row, *extra)


class _Turn(Struct, frozen=True):
    group: str
    subject: str
    turn: int


_Extra = tuple[()] | tuple[float | None, float | None, tuple[str, ...] | None]


def _values(
    inputs: EngineInputs,
) -> Iterator[tuple[str, float, "Input | _Turn | WaitingPool", _Extra]]:
    yield SETTINGS, 0.0, inputs.restarted, ()
    for place in inputs.removed_places:
        yield REMOVED_PLACE, 0.0, place, ()
    for value in inputs.standing:
        if isinstance(value, Undelivered):
            # A row for each event, so that one can be erased without the others.
            for one in value.live:
                yield STANDING, 0.0, replace(value, live=(one,)), ()
        else:
            yield STANDING, 0.0, value, ()
    for subscription in inputs.subscriptions:
        yield SUBSCRIPTION, 0.0, Subscribed(subscription), ()
    for (group, subject), turn in inputs.turns.items():
        yield TURN, 0.0, _Turn(group, subject, turn), ()
    for state in inputs.nodes:
        node, earlier = state.node, (state.previous_at, state.previous)
        for at, position in (earlier, (state.position_at, state.position)):
            if position is not None:
                yield NODE, _time(at), Moved(node, position), ()
        yield NODE, _time(state.changed_at), ContextPatched(node, dict(state.attributes)), ()
    for live in inputs.live:
        event, seen = live.event, tuple(sorted(live.seen))
        yield LIVE, event.time, Published(event), (event.expires_at, live.expires, seen)
    for at, event in inputs.recent:
        yield RECENT, at, Published(event), (event.expires_at, None, None)
    for pools, of_pool, of_event in (
        (inputs.waiting, WAITING_POOL, WAITING), (inputs.hidden, HIDDEN_GROUP, HIDDEN),
    ):  # fmt: skip
        for pool in pools:
            yield of_pool, 0.0, pool, (None, None, pool.subscriptions)
            for each in pool.events:
                number = str(pool.id), str(each.number), str(each.priority)
                published = Published(each.event)
                yield of_event, each.ingested, published, (each.event.expires_at, None, number)


def inputs_from(rows: Iterable[SnapshotRow], shard: Shard = WHOLE) -> EngineInputs:
    """Return the inputs in force that rows of a snapshot hold, without subscriptions of others.

    The rows may be those of several parts, the one with everything that all shards have first.
    Raises `CorruptError` if they are damaged, and `UpgradeError` if only a later release can
    interpret them.
    """
    restarted: Restarted | None = None
    standing: list[Input] = []
    removed: list[PlaceDefined] = []
    subscriptions: list[Subscription] = []
    nodes: list[NodeState] = []
    live: dict[_LiveKey, LiveEvent] = {}
    recent: list[tuple[float, Event]] = []
    turns: dict[tuple[str, str], int] = {}
    state: NodeState | None = None
    waiting, hidden = _Pools(), _Pools()
    for each in rows:
        part, row = each.part, each.row
        if part in (WAITING_POOL, HIDDEN_GROUP):
            (waiting if part == WAITING_POOL else hidden).add_pool(each)
            continue
        if part in (WAITING, HIDDEN):
            (waiting if part == WAITING else hidden).add_event(each)
            continue
        if part == TURN:
            turn = _turn_in(row)
            if shard.has(turn.group):
                turns[turn.group, turn.subject] = turn.turn
            continue
        if part == NODE and row.kind == "position":
            assert row.node is not None
            at = Position(_needed(row.lat), _needed(row.lon))
            last = NodeState(row.node) if state is None else state
            state = NodeState(row.node, at, _known(row.ingested), last.position, last.position_at)
            continue
        value = input_of(row)
        if part == STANDING:
            standing.append(value)
        elif part == SETTINGS and isinstance(value, Restarted):
            sessions = () if restarted is None else restarted.sessions
            restarted = replace(restarted or value, sessions=(*sessions, *value.sessions))
        elif part == REMOVED_PLACE and isinstance(value, PlaceDefined):
            removed.append(value)
        elif part == SUBSCRIPTION and isinstance(value, Subscribed):
            if shard.has_subscription(value.subscription):
                subscriptions.append(value.subscription)
        elif part == NODE and isinstance(value, ContextPatched):
            fixes = NodeState(value.node) if state is None else state
            changed = _known(row.ingested)
            nodes.append(replace(fixes, attributes=value.patch, changed_at=changed))
            state = None
        elif part in (LIVE, RECENT) and isinstance(value, Published):
            event = replace(value.event, expires_at=each.expires_at)
            if part == LIVE:
                _merge(live, LiveEvent(event, each.until, shard.sessions_of(each.seen or ())))
            else:
                recent.append((row.ingested, event))
        else:
            raise CorruptError(f"row {row.seq}, a {row.kind}, is of no known part: {part!r}")
    return EngineInputs(
        restarted or Restarted(),
        standing,
        removed,
        subscriptions,
        nodes,
        list(live.values()),
        recent,
        turns=turns,
        waiting=waiting.found(),
        hidden=hidden.found(),
    )


class _Pools:
    """Pools and their events, from rows."""

    def __init__(self) -> None:
        self._pools: dict[str, list[WaitingPool]] = {}
        self._events: dict[str, dict[int, WaitingEvent]] = {}

    def add_pool(self, each: SnapshotRow) -> None:
        pool = pool_in(each.row, each.seen or ())
        self._pools.setdefault(str(pool.id), []).append(pool)

    def add_event(self, each: SnapshotRow) -> None:
        name, number, priority = each.seen or ("", "0", "1")
        found = waiting_in(each.row, int(number), int(priority), each.expires_at)
        self._events.setdefault(name, {})[found.number] = found

    def found(self) -> list[WaitingPool]:
        """All pools that have events."""
        return [
            replace(pool, events=tuple(self._events[name].values()))
            for name, several in self._pools.items()
            for pool in several
            if name in self._events
        ]


_LiveKey = tuple[str, str, str, str | None, bool]


def _merge(live: dict[_LiveKey, LiveEvent], found: LiveEvent) -> None:
    """Add a live event, or the sessions of another part that have seen it."""
    event = found.event
    key = event.subject, event.publisher, event.id, event.object, event.retain
    if key in live:
        found = replace(found, seen=(*live[key].seen, *found.seen))
    live[key] = found


def _turn_in(row: Row) -> _Turn:
    try:
        return msgspec.json.decode(row.data, type=_Turn)
    except msgspec.MsgspecError as error:
        raise CorruptError(f"row {row.seq}, a turn, cannot be read: {error}") from None


def _time(at: float | None) -> float:
    return math.nan if at is None else at


def _known(at: float) -> float | None:
    return None if math.isnan(at) else at


def _needed(value: float | None) -> float:
    if value is None:
        raise CorruptError("a fix of a node has no position")
    return value
