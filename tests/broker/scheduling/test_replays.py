"""Retained messages and live events are brought to a session in slices, and nothing overtakes."""

from random import Random

import pytest

from nearcast.broker.config.engine_settings import LIVE_AT_ONCE
from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.scheduling.input_scheduler import TICK_BUDGET
from nearcast.wire.mqtt import Publish
from tests.broker.hub_world import HubClient, HubWorld

MANY = 5 * LIVE_AT_ONCE + 7


def retained(world: HubWorld, count: int) -> HubClient:
    writer = world.client("writer", "198.51.100.1")
    writer.send(*(Publish(f"r/{number}", b"%d" % number, retain=True) for number in range(count)))
    world.settle()
    return writer


def test_a_replay_takes_many_ticks_and_nothing_is_lost() -> None:
    world = HubWorld()
    retained(world, MANY)
    reader = world.client("reader")
    reader.subscribe("r/#")
    world.tick()
    assert len(reader.messages) == LIVE_AT_ONCE
    world.settle()
    assert reader.messages == [b"%d" % number for number in range(MANY)]


def test_more_than_fits_into_a_queue_is_brought_as_it_drains() -> None:
    world = HubWorld()
    most = world.hub.settings.limits.queued
    retained(world, most + 3 * LIVE_AT_ONCE)
    reader = world.client("reader")
    world.hub.block(reader.connection, True)
    reader.subscribe("r/#")
    world.settle()
    assert reader.messages == []
    world.hub.block(reader.connection, False)
    world.settle()
    assert len(reader.messages) == most + 3 * LIVE_AT_ONCE
    assert world.hub.statistics().get("dropped_total", 0) == 0


@pytest.mark.parametrize("most", [1, 2, 100, 499])
def test_a_small_queue_gets_smaller_slices(most: int) -> None:
    world = HubWorld(Settings(limits=Limits(queued=most)))
    retained(world, 700)
    reader = world.client("reader")
    world.hub.block(reader.connection, True)
    reader.subscribe("r/#")
    world.settle()
    world.hub.block(reader.connection, False)
    world.settle()
    assert reader.messages == [b"%d" % number for number in range(700)]
    assert world.hub.statistics().get("dropped_total", 0) == 0


def test_a_message_of_another_is_decided_in_the_next_tick_beside_replays() -> None:
    world = HubWorld()
    writer = retained(world, MANY)
    honest = world.client("honest")
    honest.subscribe("news")
    readers = [world.client(f"reader {number}") for number in range(30)]
    for reader in readers:
        reader.subscribe("r/#")
    world.tick()
    writer.publish("news", [b"one"])
    world.tick()
    assert honest.messages == [b"one"]
    assert any(len(reader.messages) < MANY for reader in readers)
    world.settle()
    assert all(len(reader.messages) == MANY for reader in readers)
    # Each of the thirty has its first slice with its SUBSCRIBE.
    assert max(world.spent[-20:]) <= 2 * TICK_BUDGET


@pytest.mark.parametrize("keep", [False, True])
def test_nothing_newer_on_a_topic_overtakes_its_replay(keep: bool) -> None:
    world = HubWorld()
    writer = retained(world, MANY)
    reader = world.client("reader")
    reader.subscribe("r/#")
    world.tick()
    last = f"r/{MANY - 1}"
    writer.send(Publish(last, b"new", retain=keep))
    world.settle()
    of_last = [each.payload for each in reader.got if isinstance(each, Publish)
               and each.topic == last]  # fmt: skip
    # A retained message that replaces another one takes its place.
    assert of_last == ([b"new"] if keep else [b"%d" % (MANY - 1), b"new"])
    assert len({each.topic for each in reader.got if isinstance(each, Publish)}) == MANY


@pytest.mark.parametrize("seed", range(20))
def test_order_per_topic_is_kept_whatever_comes_between(seed: int) -> None:
    chance = Random(seed)
    world = HubWorld()
    writer = retained(world, MANY)
    reader = world.client("reader")
    reader.subscribe("r/#")
    expected = {f"r/{number}": [b"%d" % number] for number in range(MANY)}
    for number in range(40):
        topic = f"r/{chance.randrange(MANY)}"
        writer.send(Publish(topic, b"n%d" % number))
        expected[topic].append(b"n%d" % number)
        for _ in range(chance.randrange(2)):
            world.tick()
    world.settle()
    got: dict[str, list[bytes]] = {}
    for each in reader.got:
        if isinstance(each, Publish):
            got.setdefault(each.topic, []).append(each.payload)
    assert got == expected
