"""What outlives the broker: all that was acknowledged and was to stay, and nothing twice."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearcast.broker.config.settings import Objects, Settings
from nearcast.wire.mqtt import MQTT_3_1_1, ReasonCode
from tests.support.clients.talker import METRES_NORTH, Talker, told, words
from tests.support.running_broker import RunningBroker

LAT, LON = 53.35, -6.26
NEAR = (LAT + 300 * METRES_NORTH, LON)
FAR = (LAT + 3_000 * METRES_NORTH, LON)
HERE = f"circle:{LAT},{LON},500"
SQUARE = (
    b'{"type": "Polygon", "coordinates": '
    b"[[[-6.27, 53.34], [-6.25, 53.34], [-6.25, 53.36], [-6.27, 53.36], [-6.27, 53.34]]]}"
)
Restart = Callable[[], RunningBroker]


@pytest.fixture
def restart(tmp_path: Path) -> Iterator[Restart]:
    """Starts the broker, and each time again: the one before is stopped."""
    running: list[RunningBroker] = []

    def again() -> RunningBroker:
        if running:
            running[-1].validate()
            running.pop().stop()
        running.append(RunningBroker(data=tmp_path))
        return running[-1]

    yield again
    running[-1].validate()
    running[-1].stop()


def lasting(broker: RunningBroker, name: str, *, clean: bool = False) -> Talker:
    return Talker(broker, name, clean=clean, expiry=3_600)


def test_contexts_are_there_again(restart: Restart) -> None:
    broker = restart()
    walker = Talker(broker, "walker")
    walker.moves(LAT, LON)
    walker.is_now(role="medic", bag={"size": 3})

    watcher = Talker(restart())
    watcher.subscribes("$node/walker/+")

    found = {m.topic.rpartition("/")[2]: m.payload for m in watcher.gets()}
    assert found["position"] == b"53.35,-6.26"
    assert json.loads(found["context"]) == {
        "role": "medic", "bag": {"size": 3}, "position": [LON, LAT],
    }  # fmt: skip


def test_relationships_are_there_again_with_their_states(restart: Restart) -> None:
    broker = restart()
    one, other = Talker(broker, "one"), Talker(broker, "other")
    reader = lasting(broker, "reader")
    reader.subscribes("$relate/near", "$relate/away")
    both = {"members": ["one", "other"]}
    for name, said in (("near", {"within": 100}), ("away", {"beyond": 100})):
        one.sends(f"$relate/{name}", json.dumps(both | said).encode())
    one.moves(LAT, LON)
    other.moves(*FAR)
    other.moves(LAT, LON)
    other.moves(*FAR)
    other.sends("$me/position")
    told = {message.topic: json.loads(message.payload) for message in reader.gets()}
    assert [each["state"] for each in told.values()] == ["apart", "apart"]
    broker.lose(reader.client)

    broker = restart()
    broker.later(5)
    newcomer, reader = Talker(broker), lasting(broker, "reader")
    newcomer.subscribes("$relate/#")
    now = {message.topic: json.loads(message.payload) for message in newcomer.gets()}
    assert {name: each["time"] for name, each in now.items()} == {
        name: each["time"] for name, each in told.items()
    }
    assert [each["state"] for each in now.values()] == ["apart", "apart"]
    assert reader.gets() == []
    Talker(broker, "other").moves(LAT, LON)
    assert [json.loads(m.payload)["state"] for m in reader.gets()] == ["near", "near"]
    assert newcomer.sends("$relate/near") == ReasonCode.SUCCESS

    broker = restart()
    reader = lasting(broker, "reader")
    assert [json.loads(m.payload).get("ended") for m in reader.gets()] == [True]
    Talker(broker, "other").moves(*FAR)
    assert [m.topic for m in reader.gets()] == ["$relate/away"]


def test_subscriptions_with_words_and_names_are_there_again(restart: Restart) -> None:
    broker = restart()
    reader = lasting(broker, "reader")
    reader.wants("where", where="speed > 50")
    reader.wants("from", from_="circle:walker,500")
    reader.subscribes("plain")
    reader.names("text", subject="named", where="speed > 50", qos=1)
    reader.names(
        "json",
        subject="json",
        qos=1,
        where={"op": ">", "args": [{"property": "speed"}, 50]},
        **{"from": {"circle": {"center": [LON, LAT], "radius": 500}}},
    )
    reader.names("told", subject="told", meta=True, qos=1)
    old = Talker(broker, "old", MQTT_3_1_1, clean=False)
    old.names("wrapped", subject="wrapped", envelope=True, no_local=True, qos=1)
    broker.lose(reader.client)

    broker = restart()
    reader, publisher = lasting(broker, "reader"), Talker(broker, "publisher")
    Talker(broker, "walker").moves(LAT, LON)
    for subject in ("where", "from", "plain", "named", "json", "told", "wrapped"):
        for speed in (10, 90):
            at = f"{LAT},{LON}" if speed == 90 else "0,0"
            publisher.says(subject, f'{{"speed": {speed}}}'.encode(), at=at)

    came = [(m.topic, json.loads(m.payload)["speed"], told(m)) for m in reader.gets()]
    assert [(topic, speed) for topic, speed, _ in came] == [
        ("where", 90), ("from", 90), ("plain", 10), ("plain", 90), ("named", 90), ("json", 90),
        ("told", 10), ("told", 90),
    ]  # fmt: skip
    names = {topic: more.get("nc-subscription") for topic, _, more in came}
    assert names == {
        "where": ["where"], "from": ["from"], "plain": None, "named": ["text"], "json": ["json"],
        "told": ["told"],
    }  # fmt: skip
    old = Talker(broker, "old", MQTT_3_1_1, clean=False)
    envelopes = [json.loads(payload)["subscription"] for payload in old.payloads()]
    assert envelopes == [["wrapped"], ["wrapped"]]
    old.says("wrapped", b"my own")
    assert old.gets() == []


def test_a_named_subscription_that_ended_stays_ended(restart: Restart) -> None:
    broker = restart()
    reader = lasting(broker, "reader")
    reader.names("mine", subject="news")
    reader.sends("$me/subscriptions/mine", b"")

    broker = restart()
    reader = lasting(broker, "reader")
    Talker(broker).says("news")

    assert reader.gets() == []


def test_announcements_of_lasting_sessions_hold_and_others_are_gone(restart: Restart) -> None:
    broker = restart()
    lasting(broker, "lasting").announces("news", "circle:0,0,5")
    Talker(broker, "passing").announces("news", "circle:0,0,5")
    ended = lasting(broker, "ended")
    ended.announces("news", "circle:0,0,5")
    ended.sends("$me/announcements/news", b"")
    # One part's announcement is replaced by another part's, which does not last.
    lasting(broker, "both~a").announces("news", "circle:0,0,5")
    Talker(broker, "both~b").announces("news", "circle:0,0,6")

    broker = restart()
    reader = Talker(broker, "reader")
    reader.subscribes("news")
    for name in ("lasting", "passing", "ended", "both~c"):
        Talker(broker, name, clean=False).says("news", name.encode())

    assert reader.payloads() == [b"passing", b"ended", b"both~c"]


def test_an_announcement_to_a_place_that_is_gone_still_lets_nobody_in(restart: Restart) -> None:
    broker = restart()
    owner = lasting(broker, "owner")
    owner.sends("$place/kind/park", SQUARE)
    owner.announces("news", "place:park")
    owner.sends("$area/gate", b'{"area": "place:park"}')
    owner.wants("other", from_="place:park")
    owner.says("stays", b"1", valid="600", to="place:park")
    owner.sends("$place/kind/park", b"")

    broker = restart()
    reader = Talker(broker, "reader")
    reader.moves(LAT, LON)
    reader.subscribes("news", "stays")
    owner = lasting(broker, "owner")
    assert owner.says("news", b"1") == ReasonCode.SUCCESS
    assert reader.gets() == []

    owner.sends("$place/kind/park", SQUARE)
    owner.says("news", b"2")
    assert reader.payloads() == [b"1", b"2"]


def test_places_and_watched_areas_are_there_again(restart: Restart) -> None:
    broker = restart()
    owner = Talker(broker, "owner")
    owner.sends("$place/kind/park", SQUARE)
    owner.sends("$place/kind/gone", SQUARE)
    owner.sends("$place/kind/gone", b"")
    owner.sends("$area/gate", json.dumps({"area": HERE, "nodes": "kind = 'bus'"}).encode())
    owner.sends("$area/closed", json.dumps({"area": HERE}).encode())
    owner.sends("$area/closed", b"")
    bus = Talker(broker, "bus")
    bus.is_now(kind="bus")
    bus.moves(LAT, LON)

    broker = restart()
    reader = Talker(broker, "reader")
    reader.subscribes("$area/#", "$place/#")
    assert [m.topic for m in reader.gets()] == ["$place/kind/park"]
    assert not reader.says("x", to="place:park").failed
    assert reader.says("x", to="place:gone").failed

    bus, car = Talker(broker, "bus"), Talker(broker, "car")
    for node in (bus, car):
        node.moves(*NEAR)
    for node in (bus, car):
        node.moves(*FAR)
    assert [(m.topic, json.loads(m.payload)["state"]) for m in reader.gets()] == [
        ("$area/gate", "out")
    ]


def test_live_events_come_once_over_a_restart(restart: Restart) -> None:
    broker = restart()
    publisher, walker = Talker(broker, "publisher"), lasting(broker, "walker")
    walker.subscribes("valid", "object", "state")
    publisher.says("valid", b"v", valid="600", to=HERE, id="v")
    publisher.says("object", b"o1", object="o", to=HERE)
    publisher.says("object", b"o2", object="o", to=HERE)
    publisher.says("state", b"s", retain=True, to=HERE)
    publisher.says("valid", b"w", valid="600", to=HERE, id="w")
    publisher.says("valid", b"", valid="0", id="w")
    walker.moves(*NEAR)
    assert walker.payloads() == [b"", b"v", b"o2", b"s"]

    broker = restart()
    walker, late = lasting(broker, "walker"), lasting(broker, "late")
    walker.moves(*FAR)
    walker.moves(LAT, LON)
    assert walker.gets() == []
    late.subscribes("valid", "object", "state")
    late.moves(LAT, LON)
    assert sorted(late.payloads()) == [b"o2", b"s", b"v"]

    broker = restart()
    late = lasting(broker, "late")
    late.moves(*NEAR)
    assert late.gets() == []
    publisher = Talker(broker, "publisher")
    publisher.says("object", b"o3", object="o", to=HERE)
    assert late.payloads() == [b"o3"]


def test_what_somebody_missed_comes_after_a_restart_too(restart: Restart) -> None:
    broker = restart()
    walker = lasting(broker, "walker")
    walker.wants("valid", qos=0)
    walker.wants("filtered", qos=0, where="speed > 5")
    walker.moves(*NEAR)
    broker.lose(walker.client)
    publisher = Talker(broker, "publisher")
    publisher.says("valid", b"here", valid="600", to=HERE)
    publisher.says("valid", b"everywhere", valid="600")
    publisher.says("valid", b"as any broker", retain=True)
    publisher.says("filtered", b'{"speed": 10}', retain=True)

    broker = restart()
    back = lasting(broker, "walker")
    assert sorted(back.payloads()) == [b"everywhere", b"here", b'{"speed": 10}']
    broker.lose(back.client)
    assert lasting(broker, "walker").gets() == []


def test_a_repeat_is_recognised_after_a_restart(restart: Restart) -> None:
    broker = restart()
    reader = lasting(broker, "reader")
    reader.subscribes("news")
    Talker(broker, "publisher").says("news", b"1", id="same")

    broker = restart()
    assert Talker(broker, "publisher").says("news", b"2", id="same") == ReasonCode.SUCCESS

    assert lasting(broker, "reader").payloads() == [b"1"]


def test_what_waits_for_a_session_keeps_what_it_tells(restart: Restart) -> None:
    broker = restart()
    reader = lasting(broker, "reader")
    reader.subscribes("news", properties=words(meta="1"))
    broker.lose(reader.client)
    Talker(broker, "publisher").says("news", b"1", id="i", at="1,2")

    broker = restart()
    (message,) = lasting(broker, "reader").gets()
    assert told(message)["nc-id"] == ["i"]
    assert told(message)["nc-at"] == ["1,2"]
    assert told(message)["nc-subscription"] == ["news"]


def test_a_name_goes_on_meaning_the_place_that_was_first(restart: Restart) -> None:
    broker = restart()
    owner, reader = Talker(broker, "owner"), lasting(broker, "reader")
    owner.sends("$place/square/market", SQUARE)
    reader.wants("news", from_="place:market")
    elsewhere = SQUARE.replace(b"-6.2", b"-7.2")
    for kind in ("bar", "zoo"):
        owner.sends(f"$place/{kind}/market", elsewhere)
    owner.sends("$place/square/market", SQUARE)

    for number in range(2):
        broker = restart()
        reader, walker = lasting(broker, "reader"), Talker(broker, "walker")
        walker.moves(LAT, LON)
        walker.says("news", b"%d" % number)
        assert reader.payloads() == [b"%d" % number]
        walker.sends("$place/alley/market", elsewhere)


def test_objects_have_the_keys_of_the_settings_of_now(tmp_path: Path) -> None:
    def start(*shared: str) -> RunningBroker:
        return RunningBroker(Settings(objects=Objects(shared=shared)), tmp_path)

    def found(broker: RunningBroker, name: str) -> list[bytes]:
        reader = Talker(broker, name)
        reader.subscribes("bus/#")
        return reader.payloads()

    broker = start()
    seer = lasting(broker, "seer")
    for name in ("ann", "ben"):
        Talker(broker, name).says("bus/7", name.encode(), object="7")
    Talker(broker, "ann").says("bus/8", b"eight", object="8")
    seer.subscribes("bus/#")
    assert seer.payloads() == [b"ann", b"ben", b"eight"]
    broker.stop()

    broker = start("bus/#")
    assert found(broker, "reader") == [b"ben", b"eight"]
    Talker(broker, "cleo").says("bus/8", b"EIGHT", object="8")
    assert lasting(broker, "seer").payloads() == [b"EIGHT"]
    broker.validate()
    broker.stop()

    for shared in (("bus/#",), ("bus/+",), ()):
        broker = start(*shared)
        assert found(broker, "reader") == [b"ben", b"EIGHT"]
        assert lasting(broker, "seer").gets() == []
        broker.validate()
        broker.stop()
