"""A session belongs to the user who made it, on disk too."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from nearcast.broker.auth.credentials.users_file import changing_users
from nearcast.broker.config.settings import AuthSection, Settings
from nearcast.store import SessionPut, Store
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    ConnAck,
    Connect,
    Properties,
    Publish,
    ReasonCode,
    Will,
)
from tests.support.accounts import SECRET, with_users
from tests.support.clients.raw_client import RawClient
from tests.support.running_broker import RunningBroker

RULES = """
[[rule]]
permission = "allow"
who = "all"
action = "connect"
nodes = ["${user}", "truck"]

[[rule]]
permission = "allow"
who = "anonymous"
action = "connect"
nodes = ["*"]
"""
LASTING = Properties(session_expiry_interval=3600)


class House:
    """A broker with users and rules in a directory, which can be started again."""

    def __init__(self, data: Path) -> None:
        self.data = data
        (data / "rules.toml").write_text(RULES)
        with_users(data, "root")
        self.running = self._start()

    def _start(self) -> RunningBroker:
        settings = Settings(doors=AuthSection(rules=str(self.data / "rules.toml")))
        return RunningBroker(settings, self.data)

    def restart(self) -> None:
        self.running.stop()
        self.running = self._start()

    def comes(
        self,
        client_id: str,
        user: str | None = None,
        *,
        version: int = MQTT_5,
        clean: bool = False,
        will: Will | None = None,
    ) -> tuple[RawClient, ConnAck]:
        """A client that asks to be let in, and the answer."""
        client = self.running.open(version)
        packet = Connect(client_id, version, clean, will=will)
        if version == MQTT_5:
            packet = replace(packet, properties=LASTING)
        if user is not None:
            packet = replace(packet, username=user, password=SECRET[user])
        return client, client.connect(packet)

    def removes(self, user: str) -> None:
        with changing_users(self.data / "users.toml") as accounts:
            del accounts[user]
        self.running.reload()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    found = House(tmp_path)
    yield found
    found.running.stop()


def leave_a_message_for(house: House, user: str | None) -> None:
    """Let a user have a session as `truck` in which a message waits."""
    client, _ = house.comes("truck", user)
    client.subscribe("news")
    house.running.lose(client)
    speaker, _ = house.comes("bob", "bob")
    speaker.publish("news", b"for the truck", 1)
    house.running.lose(speaker)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
@pytest.mark.parametrize(
    ("owner", "other"), [("alice", "bob"), ("alice", None), (None, "alice"), ("alice", "root")]
)
def test_nobody_else_gets_or_ends_a_session(
    house: House, owner: str | None, other: str | None, version: int, clean: bool, restarted: bool
) -> None:
    leave_a_message_for(house, owner)
    if restarted:
        house.restart()
    thief, answer = house.comes("truck", other, version=version, clean=clean)

    assert answer.reason_code is ReasonCode.NOT_AUTHORIZED
    assert not answer.session_present
    thief.close()
    back, answer = house.comes("truck", owner)
    assert answer.session_present
    assert back.message().payload == b"for the truck"


def test_somebody_else_does_not_take_over_a_connection(house: House) -> None:
    client, _ = house.comes("truck", "alice", will=Will("last words", b"x"))
    _, answer = house.comes("truck", "bob", clean=True)

    assert answer.reason_code is ReasonCode.NOT_AUTHORIZED
    assert client.rest() == []


def test_all_anonymous_clients_are_one_user(house: House) -> None:
    leave_a_message_for(house, None)
    back, answer = house.comes("truck")

    assert answer.session_present
    assert back.message().payload == b"for the truck"


@pytest.mark.parametrize("restarted", [False, True])
def test_removing_a_user_ends_what_it_left(house: House, restarted: bool) -> None:
    delayed = Properties(will_delay_interval=60)
    client, _ = house.comes("truck", "alice", will=Will("last words", b"x", 1, False, delayed))
    client.subscribe("news")
    reader, _ = house.comes("reader")
    reader.subscribe("last words")
    house.running.lose(client)
    if restarted:
        house.running.stop()
        with changing_users(house.data / "users.toml") as accounts:
            del accounts["alice"]
        house.running = house._start()
        reader, _ = house.comes("reader")
    else:
        house.removes("alice")

    assert "truck" not in house.running.server.hub.sessions
    house.running.later(120)
    assert not [each for each in reader.rest() if isinstance(each, Publish)]
    _, answer = house.comes("truck", "bob")
    assert not answer.reason_code.failed
    assert not answer.session_present
    house.running.validate()


def test_a_user_who_is_removed_is_sent_away_at_once(house: House) -> None:
    client, _ = house.comes("truck", "alice", will=Will("last words", b"x"))
    reader, _ = house.comes("reader")
    reader.subscribe("last words")
    house.removes("alice")

    (goodbye,) = client.end()
    assert goodbye.reason_code is ReasonCode.NOT_AUTHORIZED  # type: ignore[union-attr]
    assert "truck" not in house.running.server.hub.sessions
    assert reader.rest() == []


def test_a_session_that_its_owner_may_no_longer_be_ends(house: House) -> None:
    leave_a_message_for(house, "alice")
    rules = RULES.replace('["${user}", "truck"]', '["${user}"]')
    for_bob = (
        '[[rule]]\npermission = "allow"\nwho = "user:bob"\naction = "connect"\nnodes = ["truck"]\n'
    )
    (house.data / "rules.toml").write_text(for_bob + rules)
    house.running.reload()
    _, answer = house.comes("truck", "bob")

    assert not answer.reason_code.failed
    assert not answer.session_present


def test_a_session_of_an_earlier_release_goes_to_the_first_who_may_have_it(house: House) -> None:
    leave_a_message_for(house, None)
    house.running.stop()
    store = Store(house.data, "local")
    kept = [each.session for each in store.load() if isinstance(each, SessionPut)]
    old = [SessionPut(replace(each, owner=None, user=None)) for each in kept]
    store.commit(old, now=1.0)
    store.close()
    house.running = house._start()
    back, answer = house.comes("truck", "alice")

    assert answer.session_present
    assert back.message().payload == b"for the truck"
    house.running.lose(back)
    assert house.comes("truck", "bob")[1].reason_code is ReasonCode.NOT_AUTHORIZED
