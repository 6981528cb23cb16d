"""Relevance and priorities, sentence by sentence: what is said in which form, in any version."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Publish, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, told
from tests.support.running_broker import RunningBroker

OK, BAD = ReasonCode.SUCCESS, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
KINDS = "kind = 'fire' OR kind = 'water' OR kind = 'road'"
BATTERY = {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}
SIGNAL = {"attribute": "radio.signal", "intervals": [[None, 1], [1, 2], [2, None]]}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker whose clients are classified by their battery."""
    broker = RunningBroker(Settings(), tmp_path)
    sets(broker, "awareness/default", {"modules": {"battery": BATTERY}})
    yield broker
    broker.stop()


def sets(broker: RunningBroker, name: str, document: object) -> None:
    assert Talker(broker).sends(f"$policy/{name}", json.dumps(document).encode()) == OK


def report(talker: Talker, kind: str, subject: str = "report", **said: str) -> None:
    payload = json.dumps({"kind": kind}).encode()
    assert talker.says(subject, payload, more=said) == OK


def wishes(talker: Talker, subject: str = "report", **members: object) -> ReasonCode:
    """Subscribe under a name, with priorities told in an envelope."""
    return talker.names("wish", subject=subject, qos=1, envelope=True, **members)


def priorities(messages: list[Publish]) -> list[tuple[str, int]]:
    """What came, with the priority that was told, in either form."""
    found = []
    for each in messages:
        payload = json.loads(each.payload)
        if "payload" in payload:
            found.append((payload["payload"]["kind"], payload["priority"]))
        else:
            found.append((payload["kind"], int(told(each)["nc-priority"][0])))
    return found


