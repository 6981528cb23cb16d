"""A SUBSCRIBE or UNSUBSCRIBE with many filters is decided in pieces, and answered at its end."""

from collections.abc import Sequence

import pytest

from nearcast.broker.engine_driver import MOST_INPUTS
from nearcast.broker.ingest.filters_request import FILTERS_AT_ONCE
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input
from nearcast.wire.mqtt import (
    Properties,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
)
from tests.broker.hub_world import HubWorld

COUNTS = (1, FILTERS_AT_ONCE - 1, FILTERS_AT_ONCE, FILTERS_AT_ONCE + 1, 1_000)


def filters(count: int) -> tuple[str, ...]:
    return tuple(f"many/{number}" for number in range(count))


def subscribe(count: int, packet_id: int = 1) -> Subscribe:
    return Subscribe(packet_id, tuple(map(TopicFilter, filters(count))))


@pytest.mark.parametrize("count", COUNTS)
def test_all_filters_are_answered_in_their_order(count: int) -> None:
    world = HubWorld()
    client, publisher = world.client("client"), world.client("publisher")
    wanted = [*map(TopicFilter, filters(count)[:-1]), TopicFilter("a/#/b")]
    wanted.insert(count // 2, TopicFilter("$me/nothing", 1))
    # What comes after it in the same bytes is processed after it.
    client.send(Subscribe(7, tuple(wanted[:1_000])), Publish("many/0", b"own"))
    world.settle()
    (answer,) = [each for each in client.got if isinstance(each, SubAck)]
    assert answer.packet_id == 7
    assert [code.failed for code in answer.reason_codes] == [
        each.filter in ("a/#/b", "$me/nothing") for each in wanted[:1_000]
    ]
    assert client.messages == ([b"own"] if count > 1 else [])
    publisher.send(*(Publish(topic, topic.encode()) for topic in filters(count)[:-2]))
    world.settle()
    assert client.messages[1:] == [topic.encode() for topic in filters(count)[:-2]]


@pytest.mark.parametrize("count", COUNTS)
def test_all_subscriptions_of_a_packet_end(count: int) -> None:
    world = HubWorld()
    client, publisher = world.client("client"), world.client("publisher")
    client.send(subscribe(count))
    world.settle()
    client.send(Unsubscribe(8, ("none", *filters(count)[1:])), Publish("many/0", b"kept"))
    world.settle()
    (answer,) = [each for each in client.got if isinstance(each, UnsubAck)]
    assert answer.packet_id == 8
    first, *others = answer.reason_codes
    assert first is ReasonCode.NO_SUBSCRIPTION_EXISTED
    assert set(others) <= {ReasonCode.SUCCESS}
    publisher.send(*(Publish(topic, b"late") for topic in filters(count)[1:]))
    world.settle()
    assert client.messages == [b"kept"]
    assert list(client.connection.session.granted) == ["client\0many/0"]  # type: ignore[union-attr]


def test_no_step_decides_more_than_some_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    world = HubWorld()
    client, reader = world.client("client", "198.51.100.1"), world.client("reader")
    reader.subscribe("honest")
    world.settle()
    sizes: list[int] = []
    step = world.hub.engine.step

    def noted(inputs: Sequence[Input], now: float) -> Outcome:
        sizes.append(len(inputs))
        return step(inputs, now)

    monkeypatch.setattr(world.hub.engine, "step", noted)
    client.send(*(subscribe(1_000, packet_id) for packet_id in range(1, 11)))
    assert client.waits
    # Others have their turns meanwhile.
    reader.publish("honest", [b"one"])
    world.tick()
    assert reader.messages == [b"one"]
    assert client.waits
    world.settle()
    client.send(Unsubscribe(11, filters(1_000)))
    world.settle()
    assert len([each for each in client.got if isinstance(each, SubAck)]) == 10
    assert max(sizes) <= MOST_INPUTS


def test_a_live_event_comes_once_for_filters_of_several_pieces() -> None:
    world = HubWorld()
    client, publisher = world.client("client"), world.client("publisher")
    lasting = Properties(user_properties=(("nc-valid", "60"),))
    publisher.send(Publish("live/1", b"lasting").with_(lasting))
    publisher.send(Publish("live/2", b"retained", retain=True))
    world.settle()
    several = ("live/#", *filters(2 * FILTERS_AT_ONCE), "live/+")
    client.send(Subscribe(1, tuple(map(TopicFilter, several))))
    world.settle()
    # MQTT sends retained messages for each filter.
    assert sorted(client.messages) == [b"lasting", b"retained", b"retained"]


def test_who_leaves_in_the_middle_has_the_filters_that_it_sent() -> None:
    world = HubWorld()
    client = world.client("client")
    client.send(*(subscribe(1_000, packet_id) for packet_id in range(1, 11)))
    assert client.waits
    world.hub.lost(client.connection)
    world.settle()
    assert not client.connection.has_input
