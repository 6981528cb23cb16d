"""Functions that say what events need, over MQTT: who gets what when, and whom a bad one hurts."""

import json
from pathlib import Path

import pytest

from nearcast.wire.mqtt import Publish, ReasonCode
from tests.support.clients.talker import Talker
from tests.support.running_broker import RunningBroker
from tests.support.waiting import until

KEEPS = True
FRIENDS_AT_ONCE = """
def aggregability(me, other):
    if other["node"] in me["context"].get("friends", []):
        return "volume 1"
    if other["event"]["attributes"].get("urgent"):
        return {"volume": 1}
    return {"volume": 3}
"""


def soon(talker: Talker, most: int = 1) -> list[Publish]:
    """What comes in the next time: functions answer when they do."""
    found: list[Publish] = []

    def came() -> bool:
        found.extend(talker.gets())
        return len(found) >= most

    until(came, "what was expected came")
    return found


def test_a_function_decides_over_both_contexts(broker: RunningBroker) -> None:
    reader, car, pal = Talker(broker), Talker(broker, "car"), Talker(broker, "pal")
    reader.is_now(friends=["pal"])
    reader.wants("road", aggregate=json.dumps({"function": FRIENDS_AT_ONCE}))
    for number in range(3):
        car.says("road", json.dumps({"n": number}).encode())
    (message,) = soon(reader)
    assert json.loads(message.payload)["count"] == 3
    pal.says("road", b'{"n": 3}')
    assert [each.payload for each in soon(reader)] == [b'{"n": 3}']
    car.says("road", b'{"urgent": true}')
    assert [each.payload for each in soon(reader)] == [b'{"urgent": true}']
    car.says("road", b'{"n": 4}')
    reader.is_now(friends=["pal", "car"])
    assert [each.payload for each in soon(reader)] == [b'{"n": 4}']


BAD = (
    ("def aggregability(me, other):\n    for i in range(100000000):\n        pass\n", "steps"),
    ("def aggregability(me, other):\n    return [0] * 1000000000\n", "memory"),
    ("def aggregability(me, other):\n    return 5\n", "returns a need"),
    ("def aggregability(me, other):\n    return me[\n", "Parse error"),
    ("def aggregability(me):\n    return 'volume 1'\n", "argument"),
)


@pytest.mark.parametrize(("source", "why"), BAD)
def test_a_bad_function_hurts_only_its_owner_who_is_told(
    broker: RunningBroker, source: str, why: str
) -> None:
    victim, good, car = Talker(broker, "victim"), Talker(broker), Talker(broker)
    victim.subscribes("$me/errors")
    victim.wants("road", aggregate=json.dumps({"function": source, "else": "volume 2"}))
    good.wants("road", aggregate="volume 2")
    for number in range(2):
        car.says("road", json.dumps({"n": number}).encode())
    (message,) = good.gets()
    assert json.loads(message.payload)["count"] == 2
    told = soon(victim, 3)
    assert any(why in each.payload.decode() for each in told if each.topic == "$me/errors"), told
    (aggregate,) = [each for each in told if each.topic == "road"]
    assert json.loads(aggregate.payload)["count"] == 2


@pytest.mark.parametrize(
    "source", ["def aggregability(me, other): return " + "[" * 300, "return 5", ""]
)
def test_a_source_that_cannot_be_one_is_refused(broker: RunningBroker, source: str) -> None:
    reader = Talker(broker)
    answer = reader.wants("road", aggregate=json.dumps({"function": source}))
    assert answer == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR


def test_after_a_restart_functions_are_asked_again(tmp_path: Path) -> None:
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, "reader", clean=False, expiry=999)
    reader.wants("road", aggregate=json.dumps({"function": FRIENDS_AT_ONCE}))
    Talker(running, "car").says("road", b'{"n": 1}')
    running.stop()
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, "reader", clean=False, expiry=999)
    car = Talker(running, "car")
    for number in (2, 3):
        car.says("road", json.dumps({"n": number}).encode())
    (message,) = soon(reader)
    assert json.loads(message.payload)["count"] == 3
    running.stop()
