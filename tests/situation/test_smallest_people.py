"""A smallest `people` over MQTT: nobody sees a single event, whatever is asked."""

import json
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nearcast.broker.config.settings import GatheringSection, Settings
from nearcast.broker.operations.explanations.explanation import as_value, explain
from nearcast.core.gathering.cells import Cell
from nearcast.pipeline.decide.player import Player
from nearcast.testing import World, explore
from nearcast.wire.mqtt import MQTT_5, Connect, Properties, Publish, ReasonCode, TopicFilter, Will
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, told
from tests.support.logs.recorded_life import RECORDED, played, recorded
from tests.support.logs.world_log import rows_in
from tests.support.plain.virtual_driver import Virtual
from tests.support.ruled_broker import broker_with, user
from tests.support.running_broker import RunningBroker

BAD = ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
# A clock whose tick does not come by itself while a test runs.
DAILY = replace(Settings(), gathering=GatheringSection(every_s=86_400.0, wait_s=200_000.0))


@pytest.fixture
def daily(tmp_path: Path) -> Iterator[RunningBroker]:
    running = RunningBroker(DAILY, tmp_path)
    yield running
    running.validate()
    running.stop()


def tomorrow(running: RunningBroker) -> None:
    now = running.server.now()
    running.later(ceil(now / 86_400.0) * 86_400.0 - now + 1.0)


def says(talker: Talker, topic: str, people: str | None = "3", **attributes: object) -> None:
    more = {} if people is None else {"people": people}
    payload = json.dumps(attributes).encode()
    assert talker.says(topic, payload, more=more) == ReasonCode.SUCCESS


@pytest.mark.parametrize("version", VERSIONS)
def test_events_go_out_together_at_the_clock(daily: RunningBroker, version: int) -> None:
    plain, wide = Talker(daily), Talker(daily)
    some = [Talker(daily, f"p{number}", version=version) for number in range(3)]
    plain.wants("spot/+")
    wide.wants("spot/#", where="attributes.speed.mean > 15 AND count = 4")
    narrow, named = Talker(daily), Talker(daily)
    narrow.wants("spot/#", where="speed = 10")
    named.wants("spot/#", where="publisher.role = 'x'")
    some[0].is_now(role="x")
    for place, talker in enumerate(some):
        says(talker, "spot/1", speed=10 * place + 10, kind="car")
    says(some[0], "spot/1", speed=10, kind="car")
    says(some[1], "spot/2", speed=1)
    assert plain.gets() == []
    tomorrow(daily)
    (message,) = plain.gets()
    payload = json.loads(message.payload)
    assert (payload["people"], payload["count"]) == (3, 4)
    assert payload["attributes"] == {"kind": "car", "speed": {"mean": 20.0}}
    assert payload.keys() == {"people", "first", "last", "count", "attributes"}
    (message,) = wide.gets()
    assert told(message)["nc-aggregate"] == ["4"]
    assert "nc-publisher" not in told(message)
    assert narrow.gets() == named.gets() == []
    statistics = daily.server.hub.statistics()
    assert statistics["gathering_discarded_total"] == 0
    tomorrow(daily)
    tomorrow(daily)
    tomorrow(daily)
    assert plain.gets() == []
    assert daily.server.hub.statistics()["gathering_discarded_total"] == 1


@pytest.mark.parametrize(
    "more",
    [
        {"people": "1"}, {"people": "10001"}, {"people": "2.5"}, {"people": "x"},
        {"people": "3", "valid": "5"}, {"people": "3", "object": "o"},
        {"people": "3", "to": "circle:me,500"},
    ],
)  # fmt: skip
def test_what_would_single_out_is_refused(daily: RunningBroker, more: dict[str, str]) -> None:
    assert Talker(daily).says("spot", b"{}", more=more) == BAD


def test_retaining_and_announced_targets_are_refused(daily: RunningBroker) -> None:
    talker = Talker(daily)
    assert talker.says("spot", b"{}", retain=True, more={"people": "3"}) == BAD
    talker.announces("spot", "circle:53,-6,500")
    assert talker.says("spot", b"{}", more={"people": "3"}) == BAD


