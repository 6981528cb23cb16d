"""Decided at the edge or in the pipeline: everyone gets the same, each exactly once.

Random lives as at the edge, but the broker leaves every subject to the pipeline. What a Spark
task does is done here after each thing that happens: rows of the log are decided on, and the
rows of the sink are staged and released over MQTT. What clients get is compared with the plain
situation, as it is for the edge; the broker crashes in between.
"""

import pyarrow as pa

from nearcast.broker.config.settings import RecordSection, Settings, SituationSection
from nearcast.pipeline.decide.decisions import DELIVERY, decided_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.sink.sink_rows import rows_by_broker
from nearcast.store import Gap, Row, rows_of
from nearcast.testing import ClientOptions, World, explore
from nearcast.testing.virtual_broker import PIPELINE_TOKEN
from nearcast.wire.handover import Release, Staged, manifest_bytes, packets
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, TopicFilter
from tests.support.logs.recorded_life import played, recorded
from tests.support.plain.random_life import RandomLife
from tests.support.plain.virtual_driver import Virtual

LEFT = Settings(
    decide={"#": "spark"},
    record=RecordSection(deliveries=True),
    situation=SituationSection(position_ttl_s=1e6),
)
OPTIONS = ClientOptions(username="$pipeline", password=PIPELINE_TOKEN.encode(), keep_alive_s=0)
LARGEST = 1 << 19


class LeftToThePipeline(Virtual):
    """Virtual clients of a virtual broker, and a pipeline that keeps up with its log."""

    def __init__(self, world: World) -> None:
        super().__init__(world, LEFT)
        self._player = Player("broker")
        self._epoch = 0
        self.handed = 0
        self._pipeline = world.client("$pipeline", OPTIONS)
        world.settle()

    def connect(self, client: str, version: int, lasting: bool, clean: bool) -> None:
        super().connect(client, version, lasting, clean)
        self._keep_up()

    def lose(self, client: str) -> None:
        super().lose(client)
        self._keep_up()

    def publish(self, client: str, packets: list[Publish]) -> None:
        # One at a time: who is lost between two has got the first.
        for packet in packets:
            super().publish(client, [packet])
            self._keep_up()

    def subscribe(self, client: str, wanted: TopicFilter, properties: Properties) -> None:
        super().subscribe(client, wanted, properties)
        self._keep_up()

    def unsubscribe(self, client: str, topic_filter: str) -> None:
        super().unsubscribe(client, topic_filter)
        self._keep_up()

    def restart(self) -> None:
        self._pipeline.crash()
        self._world.clients.pop("$pipeline")
        super().restart()
        self._pipeline = self._world.client("$pipeline", OPTIONS)
        self._world.settle()
        self._keep_up()

    def log(self, first: int = 1) -> list[Row]:
        """What the broker has recorded, from a row on."""
        self._world.run(0.2)
        # What is acknowledged is on disk, and all before it.
        self._pipeline.publish("$me/context", b"{}", qos=1)
        self._world.settle()
        found: list[Row] = []
        for part in self._broker.disk.store.log.read(first):
            assert not isinstance(part, Gap)
            found += rows_of(part)
        return found

    def _keep_up(self) -> None:
        """Decide on what is new in the log, and hand over what comes of it."""
        for part in self._player.decide(self.log(self._player.seq + 1)):
            assert not part.unusable
            for batch in decided_batches("broker", part):
                self._hand_over(batch)

    def _hand_over(self, batch: pa.RecordBatch) -> None:
        if batch.column("kind")[0].as_py() != DELIVERY:
            return
        for _, rows in rows_by_broker(batch):
            count = 0
            for packet in packets(rows, LARGEST):
                at = Staged("life", self._epoch, 0, "a", count)
                self._pipeline.publish(at.topic, packet, qos=1)
                count += 1
            self._world.settle()
            told = manifest_bytes([(0, "a", count)])
            receipt = self._pipeline.publish(Release("life", self._epoch).topic, told, qos=1)
            self._world.settle()
            assert receipt.done, receipt.reason_codes
            self._epoch += 1
            self.handed += len(rows)


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
