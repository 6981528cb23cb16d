"""The gate before the sockets: while the disk fails, only what is promised waits."""

from collections import deque
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.delivery.batch import Batch, Write
from nearcast.broker.durability.commit_gate import CommitGate, OnCommit
from nearcast.broker.durability.journal import Entries
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import Session
from nearcast.store import Change, Dequeued, Kept, SessionPut, StoredSession


class Disk:
    """Takes entries, and keeps them when it is told to."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self._waiting: list[OnCommit | None] = []
        self.gate = CommitGate(self._write, self._keep)

    def _write(self, batch: Batch) -> None:
        self.written += [write.data for write in batch.writes]

    def _keep(self, entries: Entries, done: OnCommit | None) -> None:
        self._waiting.append(done)

    def commits_one(self) -> None:
        if self._waiting and (done := self._waiting.pop(0)) is not None:
            done()

    def works(self) -> None:
        self.gate.serve_others(failing=False)
        for done in self._waiting:
            if done is not None:
                done()
        self._waiting.clear()


def first(pair: tuple[int, bool]) -> int:
    return pair[0]


def connection(name: str) -> Connection:
    made = Connection()
    Session(name).attach(made)
    return made


def promised(changes: list[Change], *writes: Write) -> Batch:
    return Batch(Entries(changes, must_sync=True), list(writes))


def aside(*writes: Write) -> Batch:
    return Batch(Entries([Kept("a", "b", b"")], must_sync=True, others_wait=False), list(writes))


def plain(*writes: Write) -> Batch:
    return Batch(Entries(), list(writes))


def test_while_the_disk_works_all_is_written_in_order() -> None:
    disk, ann, bob = Disk(), connection("ann"), connection("bob")
    disk.gate.take(promised([Dequeued("ann", 1)], Write(ann, b"1", 1)))
    disk.gate.take(plain(Write(bob, b"2")))
    assert disk.written == []
    disk.works()
    assert disk.written == [b"1", b"2"]
    assert disk.gate.bytes == 0


def test_while_the_disk_fails_others_are_served() -> None:
    disk, ann, bob = Disk(), connection("ann"), connection("bob")
    disk.gate.take(
        promised([Kept("space", "key", b"")], Write(ann, b"acknowledged", 1), Write(bob, b"event"))
    )
    disk.gate.take(plain(Write(bob, b"pong"), Write(ann, b"pong of ann")))
    assert disk.written == []
    disk.gate.serve_others(failing=True)
    assert disk.written == [b"event", b"pong"]
    disk.gate.take(plain(Write(ann, b"later"), Write(bob, b"more")))
    assert disk.written[2:] == [b"more"]
    disk.works()
    assert disk.written[3:] == [b"acknowledged", b"pong of ann", b"later"]
    assert disk.gate.bytes == 0


def test_answers_to_a_session_that_a_change_names_wait() -> None:
    disk, ann, bob = Disk(), connection("ann"), connection("bob")
    disk.gate.serve_others(failing=True)
    changes: list[Change] = [SessionPut(StoredSession("ann", 0.0))]
    disk.gate.take(promised(changes, Write(ann, b"connack"), Write(bob, b"event")))
    assert disk.written == [b"event"]
    disk.works()
    assert disk.written == [b"event", b"connack"]


def test_answers_that_alone_promise_something_wait_and_others_do_not() -> None:
    disk, ann, bob = Disk(), connection("ann"), connection("bob")
    disk.gate.take(aside(Write(ann, b"puback", 1), Write(bob, b"event")))
    assert disk.written == [b"event"]
    disk.gate.take(plain(Write(ann, b"pong of ann"), Write(bob, b"more")))
    assert disk.written[1:] == [b"more"]
    disk.gate.take(aside())
    disk.gate.take(promised([Dequeued("bob", 1)], Write(bob, b"of qos 1")))
    disk.gate.take(plain(Write(bob, b"last")))
    assert disk.written[2:] == []
    disk.works()
    assert disk.written[2:] == [b"puback", b"pong of ann", b"of qos 1", b"last"]
    assert (len(disk.gate), disk.gate.bytes) == (0, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("promised", "aside", "plain", "commit", "fails", "works")),
            st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4, unique_by=first),
        ),
        max_size=40,
    )
)
def test_everyone_gets_everything_in_order_and_nothing_promised_too_early(
    steps: list[tuple[str, list[tuple[int, bool]]]],
) -> None:
    disk = Disk()
    clients = [connection(str(number)) for number in range(4)]
    sent: list[list[bytes]] = [[] for _ in clients]
    early: set[bytes] = set()
    """What may not be written yet."""
    batches: deque[set[bytes]] = deque()
    for number, (kind, to) in enumerate(steps):
        if kind == "commit":
            disk.commits_one()
            if batches:
                early -= batches.popleft()
        elif kind in ("fails", "works"):
            disk.gate.serve_others(failing=kind == "fails")
        else:
            named = [(client, b"%d/%d" % (client, number), ack) for client, ack in to]
            writes = [Write(clients[client], data, int(ack)) for client, data, ack in named]
            must_sync = kind != "plain"
            entries = Entries([Kept("a", "b", b"")], must_sync=must_sync)
            entries.others_wait = kind != "aside"
            batches.append({data for _, data, ack in named if ack} if must_sync else set())
            early |= batches[-1]
            for client, data, _ in named:
                sent[client].append(data)
            disk.gate.take(Batch(entries, writes))
        assert early.isdisjoint(disk.written)
        for client, expected in enumerate(sent):
            came = [each for each in disk.written if each.startswith(b"%d/" % client)]
            assert came == expected[: len(came)]
    disk.works()
    assert sorted(disk.written) == sorted(chain.from_iterable(sent))
    assert (len(disk.gate), disk.gate.bytes) == (0, 0)
