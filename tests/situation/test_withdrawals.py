"""Withdrawals: what ends a live event goes to those who have it, and in place of what waits."""

import json
from pathlib import Path

import pytest

from nearcast.broker.config.settings import Objects, Settings
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import METRES_NORTH, Talker, told, words
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26
FAR = (LAT + 3_000 * METRES_NORTH, LON)
HERE = f"circle:{LAT},{LON},500"
KINDS = {
    "valid": {"id": "x", "valid": "60"},
    "object": {"object": "o"},
    "both": {"object": "o", "valid": "60"},
}
ENDS = {
    "valid": {"id": "x", "valid": "0"},
    "object": {"object": "o", "valid": "0"},
    "both": {"object": "o", "valid": "0"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_to_those_who_have_the_event_wherever_they_are(
    broker: RunningBroker, kind: str
) -> None:
    publisher, has, moved, never, unfiltered = (Talker(broker) for _ in range(5))
    subject = fresh("alert")
    for each in (has, moved):
        each.moves(LAT, LON)
    never.moves(*FAR)
    unfiltered.moves(*FAR)
    for each in (has, moved, never):
        each.wants(f"{subject}/#", where="level > 2", from_="circle:me,500")
    unfiltered.wants(subject, meta="1")
    at = f"{LAT},{LON}"
    publisher.says(subject, b'{"level": 3}', more=KINDS[kind], at=at, to=HERE)
    assert [len(each.gets()) for each in (has, moved, never, unfiltered)] == [1, 1, 0, 0]
    moved.moves(*FAR)
    never.moves(LAT + 0.1, LON)

    assert publisher.says(subject, b"", more=ENDS[kind]) == ReasonCode.SUCCESS

    for each in (has, moved):
        (message,) = each.gets()
        assert message.payload == b""
        assert told(message)["nc-valid"] == ["0"]
        assert told(message)["nc-subscription"] == [f"{subject}/#"]
    assert never.gets() == []
    assert unfiltered.gets() == []
    publisher.says(subject, b"again", more={**ENDS[kind], "id": fresh("id")})
    assert [each.gets() for each in (has, moved, never, unfiltered)] == [[], [], [], []]


def test_only_a_withdrawal_says_that_it_is_one(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker)
    reader.wants(subject := fresh("alert"), meta="1")
    publisher.says(subject, b"1", object="o", valid="60")
    publisher.says(subject, b"2", valid="0", object="o")

    assert [told(m).get("nc-valid") for m in reader.gets()] == [None, ["0"]]


def test_an_envelope_says_it_in_json(broker: RunningBroker) -> None:
    publisher, reader = Talker(broker), Talker(broker, version=MQTT_3_1_1)
    reader.names("n", subject=(subject := fresh("alert")), envelope=True, where="level > 2", qos=1)
    publisher.says(subject, b'{"level": 3}', object="o")
    publisher.says(subject, b"", object="o", valid="0")

    event, withdrawal = map(json.loads, reader.payloads())
    assert "valid" not in event
    assert withdrawal["valid"] == 0
    assert withdrawal["subscription"] == ["n"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_subscription_gets_it_like_any_message(broker: RunningBroker, kind: str) -> None:
    publisher, has, never = (Talker(broker) for _ in range(3))
    subject = fresh("alert")
    has.moves(LAT, LON)
    never.moves(*FAR)
    for each in (has, never):
        each.subscribes(subject)
    publisher.says(subject, b"flood", more=KINDS[kind], to=HERE)
    publisher.says(subject, b"over", more=ENDS[kind])

    for each, payloads in ((has, [b"flood", b"over"]), (never, [b"over"])):
        messages = each.gets()
        assert [message.payload for message in messages] == payloads
        assert all(told(message) == {} for message in messages)


@pytest.mark.parametrize("form", ["words", "envelope", "plain"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "restarted"])
def test_it_takes_the_place_of_what_still_waits(tmp_path: Path, form: str, restarts: bool) -> None:
    def back(clean: bool = False) -> Talker:
        return Talker(broker, "reader", clean=clean, expiry=600)

    broker = RunningBroker(data=tmp_path)
    reader = back(clean=True)
    if form == "plain":
        reader.subscribes("alert")
    elif form == "words":
        reader.wants("alert", where="level IS NULL OR level > 2")
    else:
        reader.names("n", subject="alert", envelope=True, qos=1)
    broker.lose(reader.client)
    publisher = Talker(broker, "publisher")
    for number in (1, 2):
        publisher.says("alert", b'{"level": 3}', object="o", valid="600", id=f"o{number}")
    publisher.says("alert", b'{"level": 4}', object="other", valid="600")
    publisher.says("alert", b'{"level": 5}')
    if restarts:
        broker.validate()
        broker.stop()
        broker = RunningBroker(data=tmp_path)
        publisher = Talker(broker, "publisher")
    publisher.says("alert", b"{}", object="o", valid="0")

    payloads = [json.loads(payload) for payload in back().payloads()]
    if form == "envelope":
        payloads = [payload["payload"] for payload in payloads]
    both = [{"level": 3}] * 2 if form == "plain" else []
    assert payloads == [*both, {"level": 4}, {"level": 5}, {}]
    assert back().gets() == []
    broker.validate()
    broker.stop()


def test_who_missed_the_event_hears_nothing_of_its_end(broker: RunningBroker) -> None:
    subject, name = fresh("alert"), fresh("reader")
    publisher, reader = Talker(broker), Talker(broker, name, expiry=60)
    reader.wants(subject, qos=0, meta="1")
    broker.lose(reader.client)
    publisher.says(subject, b"flood", object="o")
    publisher.says(subject, b"over", object="o", valid="0")

    assert Talker(broker, name, clean=False, expiry=60).gets() == []


@pytest.mark.parametrize("version", [MQTT_5, MQTT_3_1_1])
def test_clearing_a_retained_message_reaches_who_has_it_and_is_a_message_of_its_own(
    broker: RunningBroker, version: int
) -> None:
    publisher, filtered, telling, plain = (Talker(broker) for _ in range(4))
    subject = fresh("state")
    filtered.wants(subject, where="level > 2")
    telling.wants(subject, meta="1")
    plain.subscribes(subject)
    publisher.says(subject, b'{"level": 3}', retain=True)
    publisher.says(subject, b"", retain=True)
    publisher.says(subject, b"", retain=True)

    assert filtered.payloads() == [b'{"level": 3}', b""]
    assert telling.payloads() == [b'{"level": 3}', b"", b""]
    assert plain.payloads() == [b'{"level": 3}', b"", b""]


def test_a_shared_object_is_withdrawn_by_anyone(tmp_path: Path) -> None:
    broker = RunningBroker(Settings(objects=Objects(shared=("bus/#",))), tmp_path)
    first, second, reader = (Talker(broker) for _ in range(3))
    reader.wants("bus/#", where="n > 0")
    for each in (first, second):
        each.says("bus/7", b'{"n": 1}', object="7")
        each.says("train/7", b'{"n": 1}', object="7")
    second.says("bus/7", b"", object="7", valid="0")

    assert reader.payloads() == [b'{"n": 1}', b'{"n": 1}', b""]
    late = Talker(broker)
    late.subscribes("#")
    assert [message.topic for message in late.gets()] == ["train/7", "train/7"]
    broker.validate()
    broker.stop()


def test_one_in_a_shared_group_gets_it(broker: RunningBroker) -> None:
    publisher, *group = (Talker(broker) for _ in range(3))
    subject = fresh("alert")
    for member in group:
        member.subscribes(f"$share/g/{subject}", properties=words(meta="1"))
    publisher.says(subject, b"1", object="o")
    publisher.says(subject, b"2", object="o", valid="0")

    assert sorted(p for member in group for p in member.payloads()) == [b"1", b"2"]
