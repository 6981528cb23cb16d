"""Commands in JSON: whatever is written there, the session lives on and nothing is half done."""

import json
from pathlib import Path

import pytest

from nearcast.broker.situation.nc_properties import subscription_options_from_texts
from nearcast.wire.mqtt import MQTT_3_1_1, Connect, ReasonCode, Will
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker

BAD = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
BAD_JSON = ReasonCode.PAYLOAD_FORMAT_INVALID
RING = [[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]
# A command that is right, by its topic, and all members that it may have.
COMMANDS: dict[str, tuple[dict[str, object], tuple[str, ...]]] = {
    "$me/publish/t": (
        {"text": "x"},
        ("at", "to", "valid", "object", "priority", "deadline", "time", "id", "payload", "text",
         "base64", "other"),
    ),
    "$me/subscriptions/name": (
        {"subject": "t"},
        ("subject", "where", "from", "relevance", "aggregate", "detail", "qos", "no_local",
         "envelope", "meta", "other"),
    ),
    "$me/context": ({"role": "medic"}, ("position", "role", "friends", "rank")),
    "$me/announcements/t": ({"to": "circle:me,50"}, ("to", "other")),
    "$area/name": ({"area": "circle:me,50"}, ("area", "nodes", "other")),
    "$place/kind/name": (
        {"type": "Polygon", "coordinates": [RING]},
        ("type", "coordinates", "geometry", "properties"),
    ),
}  # fmt: skip
NO_OBJECTS = (b"1", b"true", b"null", b'"text"', b"[]", b"[{}]", b"{", b"{}x", b"\xff", b"text")
ODD = (
    "null", "true", "false", "0", "1", "-1", "1.0", "2.0", "1.5", "-0.0", "1e308", "-1e308",
    "123456789012345678901234567890", '""', '" "', '"x"', '"1"', '"1.0"', '"nan"', '"1_0"',
    '"\\u0000"', "[]", "[1]", "[null, null]", "[1e308, 1e308]", "{}", '{"a": 1}',
    '{"type": {}, "coordinates": []}', '{"circle": {"center": "me", "radius": true}}',
    '{"circle": {"center": [1, 2], "radius": 5, "offset": "ab"}}', '{"bbox": [true, 0, 1, "2"]}',
    '{"moving": {"with": "me", "multipolygon": 5}}', '{"op": "and", "args": 1}',
    '"9999-12-31T23:59:59-14:00"', '"circle:me,1e309"', '"place:%zz"',
)  # fmt: skip


@pytest.mark.parametrize("topic", COMMANDS)
@pytest.mark.parametrize("payload", NO_OBJECTS)
def test_a_command_that_is_no_json_object_is_0x99(
    broker: RunningBroker, topic: str, payload: bytes
) -> None:
    assert Talker(broker).sends(topic, payload) == BAD_JSON


@pytest.mark.parametrize("qos", [1.0, 2.0, True, "1", None, 3, -1, [1], {}])
def test_a_qos_that_is_none_is_refused_with_a_reason(broker: RunningBroker, qos: object) -> None:
    talker = Talker(broker)

    assert talker.names("name", subject="t", qos=qos) == BAD
    assert talker.reason is not None
    assert talker.reason.startswith('"qos" is 0, 1 or 2, not ')
    assert talker.names("name", subject="t", qos=1) == ReasonCode.SUCCESS


@pytest.mark.parametrize("topic", COMMANDS)
def test_odd_members_are_taken_or_refused_with_a_reason(broker: RunningBroker, topic: str) -> None:
    right, names = COMMANDS[topic]
    talker, old = Talker(broker), Talker(broker, version=MQTT_3_1_1)
    old.subscribes("$me/errors")
    for name in names:
        for odd in ODD:
            members = {key: json.dumps(value) for key, value in right.items()} | {name: odd}
            payload = f"{{{', '.join(f'{json.dumps(k)}: {v}' for k, v in members.items())}}}"
            code = talker.sends(topic, payload.encode())
            assert not code.failed or talker.reason, payload
            old.sends(topic, payload.encode())
            assert bool(old.errors()) is code.failed, payload


def test_what_was_taken_is_there_again(tmp_path: Path) -> None:
    broker = RunningBroker(data=tmp_path)
    talker = Talker(broker, "lasting", expiry=100)
    talker.sends("$place/kind/yard", json.dumps(COMMANDS["$place/kind/name"][0]).encode())
    taken = []
    for name in COMMANDS["$me/subscriptions/name"][1]:
        for number, odd in enumerate(ODD):
            members = {"subject": '"t"'} | {name: odd}
            payload = f"{{{', '.join(f'{json.dumps(k)}: {v}' for k, v in members.items())}}}"
            called = f"{name}-{number}"
            if not talker.sends(f"$me/subscriptions/{called}", payload.encode()).failed:
                taken.append(called)
    broker.stop()

    again = RunningBroker(data=tmp_path)
    session = again.server.hub.sessions["lasting"]
    assert sorted(each.label for each in session.granted.values()) == sorted(taken)
    again.validate()
    again.stop()


def test_a_subscription_that_an_earlier_release_kept_is_read() -> None:
    assert subscription_options_from_texts((("meta", "1.0"),)).meta
    assert subscription_options_from_texts((("meta", "0.0"),)).quiet


def test_a_will_that_is_no_json_object_is_refused(broker: RunningBroker) -> None:
    client = broker.open()
    will = Will("$me/publish/t", b"[]", 0, False)
    assert client.connect(Connect(fresh("client"), will=will)).reason_code == BAD_JSON
