"""What other people's interoperability suites ask of a broker, for MQTT 3.1.1 and 5 alike."""

import pytest

from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Disconnect,
    Properties,
    Publish,
    ReasonCode,
    TopicFilter,
    Will,
)
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.running_broker import RunningBroker

KEEPS = True

both = pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])


def lasting(broker: RunningBroker, version: int, name: str | None = None) -> RawClient:
    """A client whose session outlives its connection."""
    expiry = 1_000 if version == MQTT_5 else None
    return broker.client(name, version=version, clean=False, expiry=expiry)


def say_goodbye(client: RawClient) -> None:
    client.send(Disconnect())
    assert client.end() == []


@both
def test_messages_of_every_qos_arrive(broker: RunningBroker, version: int) -> None:
    client, topic = broker.client(version=version), fresh()
    assert client.subscribe(topic) == (2,)
    for qos in (0, 1, 2):
        client.publish(topic, f"qos {qos}".encode(), qos)
    messages = [client.take() for _ in range(3)]
    assert [(each.payload, each.qos) for each in messages] == [
        (b"qos 0", 0),
        (b"qos 1", 1),
        (b"qos 2", 2),
    ]
    say_goodbye(client)


@both
def test_retained_messages_are_found_by_wildcards_and_can_be_cleared(
    broker: RunningBroker, version: int
) -> None:
    root, writer = fresh(), broker.client(version=version)
    topics = [f"{root}/{name}" for name in ("A", "B", "C")]
    for qos, topic in enumerate(topics):
        writer.publish(topic, f"qos {qos}".encode(), qos, retain=True)
    reader = broker.client(version=version)
    reader.subscribe(f"{root}/+")
    found = sorted((m.topic, m.qos, m.retain) for m in (reader.take() for _ in topics))
    assert found == [(topic, qos, True) for qos, topic in enumerate(topics)]
    for qos, topic in enumerate(topics):
        writer.publish(topic, b"", qos, retain=True)
    late = broker.client(version=version)
    late.subscribe(f"{root}/+")
    assert late.rest() == []


@both
def test_messages_wait_for_who_is_away(broker: RunningBroker, version: int) -> None:
    root, reader = fresh(), lasting(broker, version)
    reader.subscribe(f"{root}/+")
    say_goodbye(reader)
    writer = broker.client(version=version)
    for qos in (0, 1, 2):
        writer.publish(f"{root}/{qos}", f"qos {qos}".encode(), qos)
    again = lasting(broker, version, reader.client_id)
    assert again.connack.session_present
    assert [again.take().payload for _ in range(2)] == [b"qos 1", b"qos 2"]
    assert again.rest() == []


@both
def test_a_will_comes_from_who_is_lost_and_not_from_who_says_goodbye(
    broker: RunningBroker, version: int
) -> None:
    topic, watcher = fresh(), broker.client(version=version)
    watcher.subscribe(topic)
    say_goodbye(broker.client(version=version, will=Will(topic, b"polite")))
    broker.lose(broker.client(version=version, will=Will(topic, b"lost", 2)))
    message = watcher.take()
    assert (message.payload, message.qos) == (b"lost", 2)
    assert watcher.rest() == []


@both
def test_a_client_that_falls_silent_leaves_its_will(broker: RunningBroker, version: int) -> None:
    topic, watcher = fresh(), broker.client(version=version)
    watcher.subscribe(topic)
    broker.client(version=version, keep_alive=5, will=Will(topic, b"silent"))
    broker.later(8)
    assert watcher.take().payload == b"silent"


@both
def test_overlapping_subscriptions_bring_one_copy(broker: RunningBroker, version: int) -> None:
    root, client = fresh(), broker.client(version=version)
    client.subscribe(TopicFilter(f"{root}/#", 2), TopicFilter(f"{root}/+", 1))
    client.publish(f"{root}/a", b"once", 2)
    assert client.take().qos == 2
    assert client.rest() == []


@both
def test_what_was_not_acknowledged_comes_again(broker: RunningBroker, version: int) -> None:
    topic, reader = fresh(), lasting(broker, version)
    reader.subscribe(topic)
    writer = broker.client(version=version)
    writer.publish(topic, b"1", 1)
    writer.publish(topic, b"2", 2)
    before = [reader.message() for _ in range(2)]
    broker.lose(reader)
    again = lasting(broker, version, reader.client_id)
    after = [again.take() for _ in range(2)]
    assert [m.packet_id for m in after] == [m.packet_id for m in before]
    assert all(each.dup for each in after)
    assert again.rest() == []


@both
def test_wildcards_do_not_bring_dollar_topics(broker: RunningBroker, version: int) -> None:
    client, name = broker.client(version=version), fresh()
    client.subscribe(f"+/{name}")
    client.publish(f"$topic/{name}")
    client.publish(f"topic/{name}")
    assert [each.topic for each in client.rest() if isinstance(each, Publish)] == [f"topic/{name}"]


@both
def test_who_unsubscribes_gets_no_more(broker: RunningBroker, version: int) -> None:
    root, client = fresh(), broker.client(version=version)
    client.subscribe(f"{root}/a", f"{root}/b")
    client.unsubscribe(f"{root}/a")
    for name in "ab":
        client.publish(f"{root}/{name}", qos=2)
    assert client.take().topic == f"{root}/b"
    assert client.rest() == []


def test_who_brings_no_identifier_is_let_in(broker: RunningBroker) -> None:
    for clean in (True, False):
        client = broker.open()
        answer = client.connect(Connect("", clean_start=clean))
        assert answer.properties.assigned_client_identifier
        assert not answer.session_present


def test_a_topic_is_said_once_to_who_allows_one_alias(broker: RunningBroker) -> None:
    topic, writer = fresh(), broker.client()
    reader = broker.client(properties=Properties(topic_alias_maximum=1))
    reader.subscribe(topic)
    for qos in (0, 1, 2):
        writer.publish(topic, qos=qos)
    messages = [reader.take() for _ in range(3)]
    assert [(m.topic, m.properties.topic_alias, m.qos) for m in messages] == [
        (topic, 1, 0),
        ("", 1, 1),
        ("", 1, 2),
    ]


def test_of_what_waits_some_expires(broker: RunningBroker) -> None:
    topic, reader = fresh(), lasting(broker, MQTT_5)
    reader.subscribe(topic)
    say_goodbye(reader)
    writer = broker.client()
    for seconds in (1, 6, None):
        properties = Properties(message_expiry_interval=seconds)
        for qos in (1, 2):
            writer.publish(topic, str(seconds).encode(), qos, properties=properties)
    broker.later(3)
    again = lasting(broker, MQTT_5, reader.client_id)
    left = [again.take() for _ in range(4)]
    assert [each.payload for each in left] == [b"6", b"6", b"None", b"None"]
    assert all((m.properties.message_expiry_interval or 0) <= 3 for m in left)
    assert again.rest() == []


@pytest.mark.parametrize("limited", [False, True])
def test_the_largest_packet_is_kept_to_by_both_sides(broker: RunningBroker, limited: bool) -> None:
    topic = fresh()
    if limited:
        reader = broker.client(properties=Properties(maximum_packet_size=64))
        reader.subscribe(topic)
        writer = broker.client()
        writer.publish(topic, b".", 1)
        writer.publish(topic, b"." * 64, 1)
        assert reader.take().payload == b"."
        assert reader.rest() == []
        return
    client = broker.client()
    largest = client.connack.properties.maximum_packet_size
    assert largest is not None
    client.send(Publish(topic, b"." * largest))
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PACKET_TOO_LARGE
