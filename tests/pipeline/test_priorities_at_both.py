"""Priorities decided at the edge or in the pipeline are equal, also after what changes them.

Two brokers live the same life: one decides, the other leaves everything to the pipeline. Clients
with relevance are away, and what waits for them is compared after each thing that happens: events,
changes of class, role, task and policies, subscriptions that are replaced, crashes. The pipeline is
behind at times, so that what it decides is handed over after such a change.
"""

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from nearcast.broker.config.settings import Settings, SituationSection
from nearcast.pipeline.decide.decisions import decided
from nearcast.testing import World
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, TopicFilter
from tests.support.logs.broker_log import write_log
from tests.support.plain.pipeline_driver import LeftToThePipeline
from tests.support.plain.virtual_driver import Virtual

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECIDES = Settings(situation=SituationSection(position_ttl_s=1e6))
READERS = ("ann", "bob", "eve")
UNITS = "(unit = 'infantry' OR unit = 'armor' OR unit = 'artillery') AND size <= 100"
AWARENESS = {
    "modules": {
        "battery": {"attribute": "battery", "intervals": [[None, 20], [20, 50], [50, None]]}
    }
}
MATRICES = (
    b"",
    b'{"rows": [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]]}',
    b'{"rows": [[3, 3, 2], [3, 2, 1], [2, 1, 1]]}',
)
ROLES = {
    "default": {"role": "scout", "task": "go"},
    "roles": {
        "scout": {"go": "levels:3,2,1,3", "stay": "levels:1,2,3,3"},
        "medic": {"go": "levels:1,1,1,1", "stay": "levels:0,0,3,3"},
    },
}
WISHES = (
    {"nc-where": UNITS, "nc-relevance": "levels:3,2,1,3"},
    {"nc-where": UNITS, "nc-relevance": "levels:1,1,3,2"},
    {"nc-where": "template:units", "nc-relevance": "role"},
    {"nc-where": "size > 50 OR loud", "nc-relevance": "levels:1,3"},
    {"nc-where": "unit = me.role OR size > 20", "nc-relevance": "levels:3,1"},
    {"nc-relevance": "0.4"},
    {"nc-where": "size > 80"},
)

Waiting = list[tuple[bytes, int, bool]]


