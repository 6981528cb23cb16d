"""Relevance over MQTT: vectors, templates, roles, classes by context, and what waits."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearcast.broker.config.settings import AdaptationSection, Settings
from nearcast.broker.operations.explanations.explanation import as_value, explain
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Publish, ReasonCode, TopicFilter
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, told, words
from tests.support.ruled_broker import broker_with, user
from tests.support.running_broker import RunningBroker

BAD = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
GRANTED = ReasonCode.GRANTED_QOS_1
UNITS = "(unit = 'infantry' OR unit = 'armor' OR unit = 'artillery') AND size <= 100"
VECTOR = "levels:3,2,1,3"
BATTERY = {
    "modules": {
        "battery": {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}
    }
}
RESTRICTION = {"rows": [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]]}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker whose clients are classified by their battery."""
    broker = RunningBroker(Settings(), tmp_path)
    sets(Talker(broker), "awareness", "default", BATTERY)
    yield broker
    broker.stop()


def sets(talker: Talker, kind: str, name: str, document: object) -> None:
    topic = f"$policy/{kind}/{name}"
    assert talker.sends(topic, json.dumps(document).encode()) == ReasonCode.SUCCESS


def unit(talker: Talker, name: str, kind: str, **said: str) -> None:
    payload = json.dumps({"unit": kind, "size": 30, "name": name}).encode()
    assert talker.says("unit", payload, more=said) == ReasonCode.SUCCESS


def priorities(messages: list[Publish]) -> list[tuple[str, str]]:
    return [(json.loads(each.payload)["name"], told(each)["nc-priority"][0]) for each in messages]


def test_the_class_of_now_decides_the_priority(house: RunningBroker) -> None:
    reader, writer = Talker(house), Talker(house)
    assert reader.wants("unit", where=UNITS, relevance=VECTOR) == GRANTED
    for battery in (90, 30, 5):
        reader.is_now(battery=battery)
        unit(writer, f"{battery}", "artillery")
    unit(writer, "armor", "armor")
    unit(writer, "tank", "tank")
    assert priorities(reader.gets()) == [("90", "1"), ("30", "2"), ("5", "3"), ("armor", "2")]


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_are_levels_in_any_version(house: RunningBroker, version: int) -> None:
    reader, writer = Talker(house, version=version), Talker(house)
    vector = "1, 0.5 0.2,1"
    if version == MQTT_5:
        assert reader.wants("unit", where=UNITS, relevance=vector) == GRANTED
    else:
        wanted = {"subject": "unit", "where": UNITS, "relevance": vector, "qos": 1}
        assert reader.names("n", **wanted, envelope=True) == ReasonCode.SUCCESS
    reader.is_now(battery=5)
    unit(writer, "a", "artillery")
    (message,) = reader.gets()
    if version == MQTT_5:
        assert told(message)["nc-priority"] == ["3"]
    else:
        assert json.loads(message.payload)["priority"] == 3


def test_what_waits_leaves_in_the_order_of_its_priority_of_now(house: RunningBroker) -> None:
    name, writer = fresh("reader"), Talker(house)
    reader = Talker(house, name, clean=False, expiry=600)
    reader.wants("unit", where=UNITS, relevance=VECTOR)
    reader.is_now(battery=90)
    house.lose(reader.client)
    unit(writer, "low", "artillery")
    unit(writer, "middle", "armor")
    unit(writer, "high", "infantry")
    other = Talker(house, f"{name}~2")
    other.is_now(battery=5)
    again = Talker(house, name, clean=False, expiry=600)
    assert priorities(again.gets()) == [("high", "1"), ("middle", "2"), ("low", "3")]


def test_what_is_withheld_comes_when_it_still_lives(house: RunningBroker) -> None:
    reader, writer = Talker(house), Talker(house)
    sets(writer, "matrix", "default", RESTRICTION)
    reader.wants("unit", where=UNITS, relevance=VECTOR)
    reader.is_now(battery=5)
    unit(writer, "gone", "artillery")
    unit(writer, "live", "artillery", valid="600")
    unit(writer, "high", "infantry")
    assert priorities(reader.gets()) == [("high", "1")]
    reader.is_now(battery=90)
    assert priorities(reader.gets()) == [("live", "1")]


