"""Nodes, contexts and places count for the user whose they are: nobody can use up everybody's."""

import pytest

from nearcast.broker.config.settings import Limits, Settings, SituationSection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.situation import node_expiry
from nearcast.wire.mqtt import PubAck, Publish, ReasonCode
from tests.broker.hub_world import HubClient, HubWorld

GREEDY, HONEST = "192.0.2.66", "192.0.2.7"
SQUARE = b'{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}'


def world_with(**bounds: float) -> HubWorld:
    limits = Limits(user_share=0.5, **bounds)  # type: ignore[arg-type]
    return HubWorld(Settings(limits=limits, situation=SituationSection(node_ttl_s=1e9)))


def answers(client: HubClient, topic: str, payload: bytes) -> ReasonCode:
    """Publish with QoS 1, and return the reason code of the answer."""
    client.send(Publish(topic, payload, 1, packet_id=9))
    client.world.settle()
    (answer,) = [each for each in client.got if isinstance(each, PubAck)]
    client.got.clear()
    return ReasonCode(answer.reason_code)


def comes_and_goes(world: HubWorld, name: str, address: str) -> ReasonCode:
    """A node that says where it is, and leaves."""
    client = world.client(name, address)
    answer = answers(client, "$me/position", b"1,2")
    world.hub.lost(client.connection)
    world.settle()
    world.now += 1.0
    return answer


def test_a_user_makes_room_for_its_nodes_among_its_own() -> None:
    world = world_with(nodes=10)
    assert comes_and_goes(world, "honest", HONEST) == ReasonCode.SUCCESS
    for number in range(20):
        assert comes_and_goes(world, f"greedy{number}", GREEDY) == ReasonCode.SUCCESS

    nodes = world.hub.engine.nodes
    assert set(nodes) == {"honest", *(f"greedy{number}" for number in range(15, 20))}


def test_a_user_whose_nodes_are_all_there_is_refused_and_others_are_not() -> None:
    world = world_with(nodes=4)
    here = [world.client(f"greedy{number}", GREEDY) for number in range(3)]
    codes = [answers(client, "$me/position", b"1,2") for client in here]
    assert codes == [ReasonCode.SUCCESS, ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED]
    honest = world.client("honest", HONEST)
    assert answers(honest, "$me/position", b"1,2") == ReasonCode.SUCCESS


def test_the_node_that_was_idle_for_longest_is_found_among_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Many: more than a sweep looks at.
    monkeypatch.setattr(node_expiry, "SLICE", 8)
    names = [f"n{number}" for number in range(20)]
    world = world_with(nodes=len(names))
    for at, name in enumerate(names):
        client = world.client(name, (GREEDY, HONEST)[at % 2])
        client.publish("$me/position", [b"1,2"])
        world.settle()
        world.hub.lost(client.connection)
        world.now += 1.0
    for _ in range(4):
        world.hub.sweep(world.now)
        world.settle()
    assert len(world.hub.engine.nodes) == len(names)

    assert comes_and_goes(world, "new", "192.0.2.8") == ReasonCode.SUCCESS
    assert set(world.hub.engine.nodes) == {*names[1:], "new"}


def test_contexts_are_bounded_for_a_user() -> None:
    world = world_with(all_context_bytes=2_000)
    greedy = [world.client(f"greedy{number}", GREEDY) for number in range(4)]
    payload = b'{"text": "%s"}' % (b"x" * 300)
    codes = [answers(client, "$me/context", payload) for client in greedy]
    assert codes.count(ReasonCode.QUOTA_EXCEEDED) == 1
    assert answers(world.client("honest", HONEST), "$me/context", payload) == ReasonCode.SUCCESS


def test_places_are_bounded_for_a_user_and_count_for_who_defined_them_last() -> None:
    world = world_with(places=4, place_vertices=100)
    greedy, honest = world.client("greedy", GREEDY), world.client("honest", HONEST)
    codes = [answers(greedy, f"$place/k/{number}", SQUARE) for number in range(3)]
    assert codes == [ReasonCode.SUCCESS, ReasonCode.SUCCESS, ReasonCode.QUOTA_EXCEEDED]
    assert answers(honest, "$place/k/0", SQUARE) == ReasonCode.SUCCESS
    quotas = world.hub.state.quotas
    for client in (greedy, honest):
        usage = quotas.find(client.name)
        assert usage is not None
        assert usage.used[Resource.PLACES] == 1
        assert usage.used[Resource.PLACE_VERTICES] == 4
    assert answers(greedy, "$place/k/2", SQUARE) == ReasonCode.SUCCESS
