"""Chapters 3.3.1 and 3.3.2: the flags and the topic of PUBLISH; its other properties are in
`test_publish_properties`."""

import pytest

from nearcast.wire.mqtt import PubAck, Publish, PubRec, ReasonCode, TopicFilter
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker


def retained(broker: RunningBroker, topic: str) -> list[bytes]:
    """What a newcomer finds."""
    client = broker.client()
    client.subscribe(topic)
    messages = [each for each in client.rest() if isinstance(each, Publish)]
    assert all(each.retain for each in messages)
    return [each.payload for each in messages]


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_3_1_1_what_is_sent_again_is_marked(broker: RunningBroker, qos: int) -> None:
    topic = fresh()
    first = broker.client(expiry=100)
    first.subscribe(topic)
    broker.client().publish(topic, qos=qos)
    assert not first.message().dup
    broker.lose(first)
    again = broker.client(first.client_id, clean=False, expiry=100)
    assert again.message().dup


def test_mqtt_3_3_1_2_a_message_of_qos_0_is_never_marked(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    client.publish(topic, qos=0)
    assert not client.message().dup
    client.send_hex("38 04 0001 61 00")
    assert client.end_reason() == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_3_1_3_the_mark_is_not_passed_on(broker: RunningBroker, qos: int) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    client.send(Publish(topic, qos=qos, dup=True, packet_id=9))
    client.wait_for(PubAck if qos == 1 else PubRec)
    assert not client.message().dup


def test_mqtt_3_3_1_4_there_is_no_qos_3(broker: RunningBroker) -> None:
    client = broker.client()
    client.send_hex("36 06 0001 61 0001 00")
    assert client.end_reason() == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_1_5_a_retained_message_replaces_the_one_before(
    broker: RunningBroker, qos: int
) -> None:
    client, topic = broker.client(), fresh()
    client.publish(topic, b"old", qos, retain=True)
    assert retained(broker, topic) == [b"old"]
    client.publish(topic, b"new", qos, retain=True)
    assert retained(broker, topic) == [b"new"]


def test_mqtt_3_3_1_6_and_3_3_1_7_an_empty_message_removes_what_was_retained(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.publish(topic, b"kept", retain=True)
    client.subscribe(TopicFilter(topic, retain_handling=2))
    client.publish(topic, b"", retain=True)
    # It is a message for those who are there, and nothing for those who come later.
    assert client.message().payload == b""
    assert retained(broker, topic) == []


def test_mqtt_3_3_1_8_a_message_that_is_not_retained_changes_nothing(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.publish(topic, b"passing")
    assert retained(broker, topic) == []
    client.publish(topic, b"kept", retain=True)
    client.publish(topic, b"passing")
    client.publish(topic, b"")
    assert retained(broker, topic) == [b"kept"]


def test_mqtt_3_3_1_9_with_retain_handling_0_they_come_with_every_subscribe(
    broker: RunningBroker,
) -> None:
    client, root = broker.client(), fresh()
    client.publish(f"{root}/a", b"1", retain=True)
    client.publish(f"{root}/b", b"2", retain=True)
    for _ in range(2):
        client.subscribe(TopicFilter(f"{root}/#", retain_handling=0))
        assert {client.message().payload for _ in range(2)} == {b"1", b"2"}
    assert client.rest() == []


def test_mqtt_3_3_1_10_with_retain_handling_1_they_come_with_a_new_subscription(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.publish(topic, b"kept", retain=True)
    client.subscribe(TopicFilter(topic, retain_handling=1))
    assert client.message().payload == b"kept"
    client.subscribe(TopicFilter(topic, retain_handling=1))
    assert client.rest() == []
    client.unsubscribe(topic)
    client.subscribe(TopicFilter(topic, retain_handling=1))
    assert client.message().payload == b"kept"


def test_mqtt_3_3_1_11_with_retain_handling_2_they_do_not_come(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.publish(topic, b"kept", retain=True)
    client.subscribe(TopicFilter(topic, retain_handling=2))
    assert client.rest() == []


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("as_published", [False, True])
def test_mqtt_3_3_1_12_and_3_3_1_13_the_retain_flag_is_passed_on_if_asked_for(
    broker: RunningBroker, qos: int, retain: bool, as_published: bool
) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(TopicFilter(topic, qos, retain_as_published=as_published))
    client.publish(topic, b"x", qos, retain)
    assert client.take().retain == (retain and as_published)


def test_mqtt_3_3_2_1_a_publish_without_a_topic_ends_the_connection(
    broker: RunningBroker,
) -> None:
    for packet in ("30 00", "30 01 00", "30 04 0005 6162"):
        client = broker.client()
        client.send_hex(packet)
        assert client.end_reason() == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("topic", ["#", "+", "a/#", "a/+/b", "a+b"])
def test_mqtt_3_3_2_2_a_topic_with_a_wildcard_ends_the_connection(
    broker: RunningBroker, topic: str
) -> None:
    client = broker.client()
    client.send(bytes([0x30, len(topic) + 3, 0, len(topic)]) + topic.encode() + b"\0")
    assert client.end_reason() in (ReasonCode.MALFORMED_PACKET, ReasonCode.TOPIC_NAME_INVALID)


def test_mqtt_3_3_2_3_messages_come_with_the_topic_they_were_published_to(
    broker: RunningBroker,
) -> None:
    client, root = broker.client(), fresh()
    client.subscribe(f"{root}/+/c/#")
    topics = [f"{root}/b/c", f"{root}//c", f"{root}/b/c/d/e", f"{root}/b/c/"]
    for topic in [*topics, f"{root}/b", f"{root}/b/d", root, f"x{root}/b/c"]:
        client.publish(topic)
    assert [client.message().topic for _ in topics] == topics
    assert client.rest() == []