def test_templates_are_copied_and_roles_followed(house: RunningBroker) -> None:
    reader, writer = Talker(house), Talker(house)
    sets(writer, "template", "units", {"where": UNITS})
    roles = {
        "default": {"role": "scout", "task": "offense"},
        "roles": {"scout": {"offense": "levels:3,3,3,3", "defense": "levels:1,1,1,1"}},
    }
    sets(writer, "roles", "units", roles)
    assert reader.wants("unit", where="template:units", relevance="role") == GRANTED
    reader.is_now(battery=5)
    unit(writer, "a", "armor")
    assert writer.sends("$policy/template/units") == ReasonCode.SUCCESS
    reader.is_now(task="defense")
    unit(writer, "b", "armor")
    assert priorities(reader.gets()) == [("a", "1"), ("b", "3")]
    reader.subscribes("$me/errors")
    reader.is_now(role="cook")
    (message,) = reader.gets()
    assert "'scout'" in json.loads(message.payload)["warning"]
    unit(writer, "c", "armor")
    assert priorities(reader.gets()) == [("c", "3")]


def test_a_publisher_may_lower_a_priority(house: RunningBroker) -> None:
    reader, writer = Talker(house), Talker(house)
    reader.wants("unit", where=UNITS, relevance=VECTOR)
    unit(writer, "a", "infantry", priority="7")
    reader.is_now(battery=5)
    unit(writer, "b", "artillery", priority="1")
    assert priorities(reader.gets()) == [("a", "3"), ("b", "3")]


def test_only_by_right_a_priority_is_raised(tmp_path: Path) -> None:
    raising = AdaptationSection(raising=("ward*",))
    broker = broker_with(tmp_path, "default = 'allow'\n", adaptation=raising)
    reader, warden, root = Talker(broker), user(broker, "warden"), user(broker, "root")
    sets(root, "awareness", "default", BATTERY)
    reader.wants("unit", where=UNITS, relevance=VECTOR)
    reader.is_now(battery=5)
    unit(root, "a", "artillery", priority="1")
    unit(warden, "b", "artillery", priority="1")
    got = priorities(reader.gets())
    broker.stop()
    assert got == [("a", "3"), ("b", "1")]


def test_explain_tells_atoms_class_and_matrix(tmp_path: Path) -> None:
    broker = RunningBroker(Settings(), tmp_path)
    reader, writer = Talker(broker), Talker(broker)
    sets(writer, "awareness", "default", BATTERY)
    sets(writer, "matrix", "default", RESTRICTION)
    reader.wants("unit", where=UNITS, relevance=VECTOR)
    reader.is_now(battery=5)
    unit(writer, "a", "artillery", id="withheld")
    unit(writer, "b", "infantry", id="sent")
    assert priorities(reader.gets()) == [("b", "1")]
    broker.stop()

    def told_of(event: str) -> dict[str, Any]:
        log = next(tmp_path.glob("brokers/*/log"))
        subscriptions: Any = as_value(explain(log, event, reader.node))["subscriptions"]
        (found,) = subscriptions
        return dict(found)

    sent, withheld = told_of("sent"), told_of("withheld")
    assert (sent["priority"], sent["class"]) == (1, 1)
    assert sent["matrix"] == RESTRICTION["rows"]
    assert withheld["priority"] == -1
    assert [each["truth"] for each in withheld["atoms"]] == [False, False, True, True]
    assert [each["relevance"] for each in withheld["atoms"]] == [3, 2, 1, 3]
    assert withheld["atoms"][2]["atom"] == "unit = 'artillery'"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"where": UNITS, "relevance": "1,1"}, "2 values, and the filter has 4 atoms"),
        ({"where": UNITS, "relevance": "0,0,0,0"}, "selects nothing"),
        ({"where": UNITS, "relevance": "2,1,1,1"}, "number from 0 to 1"),
        ({"where": UNITS, "relevance": "role"}, "template:NAME"),
        ({"where": UNITS, "relevance": "learned:x"}, "none was learned"),
        ({"where": "template:nothing"}, "no template/nothing"),
        ({"where": "template:unit", "relevance": "role"}, "did you mean units?"),
        ({"where": "template:plain", "relevance": "role"}, "no roles/plain"),
        ({"where": "template:units", "relevance": "role"}, "the roles are 'scout'"),
        ({"relevance": "1,1"}, "one number"),
        ({"where": " OR ".join(f"a = {n}" for n in range(61)),
          "relevance": ",".join(["1"] * 61)}, "at most 60 atoms"),
    ],
)  # fmt: skip
def test_wrong_relevance_is_refused_with_what_is_right(
    house: RunningBroker, said: dict[str, str], problem: str
) -> None:
    reader, writer = Talker(house), Talker(house)
    sets(writer, "template", "units", {"where": UNITS})
    sets(writer, "template", "plain", {"where": "size > 1"})
    sets(writer, "roles", "units", {"roles": {"scout": {"go": VECTOR}}})
    reader.wants("unit", where="size > 1")
    assert reader.wants("unit", qos=1, **said) == BAD
    assert reader.reason is not None
    assert problem in reader.reason
    unit(writer, "a", "tank")
    assert [name for name, _ in priorities(reader.gets())] == ["a"], "the old one stays"


