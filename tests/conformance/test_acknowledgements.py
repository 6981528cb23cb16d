"""Chapters 3.3.4 to 3.7: what follows a PUBLISH."""

import pytest

from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    Disconnect,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    TopicFilter,
)
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker

REFUSED = "$" + "refused/" * 10
SMALL = Properties(maximum_packet_size=40)


def test_mqtt_3_3_4_1_the_answer_is_that_of_the_qos(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.send(Publish(topic, qos=0))
    assert client.rest() == []
    client.send(Publish(topic, qos=1, packet_id=1))
    assert client.rest() == [PubAck(1)]
    client.send(Publish(topic, qos=2, packet_id=1))
    assert client.rest() == [PubRec(1)]


def test_mqtt_3_3_4_2_where_subscriptions_overlap_the_highest_qos_counts(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(TopicFilter(f"{topic}/#", 0), TopicFilter(topic, 2), TopicFilter("+", 1))
    client.publish(topic, qos=2)
    assert client.take().qos == 2
    assert client.rest() == []
    client.unsubscribe(topic, "+")
    client.publish(topic, qos=2)
    assert client.take().qos == 0


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_4_3_and_3_3_4_4_a_message_names_all_subscriptions_that_it_is_for(
    broker: RunningBroker, qos: int
) -> None:
    client, topic = broker.client(), fresh()
    for number, each in enumerate((topic, f"{topic}/#", "+/#", f"{topic}/other"), 1):
        client.subscribe(each, properties=Properties(subscription_identifiers=(number,)))
    client.subscribe("+")
    client.publish(topic, qos=qos)
    identifiers = client.take().properties.subscription_identifiers
    assert sorted(identifiers) == [1, 2, 3]
    assert client.rest() == []


def test_a_retained_message_names_the_subscription_that_it_comes_with(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.publish(topic, retain=True)
    client.subscribe(topic, properties=Properties(subscription_identifiers=(268_435_455,)))
    assert client.take().properties.subscription_identifiers == (268_435_455,)


def test_mqtt_3_3_4_6_a_message_from_a_client_names_no_subscription(broker: RunningBroker) -> None:
    client = broker.client()
    client.send_hex("30 06 0001 61 02 0b 01")
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_3_4_7_too_many_messages_without_an_answer_end_the_connection(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    most = client.connack.properties.receive_maximum
    assert most is not None
    packets = [Publish(topic, qos=2, packet_id=number) for number in range(1, most + 2)]
    client.send(*packets[:most])
    for number in range(1, most + 1):
        assert client.expect(PubRec).packet_id == number
    client.send(packets[most])
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_3_4_9_no_more_messages_are_under_way_than_the_client_takes(
    broker: RunningBroker, qos: int
) -> None:
    reader = broker.client(properties=Properties(receive_maximum=3))
    writer, topic = broker.client(), fresh()
    reader.subscribe(topic)
    for number in range(8):
        writer.publish(topic, bytes([number]), qos)
    first = [each for each in reader.rest() if isinstance(each, Publish)]
    assert [each.payload[0] for each in first] == [0, 1, 2]
    reader.acknowledge(first[0])
    (more,) = [each for each in reader.rest() if isinstance(each, Publish)]
    assert more.payload[0] == 3
    if qos == 2:
        reader.send(PubRec(first[1].packet_id))
        # Received is not complete: there is no room yet.
        assert reader.rest() == [PubRel(first[1].packet_id)]
        reader.send(PubRec(first[2].packet_id, ReasonCode.UNSPECIFIED_ERROR))
        (last,) = reader.rest()
        assert isinstance(last, Publish)
        assert last.payload[0] == 4


def test_mqtt_3_3_4_10_other_packets_do_not_wait_for_acknowledgements(
    broker: RunningBroker,
) -> None:
    reader = broker.client(properties=Properties(receive_maximum=1))
    writer, topic = broker.client(), fresh()
    reader.subscribe(topic)
    for _ in range(3):
        writer.publish(topic, qos=1)
    reader.message()
    assert reader.rest() == []
    assert reader.subscribe(fresh()) == (2,)
    assert reader.publish(fresh(), qos=2) == ReasonCode.SUCCESS
    assert reader.unsubscribe(topic) == (ReasonCode.SUCCESS,)


def test_mqtt_3_4_2_1_and_3_5_2_1_a_message_that_is_refused_is_answered_with_a_known_reason(
    broker: RunningBroker,
) -> None:
    client = broker.client()
    ours = Properties(user_properties=(("nc-nothing", "1"),))
    for qos in (1, 2):
        assert client.publish(REFUSED, qos=qos) == ReasonCode.NOT_AUTHORIZED
        assert client.publish("x" * 5_000, qos=qos) == ReasonCode.TOPIC_NAME_INVALID
        answer = client.publish(fresh(), qos=qos, properties=ours)
        assert answer == ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
        assert client.publish(fresh(), qos=qos) in (0x00, 0x10)


@pytest.mark.parametrize("topic", ["$" + "x" * 65_000, "$" + "\u0001" * 60_000])
def test_a_refusal_is_not_too_long_to_be_sent(broker: RunningBroker, topic: str) -> None:
    client = broker.client()
    for qos in (1, 2):
        assert client.publish(topic, qos=qos) == ReasonCode.NOT_AUTHORIZED


def test_mqtt_3_4_2_2_a_puback_is_not_larger_than_the_client_takes(broker: RunningBroker) -> None:
    client = broker.client(properties=SMALL)
    client.send(Publish(REFUSED, qos=1, packet_id=1))
    assert client.expect(PubAck) == PubAck(1, ReasonCode.NOT_AUTHORIZED, NO_PROPERTIES)


def test_mqtt_3_5_2_2_a_pubrec_is_not_larger_than_the_client_takes(broker: RunningBroker) -> None:
    client = broker.client(properties=SMALL)
    client.send(Publish(REFUSED, qos=2, packet_id=1))
    assert client.expect(PubRec) == PubRec(1, ReasonCode.NOT_AUTHORIZED, NO_PROPERTIES)


def test_mqtt_3_6_1_1_the_flags_of_a_pubrel_are_checked(broker: RunningBroker) -> None:
    for first in ("60", "61", "63", "6a"):
        client = broker.client()
        client.send_hex(f"{first} 02 0001")
        (last,) = client.end()
        assert isinstance(last, Disconnect)
        assert last.reason_code == ReasonCode.MALFORMED_PACKET


def test_mqtt_3_6_2_1_a_pubrec_for_nothing_is_answered_with_a_known_reason(
    broker: RunningBroker,
) -> None:
    client = broker.client()
    client.send(PubRec(77))
    assert client.expect(PubRel) == PubRel(77, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)


def test_mqtt_3_6_2_2_a_pubrel_is_not_larger_than_the_client_takes(broker: RunningBroker) -> None:
    client = broker.client(properties=SMALL)
    client.send(PubRec(77))
    assert client.expect(PubRel).properties == NO_PROPERTIES


def test_mqtt_3_7_2_1_a_pubrel_for_nothing_is_answered_with_a_known_reason(
    broker: RunningBroker,
) -> None:
    client = broker.client()
    client.send(PubRel(77))
    assert client.expect(PubComp) == PubComp(77, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)


def test_mqtt_3_7_2_2_a_pubcomp_is_not_larger_than_the_client_takes(
    broker: RunningBroker,
) -> None:
    client = broker.client(properties=SMALL)
    client.send(PubRel(77))
    assert client.expect(PubComp).properties == NO_PROPERTIES


@pytest.mark.parametrize(
    "packet", ["40 03 0001 01", "50 03 0001 92", "62 03 0001 10", "70 03 0001 80"]
)
def test_an_acknowledgement_with_an_unknown_reason_ends_the_connection(
    broker: RunningBroker, packet: str
) -> None:
    client = broker.client()
    client.send_hex(packet)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR
