"""Wills say what any event can, in properties or in JSON; one that cannot be ends the CONNECT."""

import json
from pathlib import Path

import pytest

from nearcast.wire.mqtt import MQTT_5, Connect, Properties, Will
from tests.situation.bad_events import BAD, BAD_EVENTS
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, words
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26


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


@pytest.mark.parametrize("announcer", ["itself", "another part"])
def test_an_announcement_holds_for_all_parts_and_their_wills(
    broker: RunningBroker, announcer: str
) -> None:
    node, subject = fresh("ship"), fresh("lost")
    near, far = Talker(broker), Talker(broker)
    near.moves(LAT, LON)
    far.moves(LAT + 1, LON)
    for each in (near, far):
        each.subscribes(subject)
    will = Will(subject, b"gone", 1, False)
    radio = Talker(broker, f"{node}~radio", will=will)
    bridge = Talker(broker, f"{node}~bridge")
    bridge.moves(LAT, LON)
    (radio if announcer == "itself" else bridge).announces(subject, "circle:me,500")

    for part in (radio, bridge):
        part.says(subject, b"said", qos=0)
        part.says(subject, b"said", qos=1)
    broker.lose(radio.client)

    assert near.payloads() == [b"said"] * 4 + [b"gone"]
    assert far.gets() == []


def test_an_announcement_holds_for_a_will_that_comes_after_a_restart(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    near = Talker(broker, "near", expiry=100)
    far = Talker(broker, "far", expiry=100)
    near.moves(LAT, LON)
    far.moves(LAT + 1, LON)
    for each in (near, far):
        each.subscribes("lost")
    ship = Talker(broker, "ship", will=Will("lost", b"gone", 1, False))
    ship.moves(LAT, LON)
    ship.announces("lost", "circle:me,500")
    broker.stop()

    again = RunningBroker(data=tmp_path)
    try:
        assert Talker(again, "near", clean=False, expiry=100).payloads() == [b"gone"]
        assert Talker(again, "far", clean=False, expiry=100).gets() == []
        assert not again.server.hub.engine.announcements
    finally:
        again.stop()
