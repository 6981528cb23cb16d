"""A broker records the time when the pipeline asks for it, and never otherwise."""

from nearcast.store.rows.row_kinds import TICK
from nearcast.testing import VirtualClient, World
from nearcast.wire.handover import Tick
from nearcast.wire.mqtt import ReasonCode
from tests.support.logs.broker_log import read_log


def ticks(world: World) -> list[float]:
    """The times that the broker has recorded, once it has stopped."""
    broker = world.brokers["broker"]
    directory = broker.disk.store.directory
    broker.stop()
    rows = read_log(directory.parents[1], directory.name)
    return [row.ingested for row in rows if row.kind == TICK]


def test_the_time_is_recorded_once_for_each_time_that_it_is_asked_for(
    world: World, pipeline: VirtualClient
) -> None:
    world.run(60.0)
    receipts = []
    for _ in range(2):
        receipts.append(pipeline.publish(Tick().topic, b"", qos=1))
        world.run(60.0)
    assert all(receipt.done for receipt in receipts)
    first, second = ticks(world)
    assert 59.0 < second - first < 61.0


def test_only_the_pipeline_may_ask_for_it(world: World, pipeline: VirtualClient) -> None:
    receipt = world.client("bob").publish(Tick().topic, b"", qos=1)
    world.settle()
    assert receipt.reason_codes == (ReasonCode.NOT_AUTHORIZED,)
    assert ticks(world) == []