def test_what_waits_for_people_survives_a_restart_and_goes_out_once(tmp_path: Path) -> None:
    running = RunningBroker(DAILY, tmp_path)
    reader = Talker(running, fresh("reader"), clean=False, expiry=999_999)
    reader.wants("spot")
    for name in ("a", "b"):
        says(Talker(running, name), "spot")
    Talker(running, "c").says("spot", b"{}", 0, more={"people": "3"})
    running.stop()
    running = RunningBroker(DAILY, tmp_path)
    tomorrow(running)
    reader = Talker(running, reader.name, clean=False, expiry=999_999)
    assert reader.gets() == []
    says(Talker(running, "c"), "spot")
    tomorrow(running)
    (payload,) = map(json.loads, reader.payloads())
    assert (payload["people"], payload["count"]) == (3, 3)
    running.stop()
    running = RunningBroker(DAILY, tmp_path)
    tomorrow(running)
    reader = Talker(running, reader.name, clean=False, expiry=999_999)
    assert reader.gets() == []
    running.stop()


RULES = """
default = "allow"
[[people]]
topics = ["spot/#"]
least = 2
per = "cell 500"
every = 86400
wait = 200000
"""


def test_a_rule_hides_a_topic_and_users_are_people(tmp_path: Path) -> None:
    running = broker_with(tmp_path, RULES)
    root, warden = user(running, "root"), user(running, "warden")
    reader = Talker(running)
    reader.wants("spot/#", meta="1")
    for talker in (root, root, warden):
        talker.says("spot/1", b'{"x": 1}', more={"at": "53.0,-6.0"})
    warden.says("spot/1", b"{}", more={"at": "54.0,-6.0"})
    # All anonymous clients are one user.
    for talker in (Talker(running), Talker(running)):
        talker.says("spot/2", b"{}", more={"at": "53.0,-6.0"})
    assert root.says("spot/1", b"{}", retain=True) == BAD
    assert reader.gets() == []
    tomorrow(running)
    (message,) = reader.gets()
    payload = json.loads(message.payload)
    assert (message.topic, payload["people"], payload["count"]) == ("spot/1", 2, 3)
    assert payload["cell"].startswith("500:")
    assert told(message)["nc-at"] == [found_at(payload["cell"])]
    running.stop()


def found_at(label: str) -> str:
    size, row, column = label.split(":")
    middle = Cell(float(size), int(row), int(column)).centre
    return f"{middle.lat},{middle.lon}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('topics = "a"\nleast = 1', "from 2 to 10000"),
        ('topics = "a"', "least is a number"),
        ("least = 3", "topics is"),
        ('topics = "a"\nleast = 3\nper = "tram"', "per is followed by"),
        ('topics = "a"\nleast = 3\nevry = 5', "did you mean every"),
        ('topics = "a"\nleast = 3\nevery = 5000', "let wait be longer"),
    ],
)
def test_a_wrong_rule_is_told_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Exception, match=why):
        broker_with(tmp_path, f"default = 'allow'\n[[people]]\n{text}\n")


def test_explain_tells_nothing_of_who_got_a_single_event(tmp_path: Path) -> None:
    running = RunningBroker(DAILY, tmp_path)
    reader, writer = Talker(running, "reader"), Talker(running, "writer")
    reader.wants("spot")
    writer.says("spot", b"{}", more={"people": "3", "id": "e"})
    running.stop()
    found: Any = as_value(explain(next(tmp_path.glob("brokers/*/log")), "e", "reader"))
    assert found["delivered"] is False
    (step,) = found["subscriptions"][0]["steps"]
    assert step["step"] == "people"


CLOCK = replace(RECORDED, gathering=GatheringSection(every_s=20.0, wait_s=100.0))


def live(world: World) -> None:
    """Crashes with power cuts: never fewer people, no event twice, and the log says the same."""
    draw = Random(f"people {world.seed}")
    driver = Virtual(world, CLOCK)
    people = [f"p{number}" for number in range(5)]
    everyone = ("eve", *people)

    def connect() -> None:
        for client in everyone:
            driver.connect(client, MQTT_5, lasting=True, clean=False)

    connect()
    driver.subscribe("eve", TopicFilter("spot", qos=2), Properties())
    made, counted = 0, 0
    for _ in range(40):
        kind = draw.random()
        if kind < 0.7:
            made += 1
            hidden = Properties(user_properties=(("nc-people", "3"),))
            packet = Publish("spot", b'{"n": 1}', draw.choice((0, 2, 2))).with_(hidden)
            driver.publish(draw.choice(people), [packet])
        elif kind < 0.9:
            driver.later(draw.choice((1.0, 15.0, 40.0)))
        else:
            counted += sum(count_in(each) for each in driver.received("eve"))
            driver.restart(draw.choice((1.0, 30.0, 150.0)))
            connect()
    driver.later(150.0)
    driver.publish("eve", [Publish("other", b"", 1)])
    counted += sum(count_in(each) for each in driver.received("eve"))
    discarded = made - counted
    assert 0 <= discarded < made
    rows = rows_in(world)
    assert recorded(rows) == played(Player("broker"), rows)


