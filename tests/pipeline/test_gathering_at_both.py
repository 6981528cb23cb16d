"""What gathers is the same at the edge and in the pipeline; a power cut loses and doubles nothing.

Virtual clients subscribe with texts of gathering, publish, are lost and come back, while the broker
crashes with a power cut. Its log, played again, gives the deliveries that it recorded; and each
acknowledged event reaches each lasting subscriber exactly once, alone or in an aggregate.
"""

import json
from collections import Counter
from random import Random

import pytest

from nearcast.pipeline.decide.player import Player
from nearcast.testing import World, explore
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, TopicFilter
from tests.support.logs.recorded_life import RECORDED, played, recorded
from tests.support.logs.world_log import rows_in
from tests.support.plain.pipeline_driver import LeftToThePipeline
from tests.support.plain.virtual_driver import Virtual

TEXTS = (
    "volume 3 wait 40", "volume 2 per cell 500 wait 30", "people 2 wait 20", "time 5 wait 60",
    "volume 9 or people 2 wait 25", "volume 1",
)  # fmt: skip
READERS, WRITERS = ("ann", "bob"), ("cat", "dan")
LONGEST_S = 70.0


def connect(driver: Virtual) -> None:
    for client in (*READERS, *WRITERS):
        driver.connect(client, MQTT_5, lasting=True, clean=False)


def ids_in(messages: list[Publish]) -> Counter[str]:
    found: Counter[str] = Counter()
    for message in messages:
        said = json.loads(message.payload)
        each = [event["attributes"] for event in said["events"]] if "events" in said else [said]
        alike = said.get("attributes", {})
        found.update(f"{(alike | own)['n']}" for own in each)
    return found


def live(world: World, driver: Virtual) -> None:
    draw = Random(f"gathering {world.seed}")
    connect(driver)
    got: dict[str, Counter[str]] = {reader: Counter() for reader in READERS}
    for reader in READERS:
        text = draw.choice(TEXTS)
        wanted = Properties(user_properties=(("nc-aggregate", text),))
        driver.subscribe(reader, TopicFilter("road/#", qos=2), wanted)
    promised: Counter[str] = Counter()
    offered: Counter[str] = Counter()
    for number in range(40):
        kind = draw.random()
        if kind < 0.75:
            at = ("nc-at", f"53.{draw.randrange(3)},-6.0")
            payload = json.dumps({"n": number}).encode()
            topic = draw.choice(("road/1", "road/2"))
            qos = draw.choice((0, 2, 2))
            packet = Publish(topic, payload, qos).with_(Properties(user_properties=(at,)))
            driver.publish(draw.choice(WRITERS), [packet])
            (promised if qos else offered)[f"{number}"] += 1
        elif kind < 0.9:
            driver.later(draw.choice((1.0, 8.0, 30.0)))
        else:
            for reader in READERS:
                got[reader] += ids_in(driver.received(reader))
            driver.restart(draw.choice((1.0, 20.0, 100.0)))
            connect(driver)
    driver.later(LONGEST_S)
    for reader in READERS:
        got[reader] += ids_in(driver.received(reader))
        assert promised <= got[reader] <= promised + offered, reader


def at_the_edge(world: World) -> None:
    live(world, Virtual(world, RECORDED))
    world.settle()
    rows = rows_in(world)
    told = recorded(rows)
    assert told
    assert told == played(Player("broker"), rows)


@pytest.mark.parametrize("first", [0, 5, 10])
def test_the_log_played_again_gathers_the_same(first: int) -> None:
    assert explore(at_the_edge, range(first, first + 5)) == 5


def in_the_pipeline(world: World) -> None:
    driver = LeftToThePipeline(world)
    live(world, driver)
    assert driver.handed


def test_what_is_gathered_in_the_pipeline_reaches_everyone_once() -> None:
    assert explore(in_the_pipeline, range(20, 24)) == 4
