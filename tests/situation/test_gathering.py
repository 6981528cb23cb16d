"""Gathering over MQTT: what matches a subscription that gathers waits, and leaves together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearcast.broker.operations.explanations.explanation import as_value, explain
from nearcast.wire.mqtt import MQTT_3_1_1, MQTT_5, Publish, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, told, words
from tests.support.ruled_broker import broker_with
from tests.support.running_broker import RunningBroker

BAD = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
GRANTED = ReasonCode.GRANTED_QOS_1


@pytest.fixture
def gatherer(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(data=tmp_path)
    yield running
    running.validate()
    running.stop()


def says(talker: Talker, topic: str, **attributes: object) -> None:
    assert talker.says(topic, json.dumps(attributes).encode()) == ReasonCode.SUCCESS


def only(talker: Talker) -> tuple[Publish, dict[str, Any]]:
    (message,) = talker.gets()
    return message, json.loads(message.payload)


@pytest.mark.parametrize("version", VERSIONS)
def test_so_many_events_leave_as_one(gatherer: RunningBroker, version: int) -> None:
    reader = Talker(gatherer, version=version)
    ann, bob = Talker(gatherer, "ann"), Talker(gatherer, "bob")
    assert not reader.wants("road/+", aggregate="volume 3").failed
    says(ann, "road/1", speed=10, line="46A")
    says(bob, "road/1", speed=40, line="46A", lane="left")
    says(bob, "road/2", speed=1)
    assert reader.gets() == []
    ann.says("road/1", b"plain", more={"at": "53.5,-6.5", "id": "mine"})
    message, payload = only(reader)
    assert message.topic == "road/1"
    assert payload["people"] == ["ann", "bob"]
    assert payload["count"] == 3
    assert payload["attributes"] == {"speed": [10, 40], "line": ["46A"], "lane": ["left"]}
    assert payload["events"][0]["attributes"] == {"speed": 10, "line": "46A"}
    last = payload["events"][2]
    assert (last["id"], last["text"], last["position"]) == ("mine", "plain", [-6.5, 53.5])
    if version == MQTT_5:
        meta = told(message)
        assert meta["nc-aggregate"] == ["3"]
        assert meta["nc-subscription"] == ["road/+"]
        assert meta["nc-priority"] == ["1"]
        assert meta["nc-time"] == [payload["last"]]
        assert meta["nc-at"] == ["53.5,-6.5"]
        assert "nc-publisher" not in meta
        assert list(meta).index("nc-id") >= 0


def test_numbers_that_all_have_are_mean_least_and_greatest(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer)
    reader.wants("road", aggregate="volume 2")
    says(writer, "road", speed=10, kind="car")
    says(writer, "road", speed=40, kind="car")
    _, payload = only(reader)
    assert payload["attributes"] == {"speed": {"mean": 25.0, "min": 10, "max": 40}, "kind": "car"}
    assert [each["attributes"] for each in payload["events"]] == [{"speed": 10}, {"speed": 40}]


def test_people_are_publishers_and_time_is_that_of_events(
    gatherer: RunningBroker,
) -> None:
    ann, bob, reader = Talker(gatherer, "ann"), Talker(gatherer, "bob"), Talker(gatherer)
    reader.names("people", subject="a", aggregate="people 2")
    reader.names("time", subject="b", aggregate="time 60 or volume 9")
    reader.names("both", subject="c", aggregate="people 2 and volume 3")
    for _ in range(2):
        says(ann, "a")
        says(ann, "c")
    ann.says("b", b"{}", more={"time": "2020-01-01T00:00:00Z"})
    ann.says("b", b"{}", more={"time": "2020-01-01T00:00:59Z"})
    assert reader.gets() == []
    ann.says("b", b"{}", more={"time": "2020-01-01T00:01:00Z"})
    says(bob, "a")
    says(bob, "c")
    counts = {each.topic: json.loads(each.payload)["count"] for each in reader.gets()}
    assert counts == {"a": 3, "b": 3, "c": 3}


def test_what_waits_too_long_leaves_and_a_lone_event_as_itself(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer, "ann")
    reader.wants("road", aggregate="volume 20 wait 60")
    says(writer, "road", speed=10)
    gatherer.later(61)
    message, payload = only(reader)
    assert payload == {"speed": 10}
    assert told(message)["nc-publisher"] == ["ann"]
    assert "nc-aggregate" not in told(message)
    says(writer, "road", speed=10)
    says(writer, "road", speed=10)
    gatherer.later(61)
    _, payload = only(reader)
    assert (payload["count"], payload["attributes"]) == (2, {"speed": 10})


def test_at_most_so_many_wait(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer)
    reader.wants("road", aggregate="people 2 at most 3")
    for _ in range(4):
        says(writer, "road")
    _, payload = only(reader)
    assert payload["count"] == 3


def test_per_divides_by_place_cell_and_attribute(gatherer: RunningBroker) -> None:
    square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
    reader, writer = Talker(gatherer), Talker(gatherer)
    assert not writer.sends("$place/pub/joes", json.dumps(square).encode()).failed
    for name, per in {"p": "place pub", "c": "cell 500", "a": "attribute line.name"}.items():
        assert not reader.names(name, subject="bus", aggregate=f"volume 2 per {per}").failed
    for lat, line in ((0.5, "46A"), (0.5, "39"), (None, "46A"), (None, None)):
        at = {} if lat is None else {"at": f"{lat},0.5"}
        said = {} if line is None else {"line": {"name": line}}
        writer.says("bus", json.dumps(said).encode(), more=at)
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for message in reader.gets():
        (name,) = told(message)["nc-subscription"]
        payload = json.loads(message.payload)
        members = {m: payload[m] for m in ("place", "cell", "attribute") if m in payload}
        found.setdefault(name, []).append((payload["count"], members))
    assert found == {
        "p": [(2, {"place": "pub/joes"}), (2, {"place": None})],
        "c": [(2, {"cell": found["c"][0][1]["cell"]}), (2, {"cell": None})],
        "a": [(2, {"attribute": {"line.name": "46A"}})],
    }
    size, row, column = found["c"][0][1]["cell"].split(":")
    assert (size, row.isdigit(), column.isdigit()) == ("500", True, True)


def test_an_aggregate_is_gathered_again_as_its_parts(gatherer: RunningBroker) -> None:
    reader, again, writer = Talker(gatherer), Talker(gatherer), Talker(gatherer, "ann")
    reader.wants("road", aggregate="volume 2")
    again.wants("roads", aggregate="volume 3")
    says(writer, "road", speed=1)
    says(writer, "road", speed=2)
    _, first = only(reader)
    payload = json.dumps(first).encode()
    assert writer.says("roads", payload, more={"aggregate": "3"}) == BAD
    assert writer.says("roads", b"{}", more={"aggregate": "2"}) == BAD
    assert writer.says("roads", payload, more={"aggregate": "2"}) == ReasonCode.SUCCESS
    assert again.gets() == []
    says(writer, "roads", speed=3)
    message, whole = only(again)
    assert told(message)["nc-aggregate"] == ["3"]
    assert whole["people"] == ["ann"]
    assert whole["attributes"] == {"speed": {"mean": 2.0, "min": 1, "max": 3}}


def test_an_envelope_tells_how_many(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer, version=MQTT_3_1_1), Talker(gatherer)
    reader.names("roads", subject="road", aggregate="volume 2", envelope=True)
    says(writer, "road", speed=1)
    says(writer, "road", speed=2)
    _, envelope = only(reader)
    assert envelope["aggregate"] == 2
    assert envelope["payload"]["count"] == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_friends_come_at_once_and_strangers_together(gatherer: RunningBroker, version: int) -> None:
    reader = Talker(gatherer, "reader", version=version)
    ann, bob, cat = (Talker(gatherer, name) for name in ("ann", "bob", "cat"))
    case = {"case": [["friend(publisher)", "volume 1"]], "else": "people 3", "per": "place"}
    if version == MQTT_5:
        assert not reader.wants("spot", aggregate=json.dumps(case)).failed
    else:
        assert not reader.names("spots", subject="spot", aggregate=case).failed
    ann.is_now(friends=["reader"])
    says(ann, "spot", n=1)
    assert only(reader)[1] == {"n": 1}
    says(bob, "spot", n=2)
    says(bob, "spot", n=3)
    says(cat, "spot", n=4)
    assert reader.gets() == []
    bob.is_now(friends=["reader"])
    _, payload = only(reader)
    assert (payload["people"], payload["count"]) == (["bob"], 2)
    says(bob, "spot", n=5)
    assert only(reader)[1] == {"n": 5}


def test_the_nearer_the_sooner(gatherer: RunningBroker) -> None:
    reader, far, near = Talker(gatherer), Talker(gatherer), Talker(gatherer)
    reader.wants("here", aggregate='{"volume": "distance(me, publisher) / 100", "wait": 600}')
    reader.moves(53.0, -6.0)
    near.moves(53.0001, -6.0)
    far.moves(53.00225, -6.0)
    says(near, "here", n=1)
    assert only(reader)[1] == {"n": 1}
    says(far, "here", n=2)
    says(far, "here", n=3)
    assert reader.gets() == []
    far.moves(53.0011, -6.0)
    _, payload = only(reader)
    assert payload["count"] == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "what waits leaves by a text"),
        ("volume", "volume needs a whole number"),
        ("volume 2 within 9", "nothing is let go"),
        ("volumes 2", "did you mean"),
        ("volume 2 and", "a need begins with"),
        ("volume 5000", "at most 5000"),
        ("volume 2 per tram", "per is followed by"),
        ("volume 2 wait 9 wait 9", "said twice"),
        ("{", "no JSON"),
        ('{"case": []}', "1 to 16 pairs"),
        ('{"case": [["a = ", "volume 1"]]}', "^"),
        ('{"case": [["a = 1", "volume 1 wait 5"]]}', "beside case"),
        ('{"volume": "speed > 5"}', "not a condition"),
        ("{\"volume\": \"count('s', 'x > 1')\"}", "leave count out"),
        ('{"volume": 5, "unknown": 1}', "volume 5"),
        ('{"else": "volume 5"}', "needs"),
    ],
)
def test_a_text_that_means_nothing_is_refused(gatherer: RunningBroker, text: str, why: str) -> None:
    reader = Talker(gatherer)
    assert reader.wants("road", aggregate=text) == BAD
    assert why in (reader.reason or "")


def test_shared_subscriptions_and_broker_topics_do_not_gather(
    gatherer: RunningBroker,
) -> None:
    reader = Talker(gatherer)
    for topic in ("$share/g/road", "$node/+/position", "$me/errors"):
        assert reader.subscribes(topic, properties=words(aggregate="volume 2")) == (BAD,)


def test_subscribing_again_judges_anew_and_unsubscribing_drops(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer)
    reader.names("n", subject="road", aggregate="volume 20")
    for number in range(5):
        says(writer, "road", number=number)
    reader.names("n", subject="road", aggregate="volume 4")
    _, payload = only(reader)
    assert payload["count"] == 5
    reader.names("n", subject="road", aggregate="volume 20")
    says(writer, "road", number=6)
    reader.names("n", subject="road")
    _, payload = only(reader)
    assert payload == {"number": 6}
    reader.names("n", subject="road", aggregate="volume 2")
    says(writer, "road", number=7)
    reader.sends("$me/subscriptions/n")
    reader.names("n", subject="road", aggregate="volume 2")
    says(writer, "road", number=8)
    assert reader.gets() == []


def test_one_of_a_sessions_subscriptions_gathers_and_another_does_not(
    gatherer: RunningBroker,
) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer)
    reader.wants("road", aggregate="volume 2")
    reader.wants("#")
    says(writer, "road", n=1)
    (message,) = reader.gets()
    assert "nc-id" not in told(message)
    says(writer, "road", n=2)
    assert [json.loads(each.payload).get("count") for each in reader.gets()] in (
        [None, 2],
        [2, None],
    )


def test_what_a_subscriber_may_not_see_is_not_in_its_aggregates(tmp_path: Path) -> None:
    hidden = 'viewer = "all"\nother = "node:ann"\nsee = []\n'
    running = broker_with(tmp_path, f"default = 'allow'\n[[sight]]\n{hidden}")
    reader, writer = Talker(running), Talker(running, "ann")
    reader.wants("road", aggregate="volume 2")
    writer.moves(53.0, -6.0)
    says(writer, "road", n=1)
    writer.says("road", b"{}", more={"at": "53.5,-6.5"})
    _, payload = only(reader)
    assert payload["people"] == []
    assert [each.get("position") for each in payload["events"]] == [None, [-6.5, 53.5]]
    assert all("publisher" not in each for each in payload["events"])
    running.stop()


def test_what_waits_survives_a_restart_if_it_was_promised(tmp_path: Path) -> None:
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, fresh("reader"), clean=False, expiry=3600)
    writer = Talker(running)
    reader.wants("road", aggregate="volume 4 wait 600")
    says(writer, "road", n=1)
    writer.says("road", b'{"n": 2}', 0)
    says(writer, "road", n=3)
    writer.gets()
    running.stop()
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, reader.name, clean=False, expiry=3600)
    writer = Talker(running)
    says(writer, "road", n=4)
    assert reader.gets() == []
    says(writer, "road", n=5)
    _, payload = only(reader)
    assert payload["attributes"] == {"n": {"mean": 3.25, "min": 1, "max": 5}}
    running.stop()
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, reader.name, clean=False, expiry=3600)
    running.later(3600)
    assert reader.gets() == []
    running.stop()


def test_messages_that_expire_while_they_wait_are_left_out(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer)
    reader.wants("road", aggregate="volume 3")
    writer.says("road", b'{"n": 1}', more={"valid": "10"})
    gatherer.later(11)
    says(writer, "road", n=2)
    says(writer, "road", n=3)
    _, payload = only(reader)
    assert payload["count"] == 2


def test_a_withdrawal_takes_the_place_of_what_waits(gatherer: RunningBroker) -> None:
    reader, writer = Talker(gatherer), Talker(gatherer)
    reader.wants("road", aggregate="volume 2")
    writer.says("road", b'{"n": 1}', more={"valid": "100", "object": "jam"})
    writer.says("road", b"{}", more={"valid": "0", "object": "jam"})
    (message,) = reader.gets()
    assert told(message)["nc-valid"] == ["0"]
    says(writer, "road", n=2)
    assert reader.gets() == []


@pytest.mark.parametrize("count", [2, 4])
def test_explain_says_that_an_event_waits_or_in_which_aggregate_it_left(
    tmp_path: Path, count: int
) -> None:
    running = RunningBroker(data=tmp_path)
    reader = Talker(running, "reader", clean=False, expiry=3600)
    writer = Talker(running, "writer")
    reader.wants("road", aggregate="volume 3 or people 9")
    for number in range(count):
        assert not writer.says("road", b"{}", more={"id": f"e{number}"}).failed
    messages = reader.gets()
    running.stop()
    log = next(tmp_path.glob("brokers/*/log"))
    found: Any = as_value(explain(log, "e0", "reader"))["subscriptions"]
    gathering = found[0]["gathering"]
    if not messages:
        assert gathering.pop("since").endswith("Z")
        have = {"volume": 2, "people": 1}
        assert gathering == {"state": "waits", "have": have, "need": "volume 3 or people 9"}
    else:
        aggregate = told(messages[0])["nc-id"][0]
        assert gathering == {"state": "left", "aggregate": aggregate, "count": 3}
