"""Names in topics are decoded once, and before any rule: no spelling passes a rule."""

import json
from collections.abc import Iterator

import pytest

from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Connect, Properties, ReasonCode, Will
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.clients.talker import Talker
from tests.support.ruled_broker import SQUARE, broker_with
from tests.support.running_broker import RunningBroker

NO_RIGHT = ReasonCode.NOT_AUTHORIZED
RULES = """
[[rule]]
permission = "deny"
who = "all"
action = "all"
topics = [
  "$place/hospital/#", "$place/+/St%20James", "$node/ann smith/#", "$area/ward/+", "$area/a%2Fb",
  "owntracks/ann/#", "secret/#", "eq $node/cleo/position",
]
"""
# Topics that a rule forbids, however they are spelt.
FORBIDDEN_TO_PUBLISH = (
    "$place/hospital/x", "$place/%68ospital/x", "$place/%68%6F%73%70%69%74%61%6C/x",
    "$place/hos%70ital/x%2Fy", "$place/clinic/St James", "$place/clinic/%53t%20James",
    "$area/ward/7", "$area/%77ard/7", "$area/w%61rd/%37", "$area/a%2fb", "$area/%61%2Fb",
    "owntracks/ann/phone", "owntracks/%61nn/phone", "owntracks/ann/%70hone",
    "$me/publish/owntracks/%61nn/phone", "$me/publish/secret/x",
)  # fmt: skip
FORBIDDEN_TO_READ = (
    "$place/hospital/x", "$place/%68ospital/x", "$place/%68ospital/#", "$place/+/%53t%20James",
    "$share/g/$place/%68ospital/+", "$node/ann%20smith/position", "$node/%61nn%20smith/position",
    "$node/ann smith/#", "$node/+/position", "$area/%77ard/7", "$area/%61%2fb", "$area/+",
    "owntracks/%61nn/phone", "owntracks/%61nn/#", "secret/x", "$node/%63leo/position",
)  # fmt: skip
# What only looks like it: decoded once, these are other names.
ALLOWED = (
    "$place/%2568ospital/x", "$place/clinic/%2553t%20James", "$area/ward%2F7", "$area/a/b",
    "$area/%25a", "%73ecret/x", "owntracks/%2561nn/phone",
)  # fmt: skip


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = broker_with(tmp_path_factory.mktemp("ruled"), RULES)
    yield running
    running.validate()
    running.stop()


@pytest.mark.parametrize("topic", FORBIDDEN_TO_PUBLISH)
def test_no_spelling_passes_a_rule_on_publishing(ruled: RunningBroker, topic: str) -> None:
    payload = b'{"payload": {}}' if topic.startswith("$me") else SQUARE
    if topic.startswith("$area"):
        payload = b'{"area": "circle:0,0,5"}'
    talker = Talker(ruled, version=MQTT_5)
    assert talker.sends(topic, payload) == NO_RIGHT
    assert talker.sends(topic, b"" if not topic.startswith("$me") else b"{}") == NO_RIGHT


@pytest.mark.parametrize("topic", FORBIDDEN_TO_READ)
def test_no_spelling_passes_a_rule_on_subscribing(ruled: RunningBroker, topic: str) -> None:
    talker = Talker(ruled)
    assert talker.subscribes(topic) == (NO_RIGHT,)
    assert talker.names("x", subject=topic) == NO_RIGHT
    old = Talker(ruled, version=MQTT_3_1_1)
    assert old.subscribes(topic)[0].failed
    old.subscribes("$me/errors")
    old.names("x", subject=topic)
    assert len(old.errors()) == 1


@pytest.mark.parametrize("topic", ALLOWED)
def test_what_only_looks_like_a_forbidden_name_is_another(ruled: RunningBroker, topic: str) -> None:
    payload = b'{"area": "circle:0,0,5"}' if topic.startswith("$area") else SQUARE
    talker = Talker(ruled)
    assert talker.sends(topic, payload) == ReasonCode.SUCCESS
    assert not talker.subscribes(topic)[0].failed
    talker.sends(topic, b"")


@pytest.mark.parametrize("topic", ["owntracks/%61nn/phone", "$me/publish/owntracks/%61nn/phone"])
def test_no_spelling_passes_a_rule_on_wills(ruled: RunningBroker, topic: str) -> None:
    client: RawClient = ruled.open()
    will = Will(topic, b"{}", 1, False, Properties())
    assert client.connect(Connect(fresh("client"), will=will)).reason_code == NO_RIGHT


def test_a_reader_may_spell_a_node_as_it_likes(broker: RunningBroker) -> None:
    walker, reader = Talker(broker, fresh("o'neil: 50%")), Talker(broker)
    plain = walker.node.replace("%", "%25")
    encoded = "".join(f"%{byte:02x}" for byte in walker.node.encode())
    for spelt in (plain, encoded):
        walker.moves(1.0, 2.0)
        reader.subscribes(f"$node/{spelt}/position")
        walker.moves(3.0, 4.0)
        assert reader.payloads() == [b"1,2", b"3,4"]
        reader.client.unsubscribe(f"$node/{spelt}/position")


def test_an_area_is_one_however_it_is_spelt_and_told_as_it_was_written(
    broker: RunningBroker,
) -> None:
    owner, reader, walker = Talker(broker), Talker(broker), Talker(broker)
    name = fresh("zone:a b")
    spelt = name.replace(":", "%3A").replace(" ", "%20")
    walker.moves(10.0, 10.0)
    owner.sends(f"$area/{name}", b'{"area": "circle:0,0,500"}')
    owner.sends(f"$area/{spelt}", b'{"area": "circle:5,5,500"}')
    reader.subscribes(f"$area/{spelt}")

    walker.moves(0.0, 0.0)
    walker.moves(5.0, 5.0)

    (message,) = reader.gets()
    assert message.topic == f"$area/{name}"
    assert json.loads(message.payload)["state"] == "in"
    owner.sends(f"$area/{spelt}", b"")
    walker.moves(10.0, 10.0)
    assert reader.gets() == []


def test_a_place_is_read_however_it_is_spelt(broker: RunningBroker) -> None:
    owner, reader = Talker(broker), Talker(broker)
    name = fresh("St James")
    owner.sends(f"$place/yard/{name}", SQUARE)

    for spelt in (name, name.replace(" ", "%20"), name.replace("S", "%53")):
        reader.subscribes(f"$place/yard/{spelt}")
        assert [m.topic for m in reader.gets()] == [f"$place/yard/{name}"]
        reader.client.unsubscribe(f"$place/yard/{spelt}")


@pytest.mark.parametrize("name", ["%ff", "a%00b", "%c3"])
def test_a_name_that_is_no_text_is_refused(broker: RunningBroker, name: str) -> None:
    talker = Talker(broker)
    bad = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    assert talker.sends(f"$place/yard/{name}", SQUARE) == bad
    assert talker.sends(f"$place/{name}/x", SQUARE) == bad
    assert not talker.subscribes(f"$node/{name}/position")[0].failed
