"""What rules say of nodes: for whom a user may speak, and what holds of whom."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.config.settings import AuthSection, Settings
from nearcast.wire.mqtt import Connect
from tests.support.accounts import SECRET, with_users
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker

RULES = """
[[rule]]
permission = "deny"
who = "user:alice"
action = "connect"
nodes = ["truck-13"]

[[rule]]
permission = "allow"
who = "user:alice"
action = "connect"
nodes = ["${user}", "truck-*"]

[grants."alice"]
rank = 3
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    data = tmp_path_factory.mktemp("data")
    Path(data, "rules.toml").write_text(RULES)
    with_users(data)
    running = RunningBroker(Settings(doors=AuthSection(rules=str(data / "rules.toml"))), data)
    yield running
    running.stop()


def as_user(house: RunningBroker, user: str) -> RawClient:
    client = house.open()
    answer = client.connect(Connect(user, username=user, password=SECRET[user]))
    assert not answer.reason_code.failed
    return client


@pytest.mark.parametrize(
    ("user", "node", "may"),
    [
        ("alice", "alice", True),
        ("alice", "truck-1", True),
        ("alice", "truck%2D2", True),
        ("alice", "truck-13", False),
        ("alice", "bob", False),
        ("bob", "truck-1", False),
        ("bob", "bob", True),
    ],
)
def test_a_phone_speaks_for_whom_its_user_may_be(
    house: RunningBroker, user: str, node: str, may: bool
) -> None:
    reader = Talker(house)
    reader.subscribes(f"$node/{node.replace('%2D', '-')}/position")
    reader.gets()
    lat = int(fresh("lat").removeprefix("lat")) % 80
    fix = json.dumps({"_type": "location", "lat": lat, "lon": 7}).encode()
    phone = as_user(house, user)
    phone.publish(f"owntracks/{node}/phone", fix, 1)

    assert reader.payloads() == ([f"{lat},7".encode()] if may else [])
    house.lose(phone)


def test_a_node_has_what_rules_say_of_it_before_it_says_anything(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text(RULES)
    with_users(tmp_path)
    settings = Settings(doors=AuthSection(rules=str(tmp_path / "rules.toml")))
    running = RunningBroker(settings, tmp_path)
    try:
        reader = Talker(running)
        reader.subscribes("$node/alice/context", "$node/bob/context")
        assert [(m.topic, m.payload) for m in reader.gets()] == [
            ("$node/alice/context", b'{"rank":3}')
        ]
    finally:
        running.stop()