def test_a_vector_that_breaks_nesting_is_granted_with_a_warning(house: RunningBroker) -> None:
    reader = Talker(house)
    assert reader.wants("unit", where="size > 1 AND unit = 'armor'", relevance="1,0.1") == (GRANTED)
    assert reader.reason is not None
    assert "unit = 'armor'" in reader.reason


def test_shared_subscriptions_have_no_relevance(house: RunningBroker) -> None:
    reader = Talker(house)
    shared = TopicFilter("$share/g/unit", 1)
    assert reader.subscribes(shared, properties=words(relevance="1")) == (BAD,)
    assert reader.reason is not None
    assert "shared" in reader.reason


@pytest.mark.parametrize("version", [MQTT_3_1_1])
def test_a_subscription_is_there_after_a_restart(tmp_path: Path, version: int) -> None:
    name = fresh("reader")
    broker = RunningBroker(Settings(), tmp_path)
    sets(Talker(broker), "awareness", "default", BATTERY)
    sets(Talker(broker), "template", "units", {"where": UNITS})
    sets(Talker(broker), "roles", "units", {"roles": {"scout": {"go": VECTOR}}})
    reader = Talker(broker, name, version, clean=False)
    reader.is_now(role="scout", task="go", battery=5)
    members = {"subject": "unit", "where": "template:units", "relevance": "role", "qos": 1}
    assert reader.names("n", **members, envelope=True) == ReasonCode.SUCCESS
    broker.lose(reader.client)
    unit(Talker(broker), "low", "artillery")
    unit(Talker(broker), "high", "infantry")
    broker.stop()
    broker = RunningBroker(Settings(), tmp_path)
    unit(Talker(broker), "middle", "armor")
    reader = Talker(broker, name, version, clean=False)
    got = [json.loads(each.payload) for each in reader.gets()]
    broker.stop()
    found = [(each["payload"]["name"], each["priority"]) for each in got]
    assert found == [("high", 1), ("middle", 2), ("low", 3)]


def test_a_template_from_xml_is_there_after_a_restart_atom_by_atom(tmp_path: Path) -> None:
    name, xml = (
        fresh("reader"),
        b"""<SUBSCRIPTION filename="units">
      <LOGICAL_OPERATOR value="OR">
        <ATOM name="unit" operator="=" value="armor"/>
        <ATOM name="size" operator="=" value="30"/>
      </LOGICAL_OPERATOR>
    </SUBSCRIPTION>""",
    )
    broker = RunningBroker(Settings(), tmp_path)
    sets(Talker(broker), "awareness", "default", BATTERY)
    assert Talker(broker).sends("$policy/template/units", xml) == ReasonCode.SUCCESS
    reader = Talker(broker, name, clean=False, expiry=600)
    reader.is_now(battery=5)
    assert reader.wants("unit", where="template:units", relevance="levels:3,1") == GRANTED
    broker.lose(reader.client)
    broker.stop()
    broker = RunningBroker(Settings(), tmp_path)
    unit(Talker(broker), "low", "infantry")
    unit(Talker(broker), "high", "armor")
    reader = Talker(broker, name, clean=False, expiry=600)
    got = priorities(reader.gets())
    broker.stop()
    assert got == [("high", "1"), ("low", "3")]


