"""What the pipeline hands over waits for clients that read, and not for those that do not."""

from collections.abc import Iterator

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.handover.release_throttle import DEAF_S, PATIENCE_S
from nearcast.testing import ClientOptions, DiskQuality, VirtualClient, World
from nearcast.wire.handover import HandedRow
from tests.support.clients.pipeline_client import delivery, event, release, stage, to

PATIENT = ClientOptions(session_expiry_s=3_600, clean_start=False, keep_alive_s=0)
QUEUED = 40
EVENTS = 10 * QUEUED


@pytest.fixture
def world() -> Iterator[World]:
    with World(seed=7) as world:
        limits = Limits(queued=QUEUED, in_flight=4, stalled_s=3_600.0)
        world.broker(disk=DiskQuality(), settings=Settings(limits=limits))
        yield world


def reader(world: World, name: str) -> VirtualClient:
    client = world.client(name, PATIENT)
    client.subscribe("spots/#", qos=1)
    world.settle()
    return client


def rows(kind: str, *names: str, first: int = 0) -> list[HandedRow]:
    texts = [str(first + number) for number in range(EVENTS)]
    if kind == "event":
        return [event(text, qos=1) for text in texts]
    return [delivery(text, *map(to, names), qos=1) for text in texts]


def read_one(world: World, client: VirtualClient) -> None:
    had = len(client.payloads())
    world.run_until(lambda: len(client.payloads()) > had)


def dropped(world: World, name: str) -> int:
    return world.brokers["broker"].hub.sessions[name].dropped


TEXTS = [str(number).encode() for number in range(EVENTS)]


@pytest.mark.parametrize("kind", ["event", "delivery"])
def test_an_epoch_larger_than_a_queue_reaches_a_client_whole(
    world: World, pipeline: VirtualClient, kind: str
) -> None:
    bob = reader(world, "bob")
    release(pipeline, (0, "a", stage(pipeline, rows(kind, "bob"))))
    world.run(PATIENCE_S / 2)
    assert bob.payloads() == TEXTS
    assert dropped(world, "bob") == 0


@pytest.mark.parametrize("kind", ["event", "delivery"])
def test_a_client_that_reads_nothing_keeps_others_waiting_once(
    world: World, pipeline: VirtualClient, kind: str
) -> None:
    bob, deaf = reader(world, "bob"), reader(world, "deaf")
    deaf.stop_listening()
    release(pipeline, (0, "a", stage(pipeline, rows(kind, "bob", "deaf"))))
    world.run(DEAF_S / 2)
    assert 0 < len(bob.payloads()) < EVENTS
    assert dropped(world, "deaf") == 0
    world.run(PATIENCE_S / 2)
    assert bob.payloads() == TEXTS
    # It has been waited for, and is not again before it has caught up.
    assert dropped(world, "deaf") > 0
    more = rows(kind, "bob", "deaf", first=EVENTS)
    release(pipeline, (0, "a", stage(pipeline, more, 1)), epoch=1)
    world.run(PATIENCE_S / 2)
    assert len(bob.payloads()) == 2 * EVENTS


@pytest.mark.parametrize("kind", ["event", "delivery"])
def test_a_client_that_reads_slowly_is_waited_for_longer_and_not_for_ever(
    world: World, pipeline: VirtualClient, kind: str
) -> None:
    bob, slow = reader(world, "bob"), reader(world, "slow")
    began = world.clock.now()
    release(pipeline, (0, "a", stage(pipeline, rows(kind, "bob", "slow"))))
    while world.clock.now() < began + 0.9 * PATIENCE_S:
        slow.stop_listening()
        world.run(0.6 * DEAF_S)
        slow.listen()
        read_one(world, slow)
    assert 0 < len(bob.payloads()) < EVENTS
    assert dropped(world, "slow") == 0
    slow.stop_listening()
    world.run(PATIENCE_S / 2)
    assert bob.payloads() == TEXTS


def test_deliveries_wait_only_for_those_that_get_them(
    world: World, pipeline: VirtualClient
) -> None:
    bob, deaf = reader(world, "bob"), reader(world, "deaf")
    deaf.stop_listening()
    # Four are on their way, and then more than half of those that may wait do.
    some = rows("delivery", "deaf")[: 4 + QUEUED // 2 + 1]
    release(pipeline, (0, "a", stage(pipeline, some)))
    release(pipeline, (0, "a", stage(pipeline, rows("delivery", "bob"), 1)), epoch=1)
    world.run(PATIENCE_S / 2)
    assert bob.payloads() == TEXTS
    # An event may be for anyone.
    release(pipeline, (0, "a", stage(pipeline, [event("for all", qos=1)], 2)), epoch=2)
    world.run(DEAF_S / 2)
    assert len(bob.payloads()) == EVENTS
    world.run(DEAF_S)
    assert len(bob.payloads()) == EVENTS + 1


def test_nobody_waits_for_a_client_that_is_away(world: World, pipeline: VirtualClient) -> None:
    bob, away = reader(world, "bob"), reader(world, "away")
    away.disconnect()
    world.settle()
    release(pipeline, (0, "a", stage(pipeline, rows("delivery", "bob", "away"))))
    world.run(PATIENCE_S / 2)
    assert bob.payloads() == TEXTS
