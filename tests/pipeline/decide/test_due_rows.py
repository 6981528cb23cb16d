"""Where the pipeline alone decides, tasks say when something that waits leaves by time alone."""

from pathlib import Path

import pytest

from nearcast.core.engine.shard import WHOLE, Shard
from nearcast.pipeline.decide import decisions
from nearcast.pipeline.decide.decisions import DELIVERY, DUE, decide_batches
from nearcast.store import Row, batch_of
from nearcast.store.rows.row_kinds import TICK
from nearcast.testing import World
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, TopicFilter
from tests.support.logs.broker_log import write_log
from tests.support.logs.recorded_life import RECORDED
from tests.support.logs.world_log import rows_in
from tests.support.plain.pipeline_driver import LEFT
from tests.support.plain.virtual_driver import Virtual

WAIT_S = 40.0


def life(world: World, driver: Virtual) -> list[Row]:
    """The log of somebody for whom one event waits."""
    driver.connect("ann", MQTT_5, lasting=True, clean=False)
    text = ("nc-aggregate", f"volume 5 wait {WAIT_S:g}")
    wanted = Properties(user_properties=(text,))
    driver.subscribe("ann", TopicFilter("road/#", qos=2), wanted)
    driver.publish("ann", [Publish("road/1", b"{}", 2)])
    world.settle()
    return rows_in(world)


def tick(after: Row, seconds: float) -> Row:
    return Row(after.broker, after.seq + 1, TICK, after.ingested + seconds)


def decided(data: Path, rows: list[Row], shard: Shard = WHOLE) -> list[dict[str, object]]:
    found = decide_batches(str(data), [batch_of(rows)], shard)
    return [row for batch in found for row in batch.to_pylist()]


def dues(found: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row["id"], row["time"]) for row in found if row["kind"] == DUE]


@pytest.fixture(autouse=True)
def _no_player_is_kept() -> None:
    decisions._players.clear()


@pytest.mark.parametrize("shard", [WHOLE, Shard(0, 2), Shard(1, 2)])
def test_a_task_says_when_something_leaves_though_nothing_happens(
    tmp_path: Path, shard: Shard
) -> None:
    world = World(seed=1)
    rows = life(world, Virtual(world, LEFT))
    rows += [tick(rows[-1], 5.0)]
    rows += [tick(rows[-1], WAIT_S)]
    write_log(tmp_path, "broker", rows)
    (published,) = (row for row in rows if row.kind == "event")
    before = dues(decided(tmp_path, rows[:-2], shard))
    waits = dues(decided(tmp_path, rows[-2:-1], shard))
    found = decided(tmp_path, rows[-1:], shard)
    (at,) = {time for _, time in before}
    assert at in (published.ingested + WAIT_S, None)
    assert before == [(f"{rows[-3].seq}", at)]
    assert waits == [(f"{rows[-2].seq}", at)]
    assert dues(found) == [(f"{rows[-1].seq}", None)]
    left = [row for row in found if row["kind"] == DELIVERY]
    assert len(left) == (at is not None)
    if shard == WHOLE:
        assert at is not None


def test_nothing_is_said_where_the_broker_decides_and_records_the_time(tmp_path: Path) -> None:
    world = World(seed=1)
    rows = life(world, Virtual(world, RECORDED))
    write_log(tmp_path, "broker", rows)
    assert dues(decided(tmp_path, rows)) == []
