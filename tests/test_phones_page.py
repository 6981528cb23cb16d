"""The how-to for phones: its configuration connects, and what it says of client ids is so."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.broker.config import settings
from nearcast.wire.mqtt import MQTT_3_1_1, Connect, ReasonCode
from tests.support.clients.raw_client import RawClient
from tests.support.documents import ROOT, blocks
from tests.support.running_broker import RunningBroker

FOUND = blocks((ROOT / "docs" / "how-to" / "phones.md").read_text(encoding="utf-8"))
(PHONE,) = (json.loads(block.text) for block in FOUND if block.language == "json")
(RULE,) = (block.text for block in FOUND if block.language == "toml" and "[[rule]]" in block.text)
BY_DEFAULT = PHONE["username"] + PHONE["deviceId"]


def broker_for_phones(data: Path, rules: str) -> RunningBroker:
    secret = hashed(PHONE["password"].encode())
    write_users(data / "users.toml", {PHONE["username"]: Account(PHONE["username"], secret)})
    (data / "rules.toml").write_text(rules)
    doors = settings.AuthSection(anonymous="nowhere", rules=str(data / "rules.toml"))
    return RunningBroker(replace(settings.Settings(), doors=doors), data)


def connected(broker: RunningBroker, client_id: str) -> tuple[RawClient, ReasonCode]:
    client = broker.open(MQTT_3_1_1)
    password = PHONE["password"].encode()
    packet = Connect(client_id, MQTT_3_1_1, username=PHONE["username"], password=password)
    return client, client.connect(packet).reason_code


@pytest.mark.parametrize(
    ("client_id", "rules"), [(PHONE["clientId"], ""), (BY_DEFAULT, RULE)], ids=["part", "rule"]
)
def test_a_phone_moves_the_node_of_its_user(tmp_path: Path, client_id: str, rules: str) -> None:
    broker = broker_for_phones(tmp_path, rules)
    try:
        phone, answer = connected(broker, client_id)
        assert not answer.failed
        topic = PHONE["pubTopicBase"].replace("%u", PHONE["username"])
        topic = topic.replace("%d", PHONE["deviceId"])
        phone.publish(topic, b'{"_type": "location", "lat": 53.35, "lon": -6.26, "batt": 80}', 1)
        phone.subscribe(f"$node/{PHONE['username']}/position")
        assert phone.message().payload == b"53.35,-6.26"
    finally:
        broker.stop()


def test_the_client_id_that_the_app_makes_up_is_refused(tmp_path: Path) -> None:
    broker = broker_for_phones(tmp_path, "")
    try:
        assert connected(broker, BY_DEFAULT)[1].failed
    finally:
        broker.stop()