NEARBY = Path(__file__).parents[2] / "examples" / "policies" / "nearby-units.xml"
EARLIER = b"""<SUBSCRIPTION filename="calls">
  <LOGICAL_OPERATOR value="AND">
    <ATOM name="unit" operator="=" value="medic"/>
    <LOGICAL_OPERATOR value="OR">
      <ATOM name="count" operator="&gt;=" value="2">
        <PARAMETER name="user" properties="username=user1"/>
        <PARAMETER name="uform" properties="unit=call"/>
        <PARAMETER name="distance" properties="value=150"/>
      </ATOM>
      <ATOM name="distance" operator="&lt;=" value="20">
        <PARAMETER name="this" properties=""/>
        <PARAMETER name="uform" properties="unit=call"/>
      </ATOM>
    </LOGICAL_OPERATOR>
  </LOGICAL_OPERATOR>
</SUBSCRIPTION>"""


def test_a_template_may_be_about_another_user(tmp_path: Path) -> None:
    """The repaired Listing 7-6: units within 150 m of user1, wherever the reader is."""
    broker = RunningBroker(Settings(), tmp_path)
    name, writer, user1 = fresh("reader"), Talker(broker), Talker(broker, "user1")
    assert writer.sends("$policy/template/nearby", NEARBY.read_bytes()) == ReasonCode.SUCCESS
    reader = Talker(broker, name, clean=False, expiry=600)
    wanted = "1 1 1 1 1 0.5 1 1 1"
    assert reader.wants("unit", where="template:nearby", relevance=wanted) == GRANTED

    def says(text: str, at: str, **more: str) -> None:
        payload = json.dumps({"type": "unit", "affiliation": "H", "name": text}).encode()
        assert writer.says("unit", payload, more={"at": at, **more}) == ReasonCode.SUCCESS

    says("user1 is nowhere", "53.35,-6.26")
    user1.moves(53.35, -6.26)
    says("near", "53.351,-6.26")
    says("far", "53.36,-6.26")
    assert [each for each, _ in priorities(reader.gets())] == ["near"]
    says("live", "53.40,-6.26", valid="600")
    assert reader.gets() == []
    user1.moves(53.40, -6.26)
    assert [each for each, _ in priorities(reader.gets())] == ["live"]
    broker.lose(reader.client)
    broker.stop()
    broker = RunningBroker(Settings(), tmp_path)
    writer = Talker(broker)
    says("after a restart", "53.401,-6.26")
    reader = Talker(broker, name, clean=False, expiry=600)
    assert [each for each, _ in priorities(reader.gets())] == ["after a restart"]
    broker.stop()


def test_a_template_may_be_about_earlier_events(house: RunningBroker) -> None:
    reader, writer, user1 = Talker(house), Talker(house), Talker(house, "user1")
    assert writer.sends("$policy/template/calls", EARLIER) == ReasonCode.SUCCESS
    assert reader.wants("unit", where="template:calls") == GRANTED
    user1.moves(53.35, -6.26)

    def medic(text: str, at: str) -> list[str]:
        unit(writer, text, "medic", at=at)
        return [json.loads(each.payload)["name"] for each in reader.gets()]

    unit(writer, "c1", "call", at="53.3501,-6.26")
    assert medic("no call is near, and one is near user1", "53.30,-6.26") == []
    assert medic("beside a call", "53.3501,-6.26") == ["beside a call"]
    unit(writer, "c2", "call", at="53.3499,-6.26")
    assert medic("two are near user1", "53.30,-6.26") == ["two are near user1"]
    user1.moves(53.40, -6.26)
    assert medic("no more", "53.30,-6.26") == []


def test_a_user_that_may_not_be_seen_is_unknown(tmp_path: Path) -> None:
    hidden = 'viewer = "node:warden"\nother = "node:user1"\nsee = ["identity"]\n'
    broker = broker_with(tmp_path, f"default = 'allow'\n[[sight]]\n{hidden}")
    root, warden = user(broker, "root"), user(broker, "warden")
    anyone, user1 = Talker(broker), Talker(broker, "user1")
    assert root.sends("$policy/template/nearby", NEARBY.read_bytes()) == ReasonCode.SUCCESS
    for reader in (warden, anyone):
        assert reader.wants("unit", where="template:nearby") == GRANTED
    user1.moves(53.35, -6.26)
    payload = json.dumps({"type": "unit", "affiliation": "H"}).encode()
    assert root.says("unit", payload, at="53.35,-6.26") == ReasonCode.SUCCESS
    got = warden.payloads(), anyone.payloads()
    broker.stop()
    assert got == ([], [payload])
