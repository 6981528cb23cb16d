"""Whatever a broker does to its sessions, what is loaded is what it did."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nearcast.core.model import Event, circle
from nearcast.store import (
    Change,
    Dequeued,
    Enqueued,
    Forgotten,
    Kept,
    Live,
    LiveDropped,
    LiveMissed,
    LivePut,
    LiveSeen,
    MessagePut,
    ReceivedDropped,
    ReceivedPut,
    Released,
    RowBuffer,
    Sent,
    SessionDropped,
    SessionPut,
    Stage,
    State,
    StoredMessage,
    StoredSession,
    StoredWill,
    StoreError,
    SubscriptionDropped,
    SubscriptionPut,
    SubscriptionState,
)
from tests.support.logs.store_rows import message, session

NAMES = ("ann", "bob")
PACKETS = st.integers(1, 3)


class PlainState:
    """The reference: changes applied one by one to dictionaries."""

    def __init__(self) -> None:
        self.messages: dict[int, StoredMessage] = {}
        self.sessions: dict[str, StoredSession] = {}
        self.subscriptions: dict[tuple[str, str], Change] = {}
        self.queue: dict[int, Enqueued] = {}
        self.received: set[tuple[str, int]] = set()
        self.live: dict[str, Change] = {}
        self.seen: set[tuple[str, str]] = set()
        self.kept: dict[tuple[str, str], Change] = {}

    def apply(self, change: Change) -> None:
        match change:
            case SessionPut(session):
                self.sessions[session.id] = session
            case SessionDropped(name):
                self.sessions.pop(name, None)
                self.subscriptions = {k: v for k, v in self.subscriptions.items() if k[0] != name}
                self.queue = {k: v for k, v in self.queue.items() if v.session != name}
                self.received = {each for each in self.received if each[0] != name}
            case SubscriptionPut(name, key):
                self.subscriptions[name, key] = change
            case SubscriptionDropped(name, key):
                self.subscriptions.pop((name, key), None)
            case MessagePut(id, message):
                self.messages[id] = message
            case Enqueued(_, number):
                self.queue[number] = change
            case Sent(_, number, packet):
                if number in self.queue:
                    self.queue[number] = replace(
                        self.queue[number], packet=packet, stage=Stage.SENT
                    )
            case Released(_, number, packet):
                if number in self.queue:
                    self.queue[number] = replace(
                        self.queue[number], packet=packet, stage=Stage.RELEASED, message=0
                    )
            case Dequeued(_, number):
                self.queue.pop(number, None)
            case ReceivedPut(name, packet):
                self.received.add((name, packet))
            case ReceivedDropped(name, packet):
                self.received.discard((name, packet))
            case LivePut(live):
                self.live[live.key] = change
                self.seen = {each for each in self.seen if each[0] != live.key}
            case LiveDropped(key):
                self.live.pop(key, None)
                self.seen = {each for each in self.seen if each[0] != key}
            case LiveSeen(key, who):
                if key in self.live:
                    self.seen.add((key, who))
            case LiveMissed(key, who):
                self.seen.discard((key, who))
            case Kept(space, key):
                self.kept[space, key] = change
            case Forgotten(space, key):
                self.kept.pop((space, key), None)

    def as_loaded(self) -> set[str]:
        referred = {each.message for each in self.queue.values()}
        changes: list[Change] = [
            *(MessagePut(k, v) for k, v in self.messages.items() if k in referred),
            *map(SessionPut, self.sessions.values()),
            *self.subscriptions.values(),
            *self.queue.values(),
            *(ReceivedPut(*each) for each in self.received),
            *self.live.values(),
            *(LiveSeen(*each) for each in self.seen),
            *self.kept.values(),
        ]
        return {repr(change) for change in changes}


class Client:
    """Draws changes that a broker could make: it refers only to what is there."""

    def __init__(self, data: st.DataObject, plain: PlainState) -> None:
        self.draw, self.plain = data.draw, plain
        self.numbers = 0

    def changes(self) -> list[Change]:
        kind = self.draw(st.integers(0, 11))
        name = self.draw(st.sampled_from(NAMES))
        key = self.draw(st.sampled_from(("a/#", "live\0b", "ü")))
        if kind == 0:
            expiry = self.draw(st.sampled_from((None, 0.0, 60.0)))
            will = StoredWill(message("gone"), 1, True, 2.5)
            return [SessionPut(StoredSession(name, 1.0, "user", expiry, 2.0, will, b"x"))]
        if kind == 1:
            return [SessionDropped(name)]
        if kind == 2:
            live = Live(key, Event("e", "s", "p", 1.0, to=circle("me", 9.0), expires_at=5.0), 5.0)
            return [LivePut(live)]
        if kind == 3:
            return [LiveDropped(key)]
        if kind == 4:
            return [LiveSeen(key, name) if self.draw(st.booleans()) else LiveMissed(key, name)]
        if kind == 5:
            return [Kept("context", key, self.draw(st.binary(max_size=3)))]
        if kind == 6:
            return [Forgotten("context", key)]
        if name not in self.plain.sessions:
            return []
        if kind == 7:
            wanted = SubscriptionState(key, self.draw(st.integers(0, 2)), identifier=7)
            return [SubscriptionPut(name, key, wanted)]
        if kind == 8:
            return [SubscriptionDropped(name, key)]
        packet = self.draw(PACKETS)
        if kind == 9:
            put, gone = ReceivedPut(name, packet), ReceivedDropped(name, packet)
            return [put if self.draw(st.booleans()) else gone]
        mine = [each for each in self.plain.queue.values() if each.session == name]
        if kind == 10 and mine:
            entry = self.draw(st.sampled_from(mine))
            progress: tuple[Change, ...] = (
                Sent(name, entry.number, packet),
                Released(name, entry.number, packet),
                Dequeued(name, entry.number),
            )
            # What was released is never sent again: only its PUBREL is.
            first = 1 if entry.stage is Stage.RELEASED else 0
            return [progress[self.draw(st.integers(first, 2))]]
        return self.enqueue(name, packet)

    def enqueue(self, name: str, packet: int) -> list[Change]:
        self.numbers += 1
        alive: list[int] = [id_ for id_ in {e.message for e in self.plain.queue.values()} if id_]
        put: list[Change] = []
        again = self.draw(st.booleans())
        if alive and again:
            id_ = self.draw(st.sampled_from(alive))
        else:
            id_ = self.numbers
            put = [MessagePut(id_, message(f"text {id_}"))]
        entry = Enqueued(name, self.numbers, id_, 1, True, 2, packet, Stage.SENT, (1, 2), ("n",))
        plain = Enqueued(
            name, self.numbers, id_, 1, live_id=self.draw(st.sampled_from((None, "e")))
        )
        return [*put, self.draw(st.sampled_from((entry, plain)))]


@settings(max_examples=60)
@given(st.data())
def test_what_is_loaded_is_what_was_done(data: st.DataObject) -> None:
    plain = PlainState()
    with TemporaryDirectory() as directory:
        path = Path(directory) / "state.sqlite"
        state = State(path, "b")
        client = Client(data, plain)
        for _ in range(data.draw(st.integers(1, 5))):
            tick: list[Change] = []
            for _ in range(data.draw(st.integers(0, 8))):
                changes = client.changes()
                for change in changes:
                    plain.apply(change)
                tick += changes
            state.commit(tick, RowBuffer(), 0)
            if data.draw(st.booleans()):
                state.close()
                state = State(path, "b")
            assert loaded(state) == plain.as_loaded()
        for _ in range(4):
            state.commit([], RowBuffer(), 0)
        statistics = state.statistics()
        # Nothing is left of sessions that have ended, nor of messages that nobody waits for.
        assert statistics.ended_sessions == 0
        assert statistics.queued == len(plain.queue)
        assert statistics.messages == len({e.message for e in plain.queue.values()} - {0})
        state.close()


def loaded(state: State) -> set[str]:
    found = [repr(change) for change in without_orphans(state.load())]
    assert len(found) == len(set(found))
    return set(found)


def without_orphans(changes: Iterable[Change]) -> list[Change]:
    """What a broker makes of it: messages only for ended sessions may still be there."""
    found = list(changes)
    referred = {change.message for change in found if isinstance(change, Enqueued)}
    return [each for each in found if not isinstance(each, MessagePut) or each.id in referred]


def test_a_message_is_written_once_however_many_wait_for_it(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    names = [f"c{n}" for n in range(50)]
    state.commit([session(name) for name in names], RowBuffer(), 0)
    waiting = [Enqueued(name, number, 1, 1) for number, name in enumerate(names, 1)]
    state.commit([MessagePut(1, message()), *waiting], RowBuffer(), 0)
    assert (state.statistics().messages, state.statistics().queued) == (1, 50)
    state.commit([Dequeued(each.session, each.number) for each in waiting[:-1]], RowBuffer(), 0)
    assert (state.statistics().messages, state.statistics().queued) == (1, 1)
    state.commit([Released(waiting[-1].session, 50, 9)], RowBuffer(), 0)
    assert (state.statistics().messages, state.statistics().queued) == (0, 1)
    state.close()


def test_what_came_and_went_in_one_tick_is_never_written(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    state.commit(
        [session("ann"), MessagePut(1, message()), Enqueued("ann", 1, 1, 1), Dequeued("ann", 1)],
        RowBuffer(),
        0,
    )
    assert (state.statistics().messages, state.statistics().queued) == (0, 0)
    state.close()


def test_queues_of_ended_sessions_are_swept_up_a_piece_at_a_time(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    many = [Enqueued(("ann", "bob")[n % 2], n, 1, 1) for n in range(1, 10_001)]
    state.commit([session("ann"), session("bob"), MessagePut(1, message()), *many], RowBuffer(), 0)
    state.commit([SessionDropped("ann"), session("ann")], RowBuffer(), 0)
    kept = [each for each in many if each.session == "bob"]
    assert [each for each in state.load() if isinstance(each, Enqueued)] == kept
    left = []
    while state.statistics().ended_sessions:
        state.commit([], RowBuffer(), 0)
        left.append(state.statistics().queued)
    assert left[0] > left[-1] == 5_000
    state.close()


def test_a_session_that_ends_while_others_are_swept_up_is_swept_up_after_them(
    tmp_path: Path,
) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    many = [Enqueued(("ann", "bob")[n % 2], n, 1, 1) for n in range(1, 10_001)]
    state.commit([session("ann"), session("bob"), MessagePut(1, message()), *many], RowBuffer(), 0)
    state.commit([SessionDropped("ann")], RowBuffer(), 0)
    state.commit([], RowBuffer(), 0)
    state.commit([SessionDropped("bob")], RowBuffer(), 0)
    for _ in range(12):
        state.commit([], RowBuffer(), 0)
    statistics = state.statistics()
    assert (statistics.ended_sessions, statistics.queued, statistics.messages) == (0, 0, 0)
    state.close()


def test_a_queue_for_nobody_or_of_nothing_is_refused_and_nothing_is_kept(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    with pytest.raises(StoreError, match="no session 'ann'"):
        state.commit([session("bob"), ReceivedPut("ann", 1)], RowBuffer(), 0)
    with pytest.raises(StoreError, match=r"messages \[7\], which was never put"):
        state.commit([session("bob"), Enqueued("bob", 1, 7, 1)], RowBuffer(), 0)
    assert list(state.load()) == []
    state.commit([session("bob")], RowBuffer(), 0)
    assert list(state.load()) == [session("bob")]
    state.close()


def test_ids_go_on_after_a_restart(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    id_, number = next(state.message_ids), next(state.queue_numbers)
    state.commit(
        [session("ann"), MessagePut(id_, message()), Enqueued("ann", number, id_, 1)],
        RowBuffer(),
        0,
    )
    state.close()
    state = State(tmp_path / "state.sqlite", "b")
    assert next(state.message_ids) > id_
    assert next(state.queue_numbers) > number
    state.close()


def test_an_unsynced_tick_is_there_when_it_returns(tmp_path: Path) -> None:
    state = State(tmp_path / "state.sqlite", "b")
    state.commit_unsynced([session("ann")], RowBuffer(), 0)
    assert list(state.load()) == [session("ann")]
    state.commit([session("ben")], RowBuffer(), 0)
    assert state._db.execute("PRAGMA synchronous").fetchone() == (2,)
    state.close()
