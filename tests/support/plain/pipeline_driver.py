"""Virtual clients of a broker that leaves every subject to a pipeline, and that pipeline.

What a Spark task does is done here after each thing that happens: rows of the log are decided on,
and the rows of the sink are staged and released over MQTT.
"""

from collections.abc import Iterable

import pyarrow as pa

from nearcast.broker.config.settings import RecordSection, Settings, SituationSection
from nearcast.pipeline.decide.decisions import DELIVERY, decided_batches
from nearcast.pipeline.decide.player import Player
from nearcast.pipeline.sink.sink_rows import rows_by_broker, split_dues
from nearcast.store import Gap, Row, rows_of
from nearcast.testing import ClientOptions, World
from nearcast.testing.virtual_broker import PIPELINE_TOKEN
from nearcast.wire.handover import Release, Staged, Tick, manifest_bytes, packets
from nearcast.wire.mqtt import Properties, Publish, TopicFilter
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
        self.keeps_up = True
        """False: what happens is not decided on until `keep_up` is called."""
        self._pipeline = world.client("$pipeline", OPTIONS)
        world.settle()

    def connect(self, client: str, version: int, lasting: bool, clean: bool) -> None:
        super().connect(client, version, lasting, clean)
        self._follow()

    def lose(self, client: str) -> None:
        super().lose(client)
        self._follow()

    def publish(self, client: str, packets: list[Publish]) -> None:
        # One at a time: who is lost between two has got the first.
        for packet in packets:
            super().publish(client, [packet])
            self._follow()

    def subscribe(self, client: str, wanted: TopicFilter, properties: Properties) -> None:
        super().subscribe(client, wanted, properties)
        self._follow()

    def unsubscribe(self, client: str, topic_filter: str) -> None:
        super().unsubscribe(client, topic_filter)
        self._follow()

    def later(self, seconds: float) -> None:
        """Let time pass; the pipeline asks the broker to record it once something is due."""
        now = self._world.clock.now
        ends = now() + seconds
        while self.keeps_up and (due := self._player.next_release().time) and due < ends:
            self._world.run(max(0.0, due - now()))
            receipt = self._pipeline.publish(Tick().topic, b"", qos=1)
            self._world.settle()
            assert receipt.done, receipt.reason_codes
            self.keep_up()
        super().later(max(0.0, ends - now()))

    def restart(self, down_s: float = 1.0) -> None:
        self._pipeline.crash()
        self._world.clients.pop("$pipeline")
        super().restart(down_s)
        self._pipeline = self._world.client("$pipeline", OPTIONS)
        self._world.settle()
        self._follow()

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

    def _follow(self) -> None:
        if self.keeps_up:
            self.keep_up()

    def keep_up(self) -> None:
        """Decide on what is new in the log, and hand over what comes of it."""
        for part in self._player.decide(self.log(self._player.seq + 1)):
            assert not part.unusable
            self.hand_over(decided_batches("broker", part))

    def hand_over(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Hand over the deliveries among decided rows, each batch as an epoch."""
        for batch in batches:
            self._hand_over(batch)

    def _hand_over(self, whole: pa.RecordBatch) -> None:
        batch, _ = split_dues(whole)
        if not len(batch) or batch.column("kind")[0].as_py() != DELIVERY:
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
