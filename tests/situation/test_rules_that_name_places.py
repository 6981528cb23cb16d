"""A place that a rule names is changed only by who may change rules, or by a rule that says so."""

from collections.abc import Iterator

import pytest

from nearcast.wire.mqtt import MQTT_3_1_1, Connect, Properties, ReasonCode, Will
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import Talker, words
from tests.support.ruled_broker import SQUARE, broker_with, square, user
from tests.support.running_broker import RunningBroker

NO_RIGHT = ReasonCode.NOT_AUTHORIZED
RULES = """
[[rule]]
permission = "allow"
who = "user:warden"
action = "publish"
topics = "$place/hospital/#"

[[rule]]
permission = "deny"
who = "all"
action = "subscribe"
topics = ["$place/depot/north", "$place/home/${user}"]

[[rule]]
permission = "allow"
who = "all"
action = "all"
topics = ["$place/#", "$place/+/Mater"]

[[sight]]
other_in = "place:hospital/Mater"
see = []

[[sight]]
viewer_in = "place:Park, Ireland"
see = ["identity"]
"""
PLACES = {"hospital/Mater": SQUARE, "garden/Park": SQUARE, "country/Ireland": square(2)}
# Places that rules name, and others that they do not.
NAMED = (
    "hospital/Mater", "hospital/Rotunda", "hospital/%4Dater", "%68ospital/x", "depot/north",
    "home/ann", "garden/Park", "car/Park", "country/Ireland", "song/Ireland",
)  # fmt: skip
OTHERS = ("clinic/Mater", "depot/south", "garden/Green", "Mater/hospital")


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = broker_with(tmp_path_factory.mktemp("ruled"), RULES, PLACES)
    yield running
    running.validate()
    running.stop()


@pytest.mark.parametrize("payload", [SQUARE, b""])
@pytest.mark.parametrize("name", NAMED)
def test_nobody_else_changes_a_place_that_a_rule_names(
    ruled: RunningBroker, name: str, payload: bytes
) -> None:
    talker = Talker(ruled)
    assert talker.sends(f"$place/{name}", payload) == NO_RIGHT
    assert talker.reason is not None
    assert "a rule names the place" in talker.reason
    old = Talker(ruled, version=MQTT_3_1_1)
    old.subscribes("$me/errors")
    old.sends(f"$place/{name}", payload)
    assert "a rule names the place" in old.errors()[0]["error"]


@pytest.mark.parametrize("name", OTHERS)
def test_anyone_changes_another_place(ruled: RunningBroker, name: str) -> None:
    talker = Talker(ruled)
    assert talker.sends(f"$place/{name}", SQUARE) == ReasonCode.SUCCESS
    assert talker.sends(f"$place/{name}", b"") == ReasonCode.SUCCESS


def test_superusers_do_and_those_whom_a_rule_allows_it_by_name(ruled: RunningBroker) -> None:
    root, warden = user(ruled, "root"), user(ruled, "warden")

    for name in NAMED:
        assert root.sends(f"$place/{name}", SQUARE) == ReasonCode.SUCCESS
        mine = warden.sends(f"$place/{name}", SQUARE)
        assert mine == (ReasonCode.SUCCESS if "ospital/" in name else NO_RIGHT)


RETAIN = """
[[rule]]
permission = "deny"
who = "all"
action = "publish"
topics = ["news/#", "$place/#"]
retain = true
"""


@pytest.fixture(scope="module")
def unretained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = broker_with(tmp_path_factory.mktemp("unretained"), RETAIN)
    yield running
    running.validate()
    running.stop()


@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("said", [{"valid": "60"}, {"object": "o"}, {"valid": "0", "id": "x"}])
def test_what_stays_counts_as_retained_for_rules(
    unretained: RunningBroker, version: int, said: dict[str, str]
) -> None:
    talker = Talker(unretained, version=version)
    talker.subscribes("$me/errors", "news/#")
    talker.says("news/x", b"plain", id=fresh("id"))
    talker.says("news/x", b"stays", more=said)
    talker.says("news/x", b"retained", retain=True)
    talker.says("other", b"stays", more=said)

    got = talker.gets()
    assert [m.payload for m in got if m.topic == "news/x"] == [b"plain"]
    assert sum(m.topic == "$me/errors" for m in got) == 2


def test_what_stays_counts_as_retained_in_wills(unretained: RunningBroker) -> None:
    for topic, payload, properties in (
        ("news/x", b"", words(valid="60")),
        ("news/x", b"", words(object="o")),
        ("$me/publish/news/x", b'{"valid": 60}', Properties()),
    ):
        client = unretained.open()
        will = Will(topic, payload, 0, False, properties)
        assert client.connect(Connect(fresh("client"), will=will)).reason_code == NO_RIGHT
    client = unretained.open()
    will = Will("$me/publish/news/x", b'{"id": "x"}', 0, False, Properties())
    assert not client.connect(Connect(fresh("client"), will=will)).reason_code.failed


def test_a_place_is_always_retained(unretained: RunningBroker) -> None:
    assert Talker(unretained).sends("$place/yard/x", SQUARE) == NO_RIGHT
