"""Whatever crashes while the pipeline hands over: every row comes once."""

import random
from collections.abc import Callable

import msgspec
import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.handover import inbox
from nearcast.store import Kept
from nearcast.testing import DiskQuality, Receipt, VirtualClient, World
from nearcast.wire.handover import (
    Abort,
    HandedRow,
)
from tests.support.clients.pipeline_client import (
    LASTING,
    PIPELINE,
    delivery,
    event,
    release,
    stage,
    to,
)
from tests.support.world_faults import power_cut

Fault = Callable[[World], None]


def crash(world: World) -> None:
    world.brokers["broker"].restart()


def lost_pipeline(world: World) -> None:
    world.network.lose("$pipeline~1", learns_s=0.0, other_learns_s=1.0)


def pipeline_crash(world: World) -> None:
    pipeline = world.clients["$pipeline~1"]
    pipeline.crash()
    pipeline.forget()
    world.clock.after(1.0, pipeline.connect)


class Driver:
    """Hands over epochs as Spark does: one that is not acknowledged is done again, anew."""

    def __init__(self, client: VirtualClient, world: World, epochs: list[list[HandedRow]]) -> None:
        self.client = client
        self.world = world
        self.epochs = epochs
        self.attempts = 0
        self.epoch = 0
        self._receipts: list[Receipt] = []

    def go_on(self) -> None:
        """Look whether the last thing is done, and do the next."""
        if not self.client.is_wanted:
            # It is down: whatever it waited for, it begins this epoch again.
            self._receipts = []
            return
        if self._receipts and self._receipts[-1].answered_at is not None:
            if self._receipts[-1].done:
                self.epoch += 1
            self._receipts = []
        if not self._receipts and self.epoch < len(self.epochs):
            self.attempts += 1
            attempt = str(self.attempts)
            rows = self.epochs[self.epoch]
            named = []
            for partition, part in enumerate((rows[::2], rows[1::2])):
                count = stage(self.client, part, self.epoch, partition=partition, attempt=attempt)
                named.append((partition, attempt, count))
            self._receipts = [release(self.client, *named, epoch=self.epoch)]


def life(moment: int, goes_wrong: Fault, kind: str) -> bool:
    """Hand over three epochs; False if all was over before the moment."""
    with World(moment) as world:
        world.broker(disk=DiskQuality(0.02, 0.04), settings=Settings(limits=Limits(in_flight=2)))
        bob, carol = world.client("bob", LASTING), world.client("carol", LASTING)
        for client in (bob, carol):
            client.subscribe("spots/#", qos=2)
        pipeline = world.client("$pipeline~1", PIPELINE)
        world.settle()
        texts = [[f"{epoch}.{number}" for number in range(3)] for epoch in range(3)]
        both = (to("bob"), to("carol"))
        epochs: list[list[HandedRow]] = [
            [event(text) if kind == "event" else delivery(text, *both) for text in each]
            for each in texts
        ]
        driver = Driver(pipeline, world, epochs)
        done = False
        for step in range(100_000):
            if step == moment:
                done = driver.epoch == len(epochs) and bob.idle and carol.idle
                goes_wrong(world)
            driver.go_on()
            if driver.epoch == len(epochs) and step > moment:
                break
            world.clock.step()
        world.run(2.0)
        world.settle()
        wanted = sorted(text.encode() for each in texts for text in each)
        assert sorted(bob.payloads()) == wanted
        assert sorted(carol.payloads()) == wanted
        assert world.brokers["broker"].hub.releasing.staging.statistics()["staged_bytes"] == 0
        return not done


@pytest.mark.parametrize("kind", ["event", "delivery"])
@pytest.mark.parametrize("goes_wrong", [crash, power_cut, lost_pipeline, pipeline_crash])
def test_every_row_comes_once_whenever_it_happens(
    goes_wrong: Fault, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One chunk a tick, so that there are moments between them.
    monkeypatch.setattr(inbox, "MOST_AT_ONCE", 1)
    moment = 0
    while life(moment, goes_wrong, kind):
        moment += 1
    assert moment > 30


class Ledger:
    """What is released, in the plainest way."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        self.texts: list[bytes] = []

    def release(self, query: str, epoch: int, rows: list[HandedRow]) -> None:
        if epoch > self.last.get(query, -1):
            self.last[query] = epoch
            self.texts += [row.payload for row in rows]


@pytest.mark.parametrize("seed", range(12))
def test_any_course_of_things_comes_to_the_same_as_a_plain_ledger(seed: int) -> None:
    chance, ledger = random.Random(seed), Ledger()
    with World(seed) as world:
        broker = world.broker(disk=DiskQuality())
        bob = world.client("bob", LASTING)
        bob.subscribe("spots/#", qos=2)
        pipeline = world.client("$pipeline~1", PIPELINE)
        world.settle()
        for turn in range(40):
            query = chance.choice("pq")
            epoch = max(0, ledger.last.get(query, -1) + chance.choice((-1, 0, 1, 1, 1)))
            rows: list[HandedRow] = [
                event(f"{turn}.{number}") if chance.random() < 0.5
                else delivery(f"{turn}.{number}", to("bob"), to("gone"))
                for number in range(chance.randint(0, 4))
            ]  # fmt: skip
            if chance.random() < 0.3:
                lost: list[HandedRow] = [event(f"{turn}.lost")]
                stage(pipeline, lost, epoch, query=query, attempt=f"{turn}x")
            count = stage(pipeline, rows, epoch, query=query, attempt=str(turn))
            if chance.random() < 0.2:
                world.settle()
                broker.restart()
            if chance.random() < 0.1:
                pipeline.publish(Abort(query, epoch).topic, qos=1)
                continue
            release(pipeline, (0, str(turn), count), epoch=epoch, query=query)
            ledger.release(query, epoch, rows)
            if chance.random() < 0.2:
                world.settle()
                broker.crash(power_cut=True)
                broker.start()
        world.settle()
        assert sorted(bob.payloads()) == sorted(ledger.texts)
        kept = [each for each in broker.disk.store.load() if isinstance(each, Kept)]
        epochs = {
            each.key: msgspec.msgpack.decode(each.value)
            for each in kept
            if each.space == "releases"
        }
        assert epochs == {query: [epoch, []] for query, epoch in ledger.last.items()}
