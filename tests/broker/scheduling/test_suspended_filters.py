"""A user whose filters cost too much has them suspended; others go on, and the owner is told."""

import msgspec

from nearcast.broker.config.settings import Limits, Settings
from nearcast.broker.scheduling.cost_account import EVALUATION
from nearcast.broker.scheduling.filter_budgets import BURST_S, FIRST_S
from nearcast.wire.mqtt import Publish
from tests.broker.hub_world import HubClient, HubWorld

COSTLY = "count('a', '') >= 0"
BUDGET = 100.0
ENOUGH = int(2 * BURST_S * BUDGET / EVALUATION)
"""So many events make a costly filter exceed the budget."""


def stage() -> tuple[HubWorld, HubClient, HubClient, HubClient]:
    world = HubWorld(Settings(limits=Limits(filter_cost_per_s=BUDGET)))
    costly, plain = world.client("costly", "198.51.100.1"), world.client("plain", "198.51.100.2")
    costly.subscribe("$me/errors")
    costly.subscribe("a", where=COSTLY)
    plain.subscribe("a", where="value >= 0")
    world.tick()
    return world, costly, plain, world.client("writer")


def publish(world: HubWorld, writer: HubClient, first: int, count: int) -> None:
    for number in range(first, first + count):
        writer.publish("a", [b"%d" % number])
        world.tick()


def errors_of(client: HubClient) -> list[dict[str, str]]:
    return [
        msgspec.json.decode(each.payload)
        for each in client.got
        if isinstance(each, Publish) and each.topic == "$me/errors"
    ]


def events_of(client: HubClient) -> list[int]:
    got = (each for each in client.got if isinstance(each, Publish))
    return [int(each.payload) for each in got if each.topic == "a"]


def test_a_costly_filter_is_suspended_told_and_resumed_later() -> None:
    world, costly, plain, writer = stage()
    publish(world, writer, 0, ENOUGH)
    (id_,) = world.hub.engine.suspended
    assert id_.startswith("costly")
    (told,) = errors_of(costly)
    assert told["topic"] == "a"
    assert "limits.filter_cost_per_s" in told["error"]
    got = len(events_of(costly))
    assert 0 < got < ENOUGH
    assert events_of(plain) == list(range(ENOUGH))
    assert world.hub.statistics()["suspended_subscriptions"] == 1
    world.now += FIRST_S
    world.tick()
    assert not world.hub.engine.suspended
    publish(world, writer, ENOUGH, 1)
    assert events_of(costly)[got:] == [ENOUGH]


def test_subscribing_again_does_not_evade_the_budget() -> None:
    world, costly, _, writer = stage()
    publish(world, writer, 0, ENOUGH)
    got = len(events_of(costly))
    for number in range(ENOUGH, ENOUGH + 20):
        costly.subscribe("a", where=COSTLY)
        world.tick()
        publish(world, writer, number, 1)
    assert world.hub.engine.suspended
    assert len(events_of(costly)) - got <= 20
    assert world.hub.statistics()["suspensions_total"] >= 20


def test_unsubscribing_and_leaving_end_a_suspended_subscription() -> None:
    world, costly, _, writer = stage()
    publish(world, writer, 0, ENOUGH)
    assert world.hub.engine.suspended
    world.hub.lost(costly.connection)
    world.settle()
    assert not world.hub.engine.suspended
    world.now += FIRST_S
    world.tick()
    assert "costly" not in world.hub.sessions


def test_within_the_budget_nothing_is_suspended() -> None:
    world, costly, _, writer = stage()
    for number in range(ENOUGH):
        world.now += 2.0 * EVALUATION / BUDGET
        publish(world, writer, number, 1)
    assert events_of(costly) == list(range(ENOUGH))
    assert errors_of(costly) == []
