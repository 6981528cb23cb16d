"""Links of sessions with relevance in virtual time: paced, measured, and classified on change."""

import msgspec
import pytest
from msgspec.structs import replace

from nearcast.broker.awareness.link_classes import EVERY_S, KEPT_S
from nearcast.testing import (
    ClientOptions,
    DiskQuality,
    LinkFigures,
    LinkQuality,
    VirtualBroker,
    VirtualClient,
    World,
)
from nearcast.wire.mqtt import Properties, TopicFilter

DIRECT = ClientOptions(topic_alias_maximum=0)
"""A client that can be written to directly."""
ALARMS = "urgent = 1 OR urgent = 0"


def properties(**named: str) -> Properties:
    return Properties(user_properties=tuple((f"nc-{name}", text) for name, text in named.items()))


def reader_of(world: World, qos: int = 1, options: ClientOptions = DIRECT) -> VirtualClient:
    reader = world.client("reader", options)
    world.settle()
    wanted = properties(where=ALARMS, relevance="levels:3,1", meta="1")
    reader.subscribe(TopicFilter("news", qos=qos), properties=wanted)
    world.settle()
    return reader


def news(number: int, urgent: int, size: int = 0) -> bytes:
    return msgspec.json.encode({"urgent": urgent, "n": number, "filling": "x" * size})


def numbers(reader: VirtualClient, urgent: int) -> list[int]:
    found = map(msgspec.json.decode, reader.payloads("news"))
    return [each["n"] for each in found if each["urgent"] == urgent]


def link_class(broker: VirtualBroker) -> int:
    return broker.hub.engine.context_class("reader")


def is_paced(broker: VirtualBroker) -> bool:
    return broker.hub.sessions["reader"].pace is not None


def told(broker: VirtualBroker) -> dict[str, int]:
    return dict(broker.hub.engine.link_classes("reader"))


@pytest.mark.parametrize("qos", [0, 1])
def test_what_waits_for_a_thin_link_waits_where_the_urgent_overtakes_it(qos: int) -> None:
    with World(seed=3) as world:
        broker = world.broker()
        reader, writer = reader_of(world, qos), world.client("writer")
        thin = LinkQuality(bytes_per_s=25_000.0, held_bytes=4_096)
        world.network.set_quality("reader", "broker", thin)
        for number in range(20):
            writer.publish("news", news(number, 0, 3_000), qos=qos)
            world.run(0.1)
        world.run_until(lambda: link_class(broker) == 1)
        for number in range(20, 60):
            writer.publish("news", news(number, 0, 3_000), qos=qos)
        world.run(0.2)
        writer.publish("news", news(0, 1), qos=qos)
        # Those of before waited as urgent as any, until they were classified.
        world.run_until(lambda: numbers(reader, 1) == [0])
        assert len(numbers(reader, 0)) < 40
        assert broker.hub.sessions["reader"].waiting > 15
        world.run_until(lambda: len(numbers(reader, 0)) == 60)
        world.settle()
        assert sorted(numbers(reader, 0)) == list(range(60))


def test_sessions_without_relevance_are_neither_paced_nor_measured() -> None:
    with World() as world:
        broker = world.broker()
        reader = world.client("reader", DIRECT)
        reader.subscribe(TopicFilter("news"), properties=properties(where=ALARMS))
        world.settle()
        session = broker.hub.sessions["reader"]
        assert session.pace is None
        assert session.direct_connection is session.connection
        assert not broker.hub.link_classes.watched
        assert broker.hub.link_classes.next_timer() is None


def test_a_session_is_paced_while_it_has_relevance() -> None:
    with World() as world:
        broker = world.broker()
        reader = reader_of(world)
        session = broker.hub.sessions["reader"]
        # Nothing waits, and nothing is known of its link.
        assert session.direct_connection is session.connection
        assert is_paced(broker)
        broker.set_figures("reader", LinkFigures(throughput_kbps=100.0))
        world.run(2.0 * EVERY_S)
        assert told(broker) == {"network": 1}
        reader.unsubscribe("news")
        world.run(2.0 * EVERY_S)
        assert not is_paced(broker)
        assert told(broker) == {}
        assert not broker.hub.link_classes.watched


def test_the_class_follows_what_is_measured_and_stays_while_nothing_is() -> None:
    with World() as world:
        broker = world.broker()
        reader_of(world)
        assert link_class(broker) == 3

        def measured(kbps: float | None) -> int:
            broker.set_figures("reader", LinkFigures(throughput_kbps=kbps))
            world.run(2.0 * EVERY_S)
            return link_class(broker)

        assert measured(200.0) == 1
        assert told(broker) == {"network": 1}
        # Within the hysteresis of 100 kb/s.
        assert measured(1_300.0) == 1
        assert measured(1_400.0) == 2
        assert measured(None) == 2
        # Slower than thin: portions are small, and nothing bypasses the queue.
        session = broker.hub.sessions["reader"]
        assert session.direct_connection is None
        assert measured(100_000.0) == 3
        assert session.direct_connection is session.connection
        assert measured(100.0) == 1
        assert measured(None) == 1
        world.run(KEPT_S / 2.0)
        assert link_class(broker) == 1
        # Perhaps it is another link by now.
        world.run(KEPT_S)
        assert link_class(broker) == 3
        assert told(broker) == {}


def test_modules_and_intervals_are_those_of_the_policy() -> None:
    policy = {
        "modules": {
            "delay": {"measure": "rtt_ms", "intervals": [[None, 50], [50, 200], [200, None]]},
            "odd": {"measure": "luck", "intervals": [[0, 1], [1, 2], [2, None]]},
        }
    }
    with World() as world:
        broker = world.broker()
        reader_of(world)
        broker.set_figures("reader", LinkFigures(throughput_kbps=100.0, rtt_ms=120.0))
        world.run(2.0 * EVERY_S)
        assert told(broker) == {"network": 1}
        client = world.client("operator")
        client.publish("$policy/awareness/default", msgspec.json.encode(policy), qos=1)
        world.settle()
        broker.set_figures("reader", LinkFigures(throughput_kbps=100.0, rtt_ms=120.0))
        world.run(2.0 * EVERY_S)
        assert told(broker) == {"delay": 2}
        assert link_class(broker) == 2


def test_the_class_of_a_session_that_is_kept_survives_a_crash_and_ends_with_it() -> None:
    with World() as world:
        broker = world.broker(disk=DiskQuality())
        reader = reader_of(world, options=replace(DIRECT, session_expiry_s=600))
        broker.set_figures("reader", LinkFigures(throughput_kbps=100.0))
        world.run(10.0 * EVERY_S)
        broker.restart()
        assert told(broker) == {"network": 1}
        assert link_class(broker) == 1
        assert is_paced(broker)
        world.settle()
        reader.crash()
        world.run(700.0)
        assert "reader" not in broker.hub.sessions
        broker.restart()
        assert told(broker) == {}
        assert not broker.hub.link_classes.watched


def test_a_reconnected_client_is_measured_anew() -> None:
    with World() as world:
        broker = world.broker()
        reader = reader_of(world)
        broker.set_figures("reader", LinkFigures(throughput_kbps=100.0))
        world.run(2.0 * EVERY_S)
        broker.set_figures("reader", None)
        pace = broker.hub.sessions["reader"].pace
        assert pace is not None
        assert pace.is_thin
        reader.crash()
        world.run(1.0)
        reader.connect()
        world.settle()
        session = broker.hub.sessions["reader"]
        assert session.pace is None or not session.pace.is_thin
