"""Policies over MQTT: set, read back byte for byte, refused with the old one in force, removed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.config.settings import AdaptationSection, Settings
from nearcast.core.engine.books.policy_book import PolicyBook
from nearcast.wire.mqtt import MQTT_3_1_1, ReasonCode
from tests.situation.bad_events import BAD
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker
from tests.support.paper_files import LISTING_6_1, LISTING_7_1, LISTING_7_6
from tests.support.ruled_broker import broker_with, user
from tests.support.running_broker import RunningBroker

OK, BAD_JSON = ReasonCode.SUCCESS, ReasonCode.PAYLOAD_FORMAT_INVALID
TEMPLATE = b'{ "where": "size <= 100 OR kind = \'tank\'" }'
LONGER = b"{\"where\": \"size <= 100 OR kind = 'tank' OR kind = 'car'\"}"
ROLES = b'{"roles": {"medic": {"rest": [1, 0.5]}}}'
MATRIX = b'{"rows": [[3, 2, 1],\n [2, 1, 1],\n [1, 1, 1]]}'
AWARENESS = b'{"modules": {"x": {"attribute": "x", "intervals": [[null, 1], [1, 2], [2, null]]}}}'


def read(broker: RunningBroker, topic: str) -> list[bytes]:
    reader = Talker(broker)
    assert not reader.subscribes(topic)[0].failed
    return reader.payloads()


def policies(broker: RunningBroker) -> PolicyBook:
    """What is in force; nothing changes it while the test asks."""
    return broker.server.hub.engine.policies


@pytest.mark.parametrize("version", VERSIONS)
def test_a_policy_is_read_as_it_was_published(broker: RunningBroker, version: int) -> None:
    name = fresh("plan")
    assert Talker(broker, version=version).sends(f"$policy/template/{name}", TEMPLATE) == OK
    assert policies(broker).document("template", name) == TEMPLATE.decode()
    reader = Talker(broker)
    reader.subscribes(f"$policy/template/{name}")
    (message,) = reader.gets()
    assert (message.payload, message.retain) == (TEMPLATE, True)


def test_readers_are_told_of_changes_and_an_empty_payload_removes(broker: RunningBroker) -> None:
    writer, reader, name = Talker(broker), Talker(broker), fresh("plan")
    reader.subscribes(f"$policy/+/{name}")
    writer.sends(f"$policy/template/{name}", TEMPLATE)
    writer.sends(f"$policy/template/{name}", LONGER)
    assert writer.sends(f"$policy/template/{name}") == OK
    assert reader.payloads() == [TEMPLATE, LONGER, b""]
    assert read(broker, f"$policy/+/{name}") == []
    assert writer.sends(f"$policy/template/{name}") == OK, "there is none any more"


def test_a_name_has_one_policy_however_it_is_spelt(broker: RunningBroker) -> None:
    writer = Talker(broker)
    writer.sends("$policy/matrix/team%20leader", MATRIX)
    writer.sends("$policy/matrix/team leader", MATRIX + b" ")
    assert read(broker, "$policy/matrix/+") == [MATRIX + b" "]
    assert writer.sends("$policy/m%61trix/team%20leader") == OK
    assert read(broker, "$policy/matrix/+") == []


@pytest.mark.parametrize(
    ("kind", "document", "code", "said"),
    [
        ("roles", b'{"roles": {"medic": {"rest": [1]}}}', BAD, "1 values, and the filter has 2"),
        ("template", LONGER, BAD, "roles/"),
        ("template", b'{"where": "size >"}', BAD, "^"),
        ("template", LISTING_6_1.encode(), BAD_JSON, "Line 17"),
        ("template", LISTING_7_6.encode(), BAD_JSON, "Line 22"),
        ("servers", LISTING_7_1.encode(), BAD, "server '1' (line 2)"),
        ("matrix", b'{"rows": [[1, 2], [1, 1]]}', BAD, "3 rows"),
        ("matrix", b'{"rows": [[3, 2, 1], [2, 1], [1, 1, 1]]}', BAD, "Row 2 of the matrix is inc"),
        ("matrix", b'{"rows": [[3, 2, 1], [2, null, 1], [1, 1, 1]]}', BAD, "Row 2, level 2"),
        ("matrix", b'{"rows":', BAD_JSON, "JSON"),
        (
            "awareness",
            b'{"modules": {"x": {"attribute": "x", "intervals": [[0, 2], [1, 3], [3, 4]]}}}',
            BAD,
            "overlap",
        ),
        (
            "awareness",
            b'{"modules": {"x": {"attribute": "x", "intervals": [[0, 1], [2, 3], [3, 4]]}}}',
            BAD,
            "gap",
        ),
        ("awareness", b'{"modules": {"x": {"attribute": "x", "intervals": []}}}', BAD, "3 inter"),
    ],
)
def test_a_wrong_policy_is_refused_and_the_old_one_stays(
    broker: RunningBroker, kind: str, document: bytes, code: ReasonCode, said: str
) -> None:
    writer, name = Talker(broker), fresh("plan")
    before = {"template": TEMPLATE, "roles": ROLES, "matrix": MATRIX, "awareness": AWARENESS}
    for each, text in before.items():
        assert writer.sends(f"$policy/{each}/{name}", text) == OK
    for qos in (1, 2):
        assert writer.sends(f"$policy/{kind}/{name}", document, qos) == code
        assert said in (writer.reason or "")
    old = Talker(broker, version=MQTT_3_1_1)
    old.subscribes("$me/errors")
    assert old.sends(f"$policy/{kind}/{name}", document) == OK
    (error,) = (json.loads(message.payload) for message in old.gets())
    assert said in error["error"]
    assert error["topic"] == f"$policy/{kind}/{name}"
    assert sorted(read(broker, f"$policy/+/{name}")) == sorted(before.values())
    in_force = {each: policies(broker).document(each, name) for each in before}
    assert in_force == {each: text.decode() for each, text in before.items()}


def test_policies_sent_without_waiting_are_applied_in_order(broker: RunningBroker) -> None:
    writer, name = Talker(broker), fresh("plan")
    for kind, text in (("template", LONGER), ("template", TEMPLATE), ("roles", ROLES)):
        writer.sends(f"$policy/{kind}/{name}", text, qos=0)
    assert writer.sends(f"$policy/template/{name}", LONGER) == BAD
    assert sorted(read(broker, f"$policy/+/{name}")) == sorted([TEMPLATE, ROLES])


RULES = """
[[rule]]
permission = "allow"
who = "user:warden"
action = "publish"
topics = "$policy/#"

