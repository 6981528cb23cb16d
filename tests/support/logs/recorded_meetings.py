"""The log of nodes that meet: relationships and watched areas, of phones and of a follower."""

import json
from collections.abc import Mapping
from random import Random

from nearcast.broker.config.settings import RecordSection, Settings, SituationSection
from nearcast.store import Row
from nearcast.testing import DiskQuality, World
from tests.support.following import LASTING, FollowingNode, Phone, Walk
from tests.support.logs.world_log import rows_in

TTL_S = 40.0
SETTINGS = Settings(
    record=RecordSection(deliveries=True), situation=SituationSection(position_ttl_s=TTL_S)
)
DEFINED: Mapping[str, Mapping[str, object]] = {
    "$relate/pair": {"members": ["a", "b"], "within": 150},
    "$relate/far": {"members": ["b", "c"], "beyond": 200},
    "$relate/any": {"members": ["a", "b", "c"], "within": 100, "need": "any"},
    "$relate/own": {"members": {"a": 100, "c": 200}},
    "$relate/level": {"members": ["a", "b"], "within": 2, "of": "level"},
    "$area/yard": {"area": "circle:53.0027,0.0027,150"},
}


def log_of_meetings(world: World, rounds: int = 60) -> list[Row]:
    """Return the log of nodes that walk and rest, over a restart, with one that is ended."""
    chance = Random(world.seed)
    broker = world.broker(disk=DiskQuality(), settings=SETTINGS)
    definer = world.client("definer", LASTING)
    for topic, members in DEFINED.items():
        definer.publish(topic, json.dumps(members).encode(), qos=1)
    world.settle()
    nodes: list[FollowingNode | Phone] = [
        FollowingNode(world, "a", None), Phone(world, "b"), Phone(world, "c"),
    ]  # fmt: skip
    world.run(1.0)
    walks = [Walk(chance, 600.0, 4.0 * speed) for speed in range(1, 4)]
    for number in range(rounds):
        for node, walk in zip(nodes, walks, strict=True):
            if chance.random() < 0.9:
                node.fix(walk.step(5.0))
            if chance.random() < 0.3:
                level = json.dumps({"level": chance.randrange(6)}).encode()
                node.client.publish("$me/context", level, qos=1)
            world.run(3.0)
        if chance.random() < 0.05:
            # Positions of phones grow old.
            world.run(1.5 * TTL_S)
        if number == rounds // 2:
            broker.crash()
            broker.restart()
            world.run(5.0)
    world.run_until(lambda: definer.online)
    definer.publish("$relate/pair", b"", qos=1)
    world.run(10.0)
    world.settle()
    return rows_in(world)
