"""The gate before the sockets: while the disk fails, only what is promised waits."""

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

    def works(self) -> None:
        self.gate.serve_others(failing=False)
        for done in self._waiting:
            if done is not None:
                done()
        self._waiting.clear()


def connection(name: str) -> Connection:
    made = Connection()
    Session(name).attach(made)
    return made


def promised(changes: list[Change], *writes: Write) -> Batch:
    return Batch(Entries(changes, must_sync=True), list(writes))


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