[[rule]]
permission = "deny"
who = "all"
action = "all"
topics = "$policy/#"
"""


@pytest.fixture
def ruled(tmp_path: Path) -> Iterator[RunningBroker]:
    running = broker_with(tmp_path, RULES)
    yield running
    running.stop()


def test_who_has_no_right_neither_sets_nor_reads(ruled: RunningBroker) -> None:
    stranger, warden = Talker(ruled), user(ruled, "warden")
    no_right = ReasonCode.NOT_AUTHORIZED
    assert stranger.sends("$policy/matrix/default", MATRIX) == no_right
    assert stranger.sends("$policy/matrix/default", b"[") == no_right
    assert stranger.subscribes("$policy/#") == (no_right,)
    assert warden.sends("$policy/matrix/default", MATRIX) == OK


def test_policies_outlive_the_broker_and_other_levels(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    writer = Talker(broker)
    for topic, text in (("template/t", TEMPLATE), ("roles/t", ROLES), ("matrix/default", MATRIX)):
        assert writer.sends(f"$policy/{topic}", text) == OK
    broker.stop()
    for levels, effects in ((5, 2), (3, 3)):
        broker = RunningBroker(Settings(adaptation=AdaptationSection(levels=levels)), tmp_path)
        assert len(policies(broker)) == 3
        assert 3 - len(policies(broker).unfit) == effects
        assert sorted(read(broker, "$policy/#")) == sorted([TEMPLATE, ROLES, MATRIX])
        broker.validate()
        broker.stop()
