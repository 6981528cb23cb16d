"""An acknowledgement of a command means that it holds for everything received afterwards."""

import json

import pytest

from nearcast.broker.config.settings import Settings, SituationSection
from nearcast.testing import World
from nearcast.wire.mqtt import PubAck, Publish, Subscribe, TopicFilter
from tests.support.clients.raw_client import fresh
from tests.support.clients.talker import VERSIONS, Talker, words
from tests.support.running_broker import RunningBroker

KEEPS = True
LAT, LON = 53.35, -6.26
HERE = f"circle:{LAT},{LON},500"
SQUARE = (
    b'{"type": "Polygon", "coordinates": '
    b"[[[-6.27, 53.34], [-6.25, 53.34], [-6.25, 53.36], [-6.27, 53.36], [-6.27, 53.34]]]}"
)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("round_", range(5))
def test_every_command_holds_once_it_is_acknowledged(
    broker: RunningBroker, version: int, round_: int
) -> None:
    """Each line is acknowledged to one client before another acts on another connection."""
    one, two = Talker(broker, version=version), Talker(broker, version=version)
    subject, place = fresh("news"), fresh("place")

    one.moves(LAT, LON)
    one.names("mine", subject=subject, qos=1)
    two.says(subject, b"position", to=HERE)
    one.names("mine", subject=subject, where="me.role = 'medic'", qos=1)
    one.is_now(role="medic")
    two.says(subject, b"context")
    two.sends(f"$place/kind/{place}", SQUARE)
    one.names("mine", subject=subject, qos=1, **{"from": f"place:{place}"})
    two.moves(LAT, LON)
    two.says(subject, b"place")
    one.names("mine", subject=subject, qos=1)
    two.announces(subject, "circle:0,0,500")
    two.says(subject, b"announcement: nobody is there")
    two.sends(f"$me/announcements/{subject}", b"")
    two.says(subject, b"no announcement")
    fix = {"_type": "location", "lat": 0, "lon": 0}
    one.sends(f"owntracks/{one.node}/phone", json.dumps(fix).encode())
    two.says(subject, b"no longer here", to=HERE)
    one.sends("$me/subscriptions/mine", b"")
    two.says(subject, b"no subscription")

    came = one.payloads()
    assert came == [b"position", b"context", b"place", b"no announcement"]


def test_what_one_client_sends_in_one_piece_applies_in_its_order(broker: RunningBroker) -> None:
    talker = Talker(broker)
    subject = fresh("news")
    client = talker.client
    client.send(
        Publish("$me/position", b"0,0"),
        Subscribe(90, (TopicFilter(subject, 1),), words(from_=HERE)),
        Publish(subject, b"too early", 1, packet_id=91),
        Publish("$me/position", f"{LAT},{LON}".encode()),
        Publish(subject, b"in time", 1, packet_id=92),
        Publish("$me/position", b"0,0", 1, packet_id=93),
        Publish(subject, b"too late"),
    )

    assert talker.payloads() == [b"in time"]


def test_an_event_before_a_named_subscription_ends_goes_by_it(broker: RunningBroker) -> None:
    reader = Talker(broker)
    subject = fresh("news")
    reader.names("mine", subject=subject, where="speed > 5")
    reader.client.send(
        Publish(subject, b'{"speed": 6}'),
        Publish("$me/subscriptions/mine", b""),
        Publish(subject, b'{"speed": 7}'),
    )

    assert reader.payloads() == [b'{"speed": 6}']


def test_answers_keep_the_order_of_the_messages(broker: RunningBroker) -> None:
    talker = Talker(broker)
    talker.client.send(
        Publish("$me/position", b"1,2", 1, packet_id=1),
        Publish("$me/position", b"100,2", 1, packet_id=2),
        Publish("$me/subscriptions/x", b'{"subject": "a"}', 1, packet_id=3),
        Publish("$me/subscriptions/y", b"{", 1, packet_id=4),
        Publish("a/b", b"x", 1, packet_id=5),
        Publish("$me/context", b"{}", 1, packet_id=6),
        Publish("$me/nothing", b"x", 1, packet_id=7),
    )

    answers = [talker.client.wait_for(PubAck) for _ in range(7)]
    assert [answer.packet_id for answer in answers] == list(range(1, 8))
    failed = [answer.reason_code.failed for answer in answers]
    assert failed == [False, True, False, True, False, False, True]


def test_positions_count_as_none_when_they_are_old() -> None:
    with World(seed=1) as world:
        world.broker(settings=Settings(situation=SituationSection(position_ttl_s=30.0)))
        walker, publisher, watcher = (world.client(name) for name in ("walker", "pub", "watch"))
        wishes = [
            walker.subscribe("to", qos=1),
            watcher.subscribe("from", qos=1, properties=words(from_="circle:walker,500")),
            watcher.subscribe("$node/walker/position", qos=1),
        ]
        world.run_until(lambda: all(wish.done for wish in wishes))
        walker.publish("$me/position", f"{LAT},{LON}".encode(), qos=1)
        world.run(29)

        def all_say(what: bytes) -> None:
            publisher.publish("to", what, qos=1, properties=words(to=HERE))
            publisher.publish("from", what, qos=1, properties=words(at=f"{LAT},{LON}"))
            world.run(1)

        all_say(b"fresh")
        world.run(5)
        all_say(b"old")
        walker.publish("$me/position", f"{LAT},{LON}".encode(), qos=1)
        world.run(1)
        all_say(b"fresh again")

        assert walker.payloads("to") == [b"fresh", b"fresh again"]
        assert watcher.payloads("from") == [b"fresh", b"fresh again"]
        places = watcher.payloads("$node/walker/position")
        assert places == [b"53.35,-6.26", b"", b"53.35,-6.26"]


def test_a_fix_again_at_the_same_place_keeps_a_position_fresh() -> None:
    with World(seed=1) as world:
        world.broker(settings=Settings(situation=SituationSection(position_ttl_s=30.0)))
        walker, publisher = world.client("walker"), world.client("pub")
        wish = walker.subscribe("to", qos=1)
        world.run_until(lambda: wish.done)
        for _ in range(5):
            walker.publish("$me/position", f"{LAT},{LON}".encode(), qos=1)
            walker.publish("$me/context", b'{"battery": 5}', qos=1)
            world.run(20)
        publisher.publish("to", b"x", qos=1, properties=words(to=HERE))
        world.run(1)

        assert walker.payloads("to") == [b"x"]


def test_a_context_alone_does_not_keep_a_position_fresh() -> None:
    with World(seed=1) as world:
        world.broker(settings=Settings(situation=SituationSection(position_ttl_s=30.0)))
        walker, publisher = world.client("walker"), world.client("pub")
        wish = walker.subscribe("to", qos=1)
        world.run_until(lambda: wish.done)
        walker.publish("$me/position", f"{LAT},{LON}".encode(), qos=1)
        for _ in range(5):
            world.run(20)
            walker.publish("$me/context", b'{"battery": 5}', qos=1)
        publisher.publish("to", b"x", qos=1, properties=words(to=HERE))
        world.run(1)

        assert walker.payloads("to") == []
