"""Requests over the control socket of a running broker, with real clients."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearcast.broker.config.settings import AuthSection, Settings
from nearcast.broker.net.local_link import LocalLink
from nearcast.broker.operations.control import LONGEST, NAME, ControlError, ask
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Decoder,
    Disconnect,
    Publish,
    ReasonCode,
    Sender,
    Will,
)
from tests.support.accounts import SECRET, with_users
from tests.support.clients.raw_client import RawClient
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(data=tmp_path)
    yield running
    running.validate()
    running.stop()


def asked(broker: RunningBroker, what: str, **about: object) -> Any:  # noqa: ANN401  # JSON
    store = broker.server._store
    assert store is not None
    return ask(store.directory, what, 30.0, **about)


def last_word(client: RawClient) -> Disconnect:
    """The DISCONNECT that a client gets at the end."""
    packet = client.end()[-1]
    assert isinstance(packet, Disconnect)
    return packet


def test_sessions_are_listed_with_who_they_are_and_what_they_use(broker: RunningBroker) -> None:
    listener, talker = broker.client("listener"), broker.client("talker")
    listener.subscribe("news/#", "other")
    talker.publish("news/1", b"x" * 1_000)
    listener.message()
    found = asked(broker, "sessions", sort="bytes", interval_s=0.05)
    assert {each["client"] for each in found["sessions"]} == {"listener", "talker"}
    first = {each["client"]: each for each in found["sessions"]}["listener"]
    assert (first["address"], first["state"], first["user"]) == ("127.0.0.1", "connected", None)
    assert (first["subscriptions"], first["queued"], first["queued_bytes"]) == (2, 0, 0)
    load = found["load"]
    assert (load["broker"], load["connections"], load["sessions"]) == ("local", 2, 2)
    assert load["memory_bytes"] > 10_000_000
    assert 0.0 < load["ticks"]["p50_s"] <= load["ticks"]["p99_s"] <= load["ticks"]["max_s"]


def test_accounts_count_what_is_received_and_sent(broker: RunningBroker) -> None:
    listener, talker = broker.client("listener"), broker.client("talker")
    listener.subscribe("news/#")
    for qos in (0, 1, 2):
        talker.publish("news/1", b"x" * 1_000, qos=qos)
        listener.take()
    listener.rest()
    account = broker.server.hub.sessions["listener"].account
    came = Decoder(sender=Sender.SERVER, version=MQTT_5).feed(listener.raw)
    assert account.packets_sent == len(came)
    assert account.bytes_sent == len(listener.raw)
    assert broker.server.hub.sessions["talker"].account.bytes > 3_000


def test_the_session_with_the_longest_queue_comes_first(broker: RunningBroker) -> None:
    for name in ("short", "long"):
        away = broker.client(name, expiry=3_600)
        away.subscribe(name)
        broker.lose(away)
    talker = broker.client("talker")
    talker.publish("short", b"x", qos=1)
    for _ in range(3):
        talker.publish("long", b"x" * 100, qos=1)
    found = asked(broker, "sessions", sort="queue", most=2, interval_s=0.05)["sessions"]
    assert [each["client"] for each in found] == ["long", "short"]
    assert [each["queued"] for each in found] == [3, 1]
    assert found[0]["queued_bytes"] > found[1]["queued_bytes"] > 0
    assert {each["state"] for each in found} == {"away"}


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"sort": "name"}, "sorted by one of cpu, bytes"),
        ({"sort": ["cpu"]}, "sorted by one of cpu, bytes"),
        ({"most": 0}, "most is a number from 1 to 1000"),
        ({"most": True}, "most is a number"),
        ({"interval_s": 1e9}, "interval_s is a number from 0.01 to 30"),
        ({"interval_s": float("nan")}, "interval_s is a number"),
    ],
)
def test_an_invalid_request_for_sessions_is_refused(
    broker: RunningBroker, about: dict[str, object], why: str
) -> None:
    with pytest.raises(ControlError, match=why):
        asked(broker, "sessions", **about)


def test_an_mqtt_5_client_is_told_why_it_is_disconnected(broker: RunningBroker) -> None:
    client, other = broker.client("ann"), broker.client("ben")
    found = asked(broker, "disconnect", client="ann", reason="too loud")
    assert found == {"clients": ["ann"], "ended": []}
    packet = last_word(client)
    assert packet.reason_code == ReasonCode.ADMINISTRATIVE_ACTION
    assert packet.properties.reason_string == "too loud"
    assert other.rest() == []
    assert broker.server.statistics()["disconnected_by_operator_total"] == 1


def test_an_mqtt_3_client_is_only_disconnected(broker: RunningBroker) -> None:
    client = broker.client("ann", version=MQTT_3_1_1)
    assert asked(broker, "disconnect", client="ann")["clients"] == ["ann"]
    assert client.end() == []


def test_a_will_is_published_and_a_persistent_session_stays(broker: RunningBroker) -> None:
    watcher = broker.client()
    watcher.subscribe("gone")
    client = broker.client("ann", expiry=3_600, will=Will("gone", b"ann"))
    client.subscribe("news", qos=1)
    asked(broker, "disconnect", client="ann")
    last_word(client)
    assert watcher.message().payload == b"ann"
    watcher.publish("news", b"later", qos=1)
    again = broker.client("ann", clean=False, expiry=3_600)
    assert again.connack.session_present
    assert again.take().payload == b"later"


@pytest.mark.parametrize("is_away", [False, True])
def test_a_persistent_session_ends_on_request(tmp_path: Path, is_away: bool) -> None:
    broker = RunningBroker(data=tmp_path)
    client = broker.client("ann", expiry=3_600)
    client.subscribe("news", qos=1)
    if is_away:
        broker.lose(client)
    found = asked(broker, "disconnect", client="ann", end_session=True)
    assert found == {"clients": [] if is_away else ["ann"], "ended": ["ann"]}
    if not is_away:
        assert last_word(client).reason_code == ReasonCode.ADMINISTRATIVE_ACTION
    # What was answered is on disk: after a restart there is no such session.
    broker.stop()
    later = RunningBroker(data=tmp_path)
    again = later.client("ann", clean=False, expiry=3_600)
    later.stop()
    assert not again.connack.session_present


def test_nobody_of_that_name_is_an_empty_answer(broker: RunningBroker) -> None:
    away = broker.client("away", expiry=3_600)
    broker.lose(away)
    for name in ("away", "nobody", ""):
        assert asked(broker, "disconnect", client=name) == {"clients": [], "ended": []}


def test_all_clients_of_a_user_are_disconnected_and_nobody_else(tmp_path: Path) -> None:
    with_users(tmp_path)
    doors = AuthSection(users=str(tmp_path / "users.toml"))
    broker = RunningBroker(Settings(doors=doors), tmp_path)
    clients = {}
    for name, user in (("alice", "alice"), ("alice~2", "alice"), ("bob", "bob"), ("guest", None)):
        clients[name] = broker.open()
        password = None if user is None else SECRET[user]
        packet = Connect(name, MQTT_5, username=user, password=password)
        assert not clients[name].connect(packet).reason_code.failed
    rows = asked(broker, "sessions", interval_s=0.05)["sessions"]
    assert {each["client"]: each["user"] for each in rows} == {
        "alice": "alice", "alice~2": "alice", "bob": "bob", "guest": None,
    }  # fmt: skip
    found = asked(broker, "disconnect", user="alice")
    assert sorted(found["clients"]) == ["alice", "alice~2"]
    for name in ("alice", "alice~2"):
        assert last_word(clients[name]).reason_code == ReasonCode.ADMINISTRATIVE_ACTION
    for name in ("bob", "guest"):
        assert clients[name].rest() == []
    broker.validate()
    broker.stop()


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({}, "a client or a user"),
        ({"client": "ann", "user": "ann"}, "a client or a user"),
        ({"client": 5}, "a client or a user"),
        ({"client": "ann", "reason": "x" * 2_000}, "up to 1000 printable"),
        ({"client": "ann", "reason": "a\0b"}, "up to 1000 printable"),
        ({"client": "ann", "reason": None}, "up to 1000 printable"),
    ],
)
def test_an_invalid_request_to_disconnect_is_refused(
    broker: RunningBroker, about: dict[str, object], why: str
) -> None:
    client = broker.client("ann")
    with pytest.raises(ControlError, match=why):
        asked(broker, "disconnect", **about)
    assert client.rest() == []


def test_a_part_of_the_broker_is_not_disconnected(broker: RunningBroker) -> None:
    class Part:
        """A part of the broker that listens."""

        def receive(self, data: bytes) -> None:
            """Take what the broker writes."""

        def let_go(self) -> None:
            """Hear that the link has ended."""

        def wait(self, wanted: bool) -> None:
            """Stop sending."""

    async def join() -> None:
        LocalLink(broker.server, "inside", Part()).send([Connect("inside", MQTT_5)])

    broker.run(join())
    until(lambda: "inside" in broker.server.hub.sessions, "it has joined")
    with pytest.raises(ControlError, match="inside is a part of the broker"):
        asked(broker, "disconnect", client="inside")


def test_a_client_whose_packets_wait_is_disconnected(broker: RunningBroker) -> None:
    client = broker.client("ann")
    client.send(*[Publish("a", b"x" * 100) for _ in range(20_000)])
    assert asked(broker, "disconnect", client="ann")["clients"] == ["ann"]
    assert last_word(client).reason_code == ReasonCode.ADMINISTRATIVE_ACTION


def test_a_request_that_is_too_long_is_an_error_not_a_crash(broker: RunningBroker) -> None:
    with pytest.raises((ControlError, ConnectionError)):
        asked(broker, "disconnect", client="x" * (2 * LONGEST))
    assert asked(broker, "disconnect", client="ann") == {"clients": [], "ended": []}


def test_a_connection_without_a_request_harms_nobody(broker: RunningBroker) -> None:
    store = broker.server._store
    assert store is not None
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(store.directory / NAME))
        assert asked(broker, "disconnect", client="ann") == {"clients": [], "ended": []}