class Twins:
    """The same life at a broker that decides, and at one that leaves it to the pipeline."""

    def __init__(self, seed: int, edge: World, other: World) -> None:
        self._chance = Random(seed)
        self.edge = Virtual(edge, DECIDES)
        self.other = LeftToThePipeline(other)
        self._worlds = (edge, other)
        self._count = 0
        for each in self.both:
            each.connect("boss", MQTT_5, lasting=False, clean=True)
            for reader in READERS:
                each.connect(f"{reader}~hand", MQTT_5, lasting=False, clean=True)
                each.connect(reader, MQTT_5, lasting=True, clean=False)
        self.says("boss", "$policy/awareness/default", AWARENESS)
        self.says("boss", "$policy/template/units", {"where": UNITS})
        self.says("boss", "$policy/roles/units", ROLES)
        for reader in READERS:
            for topic_filter in ("unit", "#"):
                self.wants(reader, topic_filter)
            for each in self.both:
                each.lose(reader)

    @property
    def both(self) -> tuple[Virtual, LeftToThePipeline]:
        return self.edge, self.other

    def says(self, who: str, topic: str, payload: object, *pairs: tuple[str, str]) -> None:
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        for each in self.both:
            packet = Publish(topic, data, 1).with_(Properties(user_properties=pairs))
            each.publish(who, [packet])

    def wants(self, reader: str, topic_filter: str) -> None:
        pairs = tuple(self._chance.choice(WISHES).items())
        for each in self.both:
            wanted = TopicFilter(topic_filter, qos=1)
            each.subscribe(reader, wanted, Properties(user_properties=(*pairs, ("nc-meta", "1"))))

    def live(self, steps: int, *, keeps_up: bool = True) -> None:
        """Let things happen; without `keeps_up` no client returns, and nothing is compared."""
        chance = self._chance
        for _ in range(steps):
            self.other.keeps_up = keeps_up and chance.random() < 0.7
            what, reader = chance.random(), chance.choice(READERS)
            if what < 0.6:
                self._publishes()
            elif what < 0.72:
                battery = chance.choice((5, 20, 30, 50, 90))
                self.says(f"{reader}~hand", "$me/context", {"battery": battery})
            elif what < 0.84:
                role, task = chance.choice(("medic", "scout")), chance.choice(("go", "stay"))
                self.says(f"{reader}~hand", "$me/context", {"role": role, "task": task})
            elif what < 0.92:
                name = chance.choice(("default", "medic"))
                self.says("boss", f"$policy/matrix/{name}", chance.choice(MATRICES))
            elif keeps_up:
                self._returns(reader)
            if self.other.keeps_up:
                self.is_equal()

    def _publishes(self) -> None:
        chance = self._chance
        self._count += 1
        unit = chance.choice(("infantry", "armor", "artillery", "medic"))
        said = {"unit": unit, "size": chance.choice((30, 60, 90, 120)), "n": self._count}
        if chance.random() < 0.3:
            said["loud"] = True
        pairs = [("nc-priority", str(chance.randint(1, 4)))] if chance.random() < 0.3 else []
        if chance.random() < 0.2:
            pairs.append(("nc-deadline", "86400"))
        self.says("boss", chance.choice(("unit", "other")), said, *pairs)

    def _returns(self, reader: str) -> None:
        """A reader comes, reads everything that it may have, may wish for other things, and goes.

        What is withheld stays.
        """
        self.catch_up()
        self.is_equal()
        found = []
        for each in self.both:
            each.connect(reader, MQTT_5, lasting=True, clean=False)
            found.append([_told(message) for message in each.received(reader)])
        assert found[0] == found[1]
        if self._chance.random() < 0.6:
            self.wants(reader, self._chance.choice(("unit", "#")))
        for each in self.both:
            each.lose(reader)

    def catch_up(self) -> None:
        self.other.keeps_up = True
        self.other.keep_up()

    def restart(self) -> None:
        """Kill both brokers without a warning."""
        for each, world in zip(self.both, self._worlds, strict=True):
            each.restart()
            each.connect("boss", MQTT_5, lasting=False, clean=True)
            for reader in READERS:
                each.connect(f"{reader}~hand", MQTT_5, lasting=False, clean=True)
            world.settle()

    def is_equal(self) -> None:
        edge, other = (self.waiting(world) for world in self._worlds)
        assert edge == other

    def waiting(self, world: World) -> dict[str, Waiting]:
        """Of each reader what waits, by arrival, its priority, and whether it has a deadline."""
        sessions = world.brokers["broker"].hub.sessions
        return {
            reader: [
                (each.message.frame.payload, each.priority, each.deadline is not None)
                for each in sessions[reader].outbox.messages()
            ]
            for reader in READERS
        }


def _told(message: Publish) -> tuple[bytes, str]:
    return message.payload, dict(message.properties.user_properties).get("nc-priority", "")


@pytest.mark.parametrize("seed", range(8))
def test_what_waits_has_the_same_priorities_whoever_decided(seed: int) -> None:
    with World(seed) as edge, World(seed) as other:
        twins = Twins(seed, edge, other)
        for _ in range(3):
            twins.live(25)
            twins.catch_up()
            twins.is_equal()
            twins.restart()
            twins.is_equal()
        found = {priority for each in twins.waiting(edge).values() for _, priority, _ in each}
        assert len(found) > 1


@pytest.mark.spark
@pytest.mark.parametrize("shards", [1, 2])
def test_what_spark_decides_is_prioritised_again_like_what_the_edge_decides(
    spark: "SparkSession", shards: int, tmp_path: Path
) -> None:
    from nearcast.pipeline.tables.deliveries import to_send

    with World(7) as edge, World(7) as other:
        twins = Twins(7, edge, other)
        twins.live(80, keeps_up=False)
        write_log(tmp_path, "broker", twins.other.log())
        log = spark.read.format("nearcast").option("path", str(tmp_path)).load()
        found = to_send(decided(log, str(tmp_path), shards)).toArrow()
        assert any(found["judged"].is_valid().to_pylist())
        twins.other.hand_over(found.to_batches())
        twins.is_equal()
        for battery in (5, 30, 90):
            for reader in READERS:
                twins.says(f"{reader}~hand", "$me/context", {"battery": battery, "role": "medic"})
            twins.is_equal()
            twins.restart()
            twins.is_equal()
