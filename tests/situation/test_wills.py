"""Wills say what any event can, in properties or in JSON; one that cannot be ends the CONNECT."""

import json

import pytest

from nearcast.wire.mqtt import MQTT_5, Connect, Properties, Will
from tests.conformance.raw_client import fresh
from tests.conformance.running_broker import RunningBroker
from tests.situation.talking import VERSIONS, Talker, words
from tests.situation.test_errors import BAD, BAD_EVENTS


def test_a_will_says_what_any_event_can(broker: RunningBroker) -> None:
    subject = fresh("will")
    near, far = Talker(broker), Talker(broker)
    for receiver, lat in ((near, 53.35), (far, 54.0)):
        receiver.moves(lat, -6.26)
        receiver.wants(subject)
    will = Will(subject, b"gone", 1, False, words(to="circle:53.35,-6.26,500", id=fresh("id")))
    dying = Talker(broker, will=will)

    broker.lose(dying.client)

    assert near.payloads() == [b"gone"]
    assert far.payloads() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_will_can_say_it_in_json(broker: RunningBroker, version: int) -> None:
    subject = fresh("will")
    near, far = Talker(broker), Talker(broker)
    for receiver, lat in ((near, 53.35), (far, 54.0)):
        receiver.moves(lat, -6.26)
        receiver.wants(subject)
    told = json.dumps({"to": "circle:53.35,-6.26,500", "text": "gone"}).encode()
    dying = Talker(broker, version=version, will=Will(f"$me/publish/{subject}", told, 1, False))

    broker.lose(dying.client)

    assert near.payloads() == [b"gone"]
    assert far.payloads() == []


@pytest.mark.parametrize(
    ("topic", "told", "named"),
    [
        ("$me/publish/", b'{"text": "x"}', "no subject"),
        ("$me/publish/$place/a/b", b"{}", "$ topic"),
        ("$me/publish/a", b'{"to": "somewhere"}', "to"),
        ("$me/publish/a", b"{", "the will"),
        ("$me/position", b"1,1", "$ topic"),
    ],
)
def test_a_will_in_json_that_cannot_be_is_refused_at_connect(
    broker: RunningBroker, topic: str, told: bytes, named: str
) -> None:
    client = broker.open()

    answer = client.connect(Connect(fresh("client"), MQTT_5, True, 0, Will(topic, told, 1, False)))

    assert answer.reason_code.failed
    assert named in (answer.properties.reason_string or "")


@pytest.mark.parametrize(
    ("pairs", "named"),
    [*BAD_EVENTS[:6], *BAD_EVENTS[7:]],
    ids=str,
)
def test_a_will_with_a_bad_word_is_refused_at_connect(
    broker: RunningBroker, pairs: tuple[tuple[str, str], ...], named: str
) -> None:
    client = broker.open()
    will = Will("will", b"gone", 1, False, Properties(user_properties=pairs))

    answer = client.connect(Connect(fresh("client"), MQTT_5, True, 0, will))

    assert answer.reason_code == BAD
    assert answer.properties.reason_string is not None
    assert named in answer.properties.reason_string
