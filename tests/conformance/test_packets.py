"""Chapter 2: fixed headers, packet identifiers and properties."""

import pytest

from nearcast.wire.mqtt import (
    ConnAck,
    Disconnect,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
)
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param("41 02 0001", id="PUBACK"),
        pytest.param("51 02 0001", id="PUBREC"),
        pytest.param("71 02 0001", id="PUBCOMP"),
        pytest.param("c1 00", id="PINGREQ"),
        pytest.param("e1 00", id="DISCONNECT"),
        pytest.param("f1 00", id="AUTH"),
    ],
)
def test_mqtt_2_1_3_1_reserved_flags_that_are_wrong_end_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    client = broker.client()
    client.send_hex(packet)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.MALFORMED_PACKET


def test_mqtt_2_2_1_2_a_message_of_qos_0_has_no_packet_identifier(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    before = len(client.raw)
    client.publish(topic, b"xyz", qos=0)
    # First byte, length, topic, no properties, payload: there is room for no more.
    expected = b"\x30" + bytes([6 + len(topic)]) + b"\0" + bytes([len(topic)]) + topic.encode()
    assert expected + b"\0xyz" in client.raw[before:]


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param("32 06 0001 61 0000 00", id="PUBLISH"),
        pytest.param("82 07 0000 00 0001 61 00", id="SUBSCRIBE"),
        pytest.param("a2 06 0000 00 0001 61", id="UNSUBSCRIBE"),
    ],
)
def test_mqtt_2_2_1_3_a_packet_identifier_of_0_ends_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    client = broker.client()
    client.send_hex(packet)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR


def test_mqtt_2_2_1_4_messages_under_way_have_different_packet_identifiers(
    broker: RunningBroker,
) -> None:
    reader, writer, topic = broker.client(), broker.client(), fresh()
    reader.subscribe(topic)
    for number in range(20):
        writer.publish(topic, qos=1 + number % 2)
    identifiers = {reader.message().packet_id for _ in range(20)}
    assert len(identifiers) == 20
    assert 0 not in identifiers


def test_mqtt_2_2_1_5_answers_carry_the_packet_identifier_of_the_message(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.send(Publish(topic, qos=1, packet_id=4_711))
    assert client.expect(PubAck).packet_id == 4_711
    client.send(Publish(topic, qos=2, packet_id=65_535))
    assert client.expect(PubRec).packet_id == 65_535
    client.send(PubRel(65_535))
    assert client.expect(PubComp).packet_id == 65_535
    client.subscribe(topic)
    client.publish(topic, qos=2)
    message = client.message()
    client.send(PubRec(message.packet_id))
    assert client.expect(PubRel).packet_id == message.packet_id


def test_mqtt_2_2_1_6_answers_carry_the_packet_identifier_of_the_wish(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.send(Subscribe(321, (TopicFilter(topic),)), Unsubscribe(654, (topic,)))
    assert client.expect(SubAck).packet_id == 321
    assert client.expect(UnsubAck).packet_id == 654


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param("30 03 0001 61", id="PUBLISH"),
        pytest.param("82 02 0001", id="SUBSCRIBE"),
        pytest.param("a2 02 0001", id="UNSUBSCRIBE"),
    ],
)
def test_mqtt_2_2_2_1_a_packet_without_a_property_length_ends_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    client = broker.client()
    client.send_hex(packet)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.MALFORMED_PACKET


def test_mqtt_2_2_2_1_the_server_says_that_there_are_no_properties(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    assert client.raw.endswith(b"\x90\x04\0\x01\0\x02")
    client.unsubscribe(topic)
    assert client.raw.endswith(b"\xb0\x04\0\x02\0\0")


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        pytest.param("30 06 0001 61 02 7f 00", 0x81, id="unknown"),
        pytest.param("30 07 0001 61 03 21 0001", 0x81, id="of another packet"),
        pytest.param("30 0c 0001 61 08 03 0001 61 03 0001 62", 0x82, id="twice"),
        pytest.param("30 06 0001 61 02 01 02", 0x82, id="a value that is not allowed"),
    ],
)
def test_properties_that_may_not_be_end_the_connection(
    broker: RunningBroker, packet: str, reason: int
) -> None:
    client = broker.client()
    client.send_hex(packet)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == reason


def test_packets_are_read_however_they_are_cut(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    properties = Properties(content_type="text/plain")
    packet = client.encode(Publish(topic, b"y" * 300).with_(properties))
    for at in range(len(packet)):
        client.send(packet[at : at + 1])
    assert client.message().payload == b"y" * 300
    assert client.connack == ConnAck(properties=client.connack.properties)
