"""Rows of the pipeline that nobody at a broker wants are dropped there, and not recorded."""

from nearcast.testing import VirtualClient, World
from nearcast.wire.handover import (
    EventRow,
    HandedRow,
    Interest,
    interest_in,
    interest_text,
    subjects_bytes,
)
from nearcast.wire.mqtt import Properties, ReasonCode, TopicFilter
from tests.support.clients.pipeline_client import LASTING, event, release, stage
from tests.support.logs.broker_log import read_log


def recorded(world: World) -> list[str | None]:
    """The ids of the events in the broker's log, once it has stopped."""
    broker = world.brokers["broker"]
    directory = broker.disk.store.directory
    broker.stop()
    rows = read_log(directory.parents[1], directory.name)
    return [row.event_id for row in rows if row.kind == "event"]


def test_only_what_somebody_subscribed_to_or_what_stays_is_recorded(
    world: World, pipeline: VirtualClient
) -> None:
    bob = world.client("bob", LASTING)
    bob.subscribe("spots/+", qos=1)
    world.settle()
    # A session counts whether its client is there or not.
    bob.disconnect()
    rows: list[HandedRow] = [
        event("wanted"),
        EventRow("unwanted", "traffic/1", b"x"),
        EventRow("retained", "traffic/2", b"x", retain=True),
        EventRow("valid", "traffic/3", b"x", valid_s=60.0),
        EventRow("object", "traffic/4", b"x", object="o"),
    ]
    release(pipeline, (0, "a", stage(pipeline, rows)))
    world.settle()
    assert world.brokers["broker"].hub.state.counters["unwanted_rows"] == 1
    late = world.client("late")
    late.subscribe("traffic/#")
    world.settle()
    assert len(late.payloads()) == 3
    assert recorded(world) == ["wanted", "retained", "valid", "object"]


def test_who_subscribes_before_the_release_gets_what_was_staged_before(
    world: World, pipeline: VirtualClient
) -> None:
    count = stage(pipeline, [EventRow("1", "traffic/1", b"x")])
    world.settle()
    late = world.client("late")
    late.subscribe("traffic/#", qos=1)
    world.settle()
    release(pipeline, (0, "a", count))
    world.run(1.0)
    assert late.payloads() == [b"x"]


def test_all_is_recorded_while_a_filter_counts(world: World, pipeline: VirtualClient) -> None:
    bob = world.client("bob")
    where = Properties(user_properties=(("nc-where", "count('traffic/#', '') > 1"),))
    bob.subscribe(TopicFilter("news", 1), properties=where)
    world.settle()
    assert world.brokers["broker"].hub.engine.matcher.counting
    release(pipeline, (0, "a", stage(pipeline, [EventRow("1", "traffic/1", b"x")])))
    world.settle()
    assert recorded(world) == ["1"]


def test_a_question_is_for_the_pipeline_and_for_subjects(
    world: World, pipeline: VirtualClient
) -> None:
    asked = pipeline.publish(Interest().topic, subjects_bytes(["a", "b"]), qos=1)
    wrong = pipeline.publish(Interest().topic, b"no subjects", qos=1)
    other = world.client("bob").publish(Interest().topic, subjects_bytes(["a"]), qos=1)
    world.settle()
    assert asked.done
    assert wrong.reason_codes[0].failed
    assert other.reason_codes == (ReasonCode.NOT_AUTHORIZED,)
    assert interest_in(interest_text([True, False]), 2) == [True, False]