@pytest.mark.parametrize(
    "vector",
    ["1,0.6,0.2", "1 0.6 0.2", " 1,  0.6\t0.2 ", "levels:3,2,1", "levels:3 2 1", [1, 0.6, 0.2]],
)
def test_a_vector_has_many_spellings(house: RunningBroker, vector: object) -> None:
    reader, writer = Talker(house), Talker(house)
    if isinstance(vector, str):
        assert not reader.wants("report", where=KINDS, relevance=vector).failed
    else:
        assert wishes(reader, where=KINDS, relevance=vector) == OK
    reader.is_now(battery=5)
    for kind, priority in (("road", 3), ("water", 2), ("fire", 1)):
        report(writer, kind)
        assert priorities(reader.gets()) == [(kind, priority)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("relevance", [0.3, "0.3", [0.3], "levels:1"])
def test_without_a_filter_it_is_one_number(
    house: RunningBroker, version: int, relevance: object
) -> None:
    reader, writer = Talker(house, version=version), Talker(house)
    assert wishes(reader, relevance=relevance) == OK
    reader.is_now(battery=5)
    report(writer, "any")
    assert priorities(reader.gets()) == [("any", 3)]


@pytest.mark.parametrize(
    "relevance",
    [
        [0, 0, 0], "0 0 0", "levels:0,0,0", [1, 1], [1, 1, 1, 1], [1, 2, 0], [1, -0.1, 0],
        "levels:4,1,1", "levels:1.5,1,1", "1,x,1", "", "levels:", "learned:", "learned:x", "role",
        [True, 1, 1], {"a": 1}, [None, 1, 1], "nan 1 1",
    ],
)  # fmt: skip
def test_a_wrong_vector_is_refused_and_the_old_subscription_stays(
    house: RunningBroker, relevance: object
) -> None:
    reader, writer = Talker(house), Talker(house)
    assert wishes(reader, where=KINDS, relevance="1,0.6,0.2") == OK
    assert wishes(reader, where=KINDS, relevance=relevance).failed
    old = Talker(house, version=MQTT_3_1_1)
    old.subscribes("$me/errors")
    assert wishes(old, where=KINDS, relevance=relevance) == OK, "3.1.1 has no other answer"
    (error,) = old.errors()
    assert error["topic"] == "$me/subscriptions/wish"
    assert error["error"]
    reader.is_now(battery=5)
    report(writer, "road")
    assert priorities(reader.gets()) == [("road", 3)]


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_roles_and_tasks_are_answered_with_those_known(
    house: RunningBroker, version: int
) -> None:
    sets(house, "template/reports", {"where": KINDS})
    reader = Talker(house, version=version)
    reader.subscribes("$me/errors")

    def answer() -> str:
        code = wishes(reader, where="template:reports", relevance="role")
        errors = reader.errors()
        if version == MQTT_3_1_1:
            return errors[-1]["error"]
        assert code == BAD
        return reader.reason or ""

    assert "roles/reports" in answer()
    sets(house, "roles/reports", {"roles": {"medic": {"rest": [1, 1, 1], "run": [1, 0, 0]}}})
    assert "'medic'" in answer()
    reader.is_now(role="cook", task="rest")
    assert "'medic'" in answer()
    reader.is_now(role="medic", task="sleep")
    said = answer()
    assert "'rest'" in said
    assert "'run'" in said
    reader.is_now(task="run")
    assert wishes(reader, where="template:reports", relevance="role") == OK


def test_a_named_subscription_that_breaks_nesting_is_warned_about(house: RunningBroker) -> None:
    reader = Talker(house)
    reader.subscribes("$me/errors")
    assert wishes(reader, where="size > 1 AND kind = 'fire'", relevance=[1, 0.1]) == OK
    (warned,) = reader.errors()
    assert "kind = 'fire'" in warned["warning"]


@pytest.mark.parametrize("version", VERSIONS)
def test_matrices_and_awareness_of_a_role_are_for_that_role(
    house: RunningBroker, version: int
) -> None:
    turned = {"attribute": "battery", "intervals": [[None, 60], [60, 95], [95, None]]}
    sets(house, "awareness/medic", {"modules": {"battery": turned}})
    sets(house, "matrix/scout", {"rows": [[2, 2, 2], [2, 2, 2], [2, 2, 2]]})
    reader, writer = Talker(house, version=version), Talker(house)
    assert wishes(reader, where=KINDS, relevance="1,0.6,0.2") == OK
    for role, priority in ((None, 2), ("medic", 3), ("scout", 2), ("cook", 2)):
        reader.is_now(battery=30, role=role)
        report(writer, "road")
        assert priorities(reader.gets()) == [("road", priority)], role


def test_a_space_is_nested_by_the_classes_in_the_order_of_modules(house: RunningBroker) -> None:
    space = [[1, 1, 1], [1, 2, 3], [3, 3, 3]]
    modules = {"battery": BATTERY, "signal": SIGNAL}
    sets(house, "awareness/default", {"modules": modules, "space": space})
    reader, writer = Talker(house), Talker(house)
    assert wishes(reader, where=KINDS, relevance="1,0.6,0.2") == OK
    for battery, signal, priority in (
        (5, 9, 3), (30, 0.5, 3), (30, 1.5, 2), (30, 9, 1), (90, 0.1, 1), (30, None, 1),
        (None, None, 1),
    ):  # fmt: skip
        reader.is_now(battery=battery, radio={"signal": signal})
        report(writer, "road")
        assert priorities(reader.gets()) == [("road", priority)], (battery, signal)


def test_hysteresis_and_ends_of_intervals(house: RunningBroker) -> None:
    module = BATTERY | {"hysteresis": 5}
    sets(house, "awareness/default", {"modules": {"battery": module}})
    reader, writer = Talker(house), Talker(house)
    assert wishes(reader, where=KINDS, relevance="1,0.6,0.2") == OK
    # An interval holds its upper end; a class is left beyond a border by the hysteresis.
    for battery, priority in ((20, 3), (24, 3), (25.5, 2), (16, 2), (15, 3), (-1e300, 3), (56, 1)):
        reader.is_now(battery=battery)
        report(writer, "road")
        assert priorities(reader.gets()) == [("road", priority)], battery


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority", "0"), ("priority", "-1"), ("priority", "1.5"), ("priority", "high"),
        ("priority", "1e0"), ("priority", "+1"), ("priority", " 1"), ("priority", "000"),
        ("deadline", "0"), ("deadline", "-3"), ("deadline", "nan"), ("deadline", "inf"),
        ("deadline", "soon"),
    ],
)  # fmt: skip
def test_wrong_urgency_is_refused_and_nothing_is_sent(
    house: RunningBroker, version: int, name: str, value: str
) -> None:
    reader, writer = Talker(house), Talker(house, version=version)
    reader.subscribes("report")
    writer.subscribes("$me/errors")
    code = writer.says("report", b"x", more={name: value})
    if version == MQTT_5:
        assert code == BAD
    assert name in (writer.reason or "") + json.dumps(writer.errors())
    assert reader.payloads() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_without_relevance_all_is_priority_1_whatever_the_publisher_says(
    house: RunningBroker, version: int
) -> None:
    plain, both, writer = Talker(house), Talker(house), Talker(house, version=version)
    assert not plain.wants("report", meta="1").failed
    assert not both.wants("report", where=KINDS, relevance="0.2,0.2,0.2").failed
    assert not both.wants("#", meta="1").failed
    for reader in (plain, both):
        reader.is_now(battery=5)
    report(writer, "road", priority="3")
    for reader in (plain, both):
        (message,) = reader.gets()
        assert told(message)["nc-priority"] == ["1"]


