"""Wrong passwords from many addresses do not keep right ones waiting."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.auth import Admitted, AuthRefusal, CredentialCheck, Identity, Peer
from nearcast.broker.auth.credentials.password_queue import BUSY, MOST_WAITING, PasswordQueue
from nearcast.wire.mqtt import ConnAck, Connect, ReasonCode, encode
from tests.support.accounts import SECRET, with_users
from tests.support.running_broker import RunningBroker

WRONG = AuthRefusal(ReasonCode.BAD_USER_NAME_OR_PASSWORD, "wrong")


class Line:
    """A queue whose checks wait until they may go on."""

    def __init__(self, threads: int = 1) -> None:
        self.queue = PasswordQueue(lambda: 1_000_000.0, threads)
        self.begun: list[str] = []
        self.answers: dict[str, Admitted | AuthRefusal] = {}
        self._gate = threading.Semaphore(0)
        self._changed = asyncio.Event()

    def put(
        self, name: str, user: str = "nobody", address: str = "far", right: bool = False
    ) -> None:
        def run() -> Admitted | AuthRefusal:
            self.begun.append(name)
            assert self._gate.acquire(timeout=10)
            return Admitted(Identity(user), user, Peer(address, False)) if right else WRONG

        def done(answer: Admitted | AuthRefusal) -> None:
            self.answers[name] = answer
            self._changed.set()

        self.queue.check(name, CredentialCheck(run, user, address), done)

    async def settle(self, answers: int) -> None:
        """Let checks go on until so many have answered."""
        while len(self.answers) < answers:
            self._changed.clear()
            self._gate.release()
            await self._changed.wait()


def test_addresses_and_users_that_succeeded_go_first() -> None:
    async def scenario() -> list[str]:
        line = Line()
        line.queue.remember("alice", "near")
        line.put("first")
        line.put("stranger")
        line.put("alice elsewhere", "alice")
        line.put("bob nearby", "bob", "near")
        line.put("alice nearby", "alice", "near")
        await line.settle(5)
        line.queue.stop()
        return line.begun

    begun = asyncio.run(scenario())
    # Of four checks one is of those that would otherwise come last.
    assert begun == ["first", "alice nearby", "bob nearby", "stranger", "alice elsewhere"]


def test_who_succeeds_is_known_the_next_time() -> None:
    async def scenario() -> list[str]:
        line = Line()
        line.put("bob", "bob", "near", right=True)
        await line.settle(1)
        line.put("first")
        line.put("stranger")
        line.put("bob again", "bob", "near")
        await line.settle(4)
        line.queue.stop()
        return line.begun

    assert asyncio.run(scenario())[2] == "bob again"


def test_the_queue_is_bounded_and_strangers_make_room() -> None:
    async def scenario() -> None:
        line = Line()
        line.queue.remember("alice", "near")
        for number in range(MOST_WAITING + 1):
            line.put(f"stranger {number}")
        assert line.answers == {}
        line.put("one more")
        assert line.answers == {"one more": BUSY}
        line.put("alice", "alice", "near")
        assert set(line.answers) == {"one more", f"stranger {MOST_WAITING}"}
        assert len(line.queue) == MOST_WAITING
        assert line.queue.statistics().refused == 2
        line.queue.stop()
        await line.settle(3)

    asyncio.run(scenario())


def test_who_hangs_up_is_not_checked() -> None:
    async def scenario() -> None:
        line = Line()
        for name in ("first", "second", "third"):
            line.put(name)
        line.queue.leave("second")
        await line.settle(2)
        line.queue.stop()
        assert line.begun == ["first", "third"]
        assert line.queue.statistics().abandoned == 1

    asyncio.run(scenario())


def test_several_are_checked_at_once() -> None:
    async def scenario() -> None:
        line, together = Line(2), threading.Barrier(2, timeout=10)
        for name in ("first", "second"):

            def run() -> AuthRefusal:
                together.wait()
                return WRONG

            line.queue.check(
                name, CredentialCheck(run), lambda answer: line.answers.update({"x": answer})
            )
        while not line.answers:
            await asyncio.sleep(0.001)
        line.queue.stop()

    asyncio.run(scenario())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with_users(tmp_path)
    running = RunningBroker(data=tmp_path)
    yield running
    running.stop()


def test_a_known_client_comes_in_while_strangers_guess(broker: RunningBroker) -> None:
    mine = Connect("alice", username="alice", password=SECRET["alice"])
    first = broker.open()
    assert not first.connect(mine).reason_code.failed
    guess = encode(Connect("bob", username="bob", password=b"guess"), 5)
    strangers = []
    for number in range(200):
        address = (f"127.0.1.{number + 1}", 0)
        stranger = socket.create_connection(("127.0.0.1", broker.port), 10, address)
        stranger.sendall(guess)
        strangers.append(stranger)
    again = broker.open()
    assert not again.connect(mine).reason_code.failed

    assert broker.server.statistics()["passwords_waiting"] > 50
    for stranger in strangers:
        stranger.close()
    while broker.server.statistics()["passwords_waiting"]:
        again.rest()
    assert broker.server.statistics()["passwords_abandoned_total"] > 0


def test_too_many_at_once_are_told_to_come_later(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.broker.auth.credentials.password_queue.MOST_WAITING", 3)
    clients = [broker.open() for _ in range(20)]
    packet = Connect("bob", username="bob", password=b"guess")
    for client in clients:
        client.send(packet)
    reasons = [client.expect(ConnAck).reason_code for client in clients]

    assert ReasonCode.SERVER_BUSY in reasons
    assert ReasonCode.BAD_USER_NAME_OR_PASSWORD in reasons
