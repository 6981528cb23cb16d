"""Who may place scripts where, and what these see and do: rules, senders and hosts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.wire.mqtt import Publish, ReasonCode
from tests.situation.rights_house import RightsHouse, UserTalker, denying
from tests.support.clients.script_author import COUNTER, Author

OK, NO_RIGHT, BAD = (
    ReasonCode.SUCCESS,
    ReasonCode.NOT_AUTHORIZED,
    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
)
ALICE_AT_BOB = """
[[rule]]
permission = "allow"
who = "user:alice"
action = "publish"
topics = ["$node/bob/scripts/#"]
"""
BOB_IS_HIDDEN = """
[[sight]]
viewer = "node:alice"
other = "node:bob"
see = []
"""
ECHO = 'def on_event(event, state):\n    publish("echo", event)'


class UserAuthor(UserTalker, Author):
    """A user who places scripts."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RightsHouse]:
    found = RightsHouse(tmp_path)
    yield found
    found.stop()


def comes(house: RightsHouse, user: str) -> UserAuthor:
    found = UserAuthor(house.broker, user)
    found.subscribes("$me/errors", "echo", "counted", "ran")
    return found


def test_at_another_node_a_script_needs_a_rule_that_names_it(house: RightsHouse) -> None:
    alice = comes(house, "alice")
    assert alice.places("bob", COUNTER) is NO_RIGHT
    house.change('[[rule]]\npermission = "allow"\nwho = "all"\naction = "all"\n')
    assert alice.places("bob", COUNTER) is NO_RIGHT
    assert alice.places("alice", COUNTER) is OK
    house.change(ALICE_AT_BOB)
    assert alice.places("carol", COUNTER) is NO_RIGHT
    assert alice.places("bob", COUNTER) is OK


def test_a_rule_may_forbid_scripts_at_the_own_node(house: RightsHouse) -> None:
    house.change(denying("$node/+/scripts/#", action="publish"))
    assert comes(house, "alice").places("alice", COUNTER) is NO_RIGHT


def test_only_its_sender_changes_a_script_and_its_host_evicts_it(house: RightsHouse) -> None:
    house.change(ALICE_AT_BOB)
    alice, bob = comes(house, "alice"), comes(house, "bob")
    bob.subscribes("$me/scripts")
    assert bob.hears("$me/scripts") == []
    alice.places("bob", COUNTER)
    assert bob.hears("$me/scripts") == [
        {"id": "s", "from": "alice", "events": [], "state": "runs", "error": None}
    ]
    assert bob.edits(source=COUNTER) is NO_RIGHT
    assert bob.executes() is NO_RIGHT
    assert bob.sends("$me/scripts/s", b"") is OK
    told = json.loads(alice.message("$me/errors").payload)
    assert told["topic"] == "$node/bob/scripts/s"
    assert "bob removed it" in told["error"]


def test_a_script_is_refused_events_that_its_sender_may_not_subscribe_to(
    house: RightsHouse,
) -> None:
    house.change(denying("secret/#", action="subscribe"))
    alice = comes(house, "alice")
    assert alice.adds(COUNTER, "secret/plans") is NO_RIGHT
    assert alice.adds(COUNTER, "secret/#") is NO_RIGHT
    assert alice.adds(COUNTER, "public/#") is OK


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_a_script_does_only_what_both_sender_and_host_may(house: RightsHouse, who: str) -> None:
    forbids = denying("alarm/#", who=f"user:{who}", action="publish")
    house.change(ALICE_AT_BOB + forbids)
    alice = comes(house, "alice")
    comes(house, "bob")
    source = 'def run(args, state):\n    publish("ran", "before")\n    publish(args, "x")'
    assert alice.places("bob", source) is OK
    alice.tells("bob", "s", {"action": "execute", "args": "alarm/fire"})
    told = json.loads(alice.message("$me/errors").payload)
    assert "alarm/fire" in told["error"]
    assert "rule forbids" in told["error"]
    alice.tells("bob", "s", {"action": "execute", "args": "ran"})
    assert [alice.message("ran").payload for _ in range(2)] == [b"before", b"x"]


def test_what_lost_its_right_ends_and_its_sender_is_told(house: RightsHouse) -> None:
    house.change(ALICE_AT_BOB)
    alice = comes(house, "alice")
    alice.places("bob", COUNTER, "a")
    alice.adds(COUNTER, "secret/x", "open/x")
    house.change(denying("secret/#", action="subscribe"))
    told = {
        each["topic"]: each["error"]
        for each in (json.loads(alice.message("$me/errors").payload) for _ in range(2))
    }
    assert "removed" in told["$node/bob/scripts/s"]
    assert "secret/x" in told["$node/alice/scripts/s"]
    alice.says("open/x")
    assert alice.hears("counted") == {"n": 1, "of": "open/x"}


def worlds_look_alike(house: RightsHouse, lat: float) -> list[bytes]:
    """What alice learns of bob, who is hidden from her, by scripts at his node."""
    house.change(ALICE_AT_BOB + BOB_IS_HIDDEN)
    alice, bob = comes(house, "alice"), comes(house, "bob")
    bob.moves(lat, -6.0)
    bob.is_now(battery=lat)
    source = ECHO + '\ndef run(args, state):\n    publish("ran", context("bob"))'
    events = (
        {"subject": "a", "from": "circle:me,1000"},
        {"subject": "b", "where": "me.battery > 53.5"},
        {"subject": "c", "where": "publisher.battery > 53.5"},
        {"subject": "d", "where": "distance(me, publisher) < 1000"},
        "e",
        "f",
    )
    assert alice.places("bob", source, *events) is OK
    alice.moves(54.0, -6.0)
    for subject in "abd":
        alice.says(subject, b"{}", at="54.0,-6.0")
    alice.says("e", b"{}", to="circle:54.0,-6.0,1000")
    for subject in "cf":
        bob.says(subject, b"{}", id=f"of {subject}", time="2026-11-15T14:30:00Z")
    found = [alice.message("echo").payload]
    assert alice.tells("bob", "s", {"action": "execute"}) is OK
    found.append(alice.message("ran").payload)
    return found + [each.payload for each in alice.client.rest() if isinstance(each, Publish)]


def test_a_script_at_a_hidden_node_tells_nothing_of_it(tmp_path: Path) -> None:
    found = []
    for number, lat in enumerate((53.0, 54.0)):
        data = tmp_path / str(number)
        data.mkdir()
        house = RightsHouse(data)
        found.append(worlds_look_alike(house, lat))
        house.stop()
    assert found[0] == found[1]
    event, context = found[0]
    assert json.loads(event)["id"] == "of f"
    assert json.loads(event)["publisher"] is None
    assert json.loads(event)["position"] is None
    assert context == b""


@pytest.mark.parametrize(
    "wanted",
    [
        "$node/bob/position",
        {"subject": "a", "where": "count('a', 'x > 1', 100) > 1"},
        {"subject": "a", "where": "x > 1", "relevance": "1"},
    ],
)
def test_at_another_node_some_subscriptions_are_refused(house: RightsHouse, wanted: object) -> None:
    house.change(ALICE_AT_BOB)
    assert comes(house, "alice").places("bob", COUNTER, wanted) is BAD