def count_in(message: Publish) -> int:
    payload = json.loads(message.payload)
    assert payload["people"] >= 3
    assert payload["count"] >= payload["people"]
    return int(payload["count"])


def test_crashes_never_let_fewer_people_out() -> None:
    assert explore(live, range(6)) == 6


def test_a_will_that_would_stay_is_refused_at_connect(daily: RunningBroker) -> None:
    hidden = Properties(user_properties=(("nc-people", "3"),))
    for retain, expected in ((True, BAD), (False, ReasonCode.SUCCESS)):
        will = Will("spot", b"{}", 1, retain, hidden)
        answer = daily.open().connect(Connect(fresh("mortal"), MQTT_5, will=will))
        assert answer.reason_code == expected


NAMED = ("nc-meta", "1")
SPIES: tuple[tuple[str, str], ...] = (
    ("nc-where", "count > 3"), ("nc-where", "attributes.n.mean > 4"), ("nc-where", "n = 3"),
    ("nc-where", "publisher.role = 'x' OR publisher.role IS NULL"), ("nc-meta", "1"),
    ("nc-aggregate", "people 4"), ("nc-aggregate", "volume 9 wait 60"),
    ("nc-aggregate", "volume 1"),
)  # fmt: skip


def spy(world: World) -> None:
    """Colluding subscribers compare all that they hear: whole sets, the same for everybody."""
    draw = Random(f"spies {world.seed}")
    driver = Virtual(world, CLOCK)
    people = [f"p{number}" for number in range(6)]
    spies = [f"spy{number}" for number in range(4)]

    def connect() -> None:
        for client in ("eve", *spies, *people):
            driver.connect(client, MQTT_5, lasting=True, clean=False)

    heard: list[Publish] = []
    sets: list[Publish] = []
    connect()
    driver.subscribe("eve", TopicFilter("spot/+", qos=2), Properties(user_properties=(NAMED,)))
    for _ in range(60):
        kind = draw.random()
        if kind < 0.55:
            people_in = ("nc-people", "3")
            payload = json.dumps({"n": draw.randrange(9)}).encode()
            packet = Publish(f"spot/{draw.randrange(2)}", payload, draw.choice((0, 1)))
            hidden = packet.with_(Properties(user_properties=(people_in,)))
            driver.publish(draw.choice(people), [hidden])
        elif kind < 0.75:
            wanted = draw.choice(("spot/#", "spot/0", "#", "$share/all/spot/#"))
            options = draw.choice(SPIES[:5] if wanted.startswith("$") else SPIES)
            driver.subscribe(
                draw.choice(spies),
                TopicFilter(wanted, qos=1),
                Properties(user_properties=(options,)),
            )
        elif kind < 0.8:
            driver.unsubscribe(draw.choice(spies), "spot/#")
        elif kind < 0.95:
            driver.later(draw.choice((1.0, 11.0, 40.0)))
        else:
            sets += driver.received("eve")
            heard += [each for name in spies for each in driver.received(name)]
            driver.restart(draw.choice((1.0, 30.0)))
            connect()
    driver.later(150.0)
    sets += driver.received("eve")
    heard += [each for name in spies for each in driver.received(name)]
    known = {told(each)["nc-id"][0]: each.payload for each in sets}
    counts: dict[str, list[int]] = {"spot/0": [], "spot/1": []}
    for each in sets:
        counts[each.topic].append(count_in(each))
    assert sets
    assert heard
    for each in heard:
        said = told(each)
        assert "nc-publisher" not in said
        count = count_in(each)
        if said["nc-id"][0] in known:
            assert each.payload == known[said["nc-id"][0]]
        else:
            # A union of whole sets.
            assert count in sums_of(counts[each.topic])
            assert json.loads(each.payload)["people"] in (3, 4)


def sums_of(counts: list[int]) -> set[int]:
    found = {0}
    for count in counts:
        found |= {each + count for each in found}
    return found


def test_colluding_subscribers_hear_whole_sets_only() -> None:
    assert explore(spy, range(8)) == 8
