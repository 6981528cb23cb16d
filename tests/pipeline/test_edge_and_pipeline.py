"""Decided at the edge or in the pipeline: everyone gets the same, each exactly once.

Random lives as at the edge, but the broker leaves every subject to the pipeline. What clients get
is compared with the plain situation, as it is for the edge; the broker crashes in between.
"""

from nearcast.pipeline.decide.player import Player
from nearcast.testing import World, explore
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, TopicFilter
from tests.support.logs.recorded_life import played, recorded
from tests.support.plain.pipeline_driver import LeftToThePipeline
from tests.support.plain.random_life import RandomLife


def live(world: World) -> None:
    driver = LeftToThePipeline(world)
    life = RandomLife(world.seed, driver, restarts=True)
    try:
        life.live(40)
    finally:
        for line in life.told:
            world.tell("life", line)
    assert driver.handed or not life.copies
    rows = driver.log()
    assert recorded(rows) == played(Player("broker"), rows)


def test_what_is_decided_in_the_pipeline_reaches_everyone_as_from_the_edge() -> None:
    assert explore(live, range(300, 315)) == 15


def test_a_message_expires_as_at_the_edge() -> None:
    with World(seed=5) as world:
        driver = LeftToThePipeline(world)
        for client in ("ann", "bob", "eve"):
            driver.connect(client, MQTT_5, lasting=True, clean=False)
        for client in ("bob", "eve"):
            driver.subscribe(client, TopicFilter("news", qos=1), Properties())
        driver.lose("eve")
        carried = Properties(message_expiry_interval=30, user_properties=(("colour", "red"),))
        short = Publish("news", b"short", 1).with_(carried)
        driver.publish("ann", [short, Publish("news", b"plain", 1)])
        first, second = driver.received("bob")
        assert (first.payload, second.payload) == (b"short", b"plain")
        assert first.properties.user_properties == (("colour", "red"),)
        assert 25 < (first.properties.message_expiry_interval or 0) <= 30
        world.run(31.0)
        driver.connect("eve", MQTT_5, lasting=True, clean=False)
        assert [each.payload for each in driver.received("eve")] == [b"plain"]