@pytest.mark.parametrize("said", ["4", "007", "9" * 5_000])
def test_a_priority_beyond_the_levels_is_the_lowest(house: RunningBroker, said: str) -> None:
    reader, writer = Talker(house), Talker(house)
    assert not reader.wants("report", where=KINDS, relevance="1,1,1").failed
    report(writer, "fire", priority=said)
    assert priorities(reader.gets()) == [("fire", 3)]


def test_the_earliest_deadline_leaves_first_and_the_order_of_a_flow_is_kept(
    house: RunningBroker,
) -> None:
    name, writer = fresh("reader"), Talker(house)
    reader = Talker(house, name, clean=False, expiry=600)
    reader.subscribes("report/#")
    house.lose(reader.client)
    report(writer, "none", "report/a")
    report(writer, "late", "report/b", deadline="900")
    report(writer, "soon", "report/c", deadline="300.5")
    report(writer, "behind", "report/b", deadline="100")
    again = Talker(house, name, clean=False, expiry=600)
    assert [json.loads(each)["kind"] for each in again.payloads()] == [
        "soon", "late", "behind", "none",
    ]  # fmt: skip


def test_a_full_queue_drops_the_least_urgent_and_says_how_many(tmp_path: Path) -> None:
    broker = RunningBroker(Settings(limits=Limits(queued=3)), tmp_path)
    sets(broker, "awareness/default", {"modules": {"battery": BATTERY}})
    name, writer = fresh("reader"), Talker(broker)
    reader = Talker(broker, name, clean=False, expiry=600)
    reader.is_now(battery=5)
    reader.subscribes("$me/errors")
    assert not reader.wants("report", where=KINDS, relevance="1,0.6,0.2").failed
    broker.lose(reader.client)
    for kind in ("road", "water", "fire", "road", "fire", "road"):
        report(writer, kind)
    again = Talker(broker, name, clean=False, expiry=600)
    came = again.gets()
    broker.stop()
    reports = [each for each in came if each.topic == "report"]
    assert priorities(reports) == [("fire", 1), ("fire", 1), ("water", 2)]
    losses = [json.loads(each.payload) for each in came if each.topic == "$me/errors"]
    assert [(each["dropped"], each["priority"], each["reason"]) for each in losses] == [
        (3, 3, "full")
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_templates_are_plain_filters_without_relevance(house: RunningBroker, version: int) -> None:
    sets(house, "template/reports", {"where": KINDS})
    reader, writer = Talker(house, version=version), Talker(house)
    assert wishes(reader, where="template:reports") == OK
    reader.is_now(battery=5)
    for kind in ("road", "song"):
        report(writer, kind)
    assert priorities(reader.gets()) == [("road", 1)]
