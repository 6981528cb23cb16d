"""Chapters 4.9 to 4.13: flow control, requests and responses, errors."""

import pytest

from nearcast.wire.mqtt import (
    Disconnect,
    Properties,
    PubAck,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
)
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.running_broker import RunningBroker

KEEPS = True


def messages(client: RawClient) -> list[Publish]:
    """What has come."""
    return [each for each in client.rest() if isinstance(each, Publish)]


@pytest.mark.parametrize("most", [1, 2, 10])
def test_mqtt_4_9_0_1_the_server_begins_with_what_the_client_takes(
    broker: RunningBroker, most: int
) -> None:
    reader = broker.client(properties=Properties(receive_maximum=most))
    topic, writer = fresh(), broker.client()
    reader.subscribe(topic)
    for _ in range(12):
        writer.publish(topic, qos=1)
    assert 1 <= len(messages(reader)) <= most


def test_a_receive_maximum_of_0_is_an_error(broker: RunningBroker) -> None:
    client = broker.open()
    client.send_hex("10 11 0004 4d515454 05 02 0000 03 21 0000 0001 61")
    assert all(not isinstance(each, Publish) for each in client.end())


def test_mqtt_4_9_0_2_without_quota_only_messages_of_qos_0_are_sent(
    broker: RunningBroker,
) -> None:
    reader = broker.client(properties=Properties(receive_maximum=1))
    topic, other, writer = fresh(), fresh(), broker.client()
    reader.subscribe(topic, other)
    writer.publish(topic, b"1", 2)
    writer.publish(topic, b"2", 2)
    (first,) = messages(reader)
    assert first.payload == b"1"
    reader.acknowledge(first)
    assert [each.payload for each in messages(reader)] == [b"2"]


@pytest.mark.parametrize("qos", [1, 2])
def test_the_quota_holds_for_what_is_sent_again(broker: RunningBroker, qos: int) -> None:
    topic, writer = fresh(), broker.client()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    for number in range(5):
        writer.publish(topic, bytes([number]), qos)
    sent = messages(reader)
    assert len(sent) == 5
    broker.lose(reader)
    again = broker.client(
        reader.client_id, clean=False, expiry=100, properties=Properties(receive_maximum=2)
    )
    assert [each.packet_id for each in messages(again)] == [each.packet_id for each in sent[:2]]
    again.acknowledge(sent[0])
    (third,) = messages(again)
    assert (third.packet_id, third.dup, third.payload) == (sent[2].packet_id, True, b"\2")
    broker.lose(again)
    # What had no room is still owed, in order and under its own identifier.
    last = broker.client(reader.client_id, clean=False)
    assert [each.packet_id for each in messages(last)] == [each.packet_id for each in sent[1:]]


def test_what_is_too_large_to_be_sent_again_is_dropped(broker: RunningBroker) -> None:
    topic, writer = fresh(), broker.client()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    writer.publish(topic, b"x" * 200, 1)
    reader.message()
    broker.lose(reader)
    small = Properties(maximum_packet_size=100, receive_maximum=1)
    again = broker.client(reader.client_id, clean=False, expiry=100, properties=small)
    writer.publish(topic, b"small", 1)
    assert again.take().payload == b"small"
    broker.lose(again)
    assert broker.client(reader.client_id, clean=False).rest() == []


def test_mqtt_4_9_0_3_other_packets_are_processed_without_quota(broker: RunningBroker) -> None:
    reader = broker.client(properties=Properties(receive_maximum=1))
    topic, other, writer = fresh(), fresh(), broker.client()
    reader.subscribe(topic)
    for _ in range(3):
        writer.publish(topic, qos=2)
    (message,) = messages(reader)
    assert reader.publish(other, qos=2) == ReasonCode.SUCCESS
    assert reader.subscribe(other) == (2,)
    assert reader.unsubscribe(other) == (0,)
    reader.send(PubRec(message.packet_id))
    assert reader.rest() == [PubRel(message.packet_id)]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_may_have_as_many_under_way_as_it_was_told(
    broker: RunningBroker, qos: int
) -> None:
    client, topic = broker.client(), fresh()
    most = client.connack.properties.receive_maximum or 65_535
    for _ in range(3):
        client.send(*(Publish(topic, b"", qos, packet_id=number + 1) for number in range(most)))
        for number in range(most):
            answer = client.receive()
            assert isinstance(answer, PubAck | PubRec)
            assert answer.packet_id == number + 1
        if qos == 2:
            client.send(*(PubRel(number + 1) for number in range(most)))
            assert len(client.rest()) == most


def test_a_request_is_answered_where_it_says(broker: RunningBroker) -> None:
    requests, answers = fresh(), fresh()
    asking, answering = broker.client(), broker.client()
    asking.subscribe(answers)
    answering.subscribe(requests)
    asked = Properties(response_topic=answers, correlation_data=b"42")
    asking.publish(requests, b"how much?", 1, properties=asked)
    request = answering.take()
    told = request.properties
    assert told.response_topic is not None
    reply = Properties(correlation_data=told.correlation_data)
    answering.publish(told.response_topic, b"so much", 1, properties=reply)
    answer = asking.take()
    assert (answer.payload, answer.properties.correlation_data) == (b"so much", b"42")


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        pytest.param("00 00", 0x81, id="type 0"),
        pytest.param("20 03 00 00 00", 0x82, id="CONNACK from a client"),
        pytest.param("90 04 0001 00 00", 0x82, id="SUBACK from a client"),
        pytest.param("b0 04 0001 00 00", 0x82, id="UNSUBACK from a client"),
        pytest.param("d0 00", 0x82, id="PINGRESP from a client"),
        pytest.param("c0 01 00", 0x81, id="PINGREQ with a body"),
        pytest.param("40 01 00", 0x81, id="PUBACK that is too short"),
        pytest.param("82 09 0001 00 0001 61 00 0001", 0x81, id="SUBSCRIBE that is cut"),
        pytest.param("ff ff ff ff ff", 0x81, id="a length of five bytes"),
        pytest.param("30 ff ff ff 7f", 0x95, id="a packet that is too large"),
        pytest.param("30 06 0000 03 23 0001", 0x82, id="an alias that was never given"),
    ],
)
def test_mqtt_4_13_1_1_what_is_wrong_ends_the_connection(
    broker: RunningBroker, packet: str, reason: int
) -> None:
    client = broker.client()
    client.send_hex(packet)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == reason


def test_mqtt_4_13_2_1_after_a_failure_the_connection_is_closed(broker: RunningBroker) -> None:
    client = broker.client(expiry=100)
    client.send_hex("00 00")
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code.failed
    # The session is none the worse for it.
    assert broker.client(client.client_id, clean=False).connack.session_present


def test_what_came_before_an_error_counts(broker: RunningBroker) -> None:
    client, topic, watcher = broker.client(), fresh(), broker.client()
    watcher.subscribe(topic)
    client.send(Publish(topic, b"before", 1, packet_id=1), b"\0\0", Publish(topic, b"after"))
    client.end()
    assert [each.payload for each in messages(watcher)] == [b"before"]
