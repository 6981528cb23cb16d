"""Chapters 4.1 to 4.6: sessions, the three qualities of service, sending again, order."""

from pathlib import Path

import pytest

from nearcast.wire.mqtt import (
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

KEEPS = True


def test_mqtt_4_1_0_1_a_session_lasts_as_long_as_its_connection(broker: RunningBroker) -> None:
    client, topic = broker.client(expiry=10), fresh()
    client.subscribe(topic)
    broker.later(1_000)
    client.publish(topic, b"still here")
    assert client.payloads() == [b"still here"]


@pytest.mark.parametrize("expiry", [None, 0, 10])
def test_mqtt_4_1_0_2_a_session_ends_when_its_time_is_over(
    broker: RunningBroker, expiry: int | None
) -> None:
    first = broker.client(expiry=expiry)
    first.subscribe(fresh())
    first.send(Disconnect())
    first.end()
    if expiry:
        broker.later(11)
    assert not broker.client(first.client_id, clean=False).connack.session_present


def test_a_session_without_end_does_not_end(broker: RunningBroker) -> None:
    first = broker.client(expiry=0xFFFF_FFFF)
    first.send(Disconnect())
    first.end()
    broker.later(1e9)
    assert broker.client(first.client_id, clean=False).connack.session_present


def test_mqtt_4_2_1_a_stream_of_bytes_is_kept_in_order(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    payload = bytes(range(256)) * 2_000
    client.publish(topic, payload, qos=1)
    assert client.take().payload == payload


def test_mqtt_4_3_1_1_a_message_of_qos_0_is_sent_once_and_not_marked(
    broker: RunningBroker,
) -> None:
    topic = fresh()
    reader = broker.client(expiry=100)
    reader.subscribe(topic, qos=0)
    broker.client().publish(topic, qos=2)
    message = reader.message()
    assert (message.qos, message.dup, message.packet_id) == (0, False, 0)
    broker.lose(reader)
    assert broker.client(reader.client_id, clean=False).rest() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_3_2_1_and_4_3_3_1_an_identifier_is_used_again_only_when_it_is_free(
    broker: RunningBroker, qos: int
) -> None:
    reader, writer, topic = broker.client(), broker.client(), fresh()
    reader.subscribe(topic)
    writer.publish(topic, qos=qos)
    held = reader.message().packet_id
    for _ in range(5):
        writer.publish(topic, qos=qos)
        assert reader.take().packet_id not in (0, held)


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_3_2_2_and_4_3_3_2_a_new_message_is_not_marked(
    broker: RunningBroker, qos: int
) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    client.publish(topic, qos=qos)
    message = client.message()
    assert (message.qos, message.dup, message.packet_id > 0) == (qos, False, True)


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_3_2_3_and_4_3_3_3_a_message_is_under_way_until_it_is_acknowledged(
    broker: RunningBroker, qos: int
) -> None:
    topic, name = fresh(), fresh("client")
    reader = broker.client(name, expiry=100)
    reader.subscribe(topic)
    broker.client().publish(topic, qos=qos)
    first = reader.message()
    for _ in range(3):
        broker.lose(reader)
        reader = broker.client(name, clean=False, expiry=100)
        again = reader.message()
        assert (again.packet_id, again.payload, again.qos) == (first.packet_id, b"x", qos)
    reader.acknowledge(again)
    assert reader.rest() == []
    assert broker.client(name, clean=False).rest() == []


def test_mqtt_4_3_3_3_a_message_of_qos_2_is_not_acknowledged_by_a_puback(
    broker: RunningBroker,
) -> None:
    topic = fresh()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    broker.client().publish(topic, qos=2)
    message = reader.message()
    reader.send(PubAck(message.packet_id), PubComp(message.packet_id))
    reader.rest()
    broker.lose(reader)
    again = broker.client(reader.client_id, clean=False)
    assert again.take().packet_id == message.packet_id


def test_mqtt_4_3_2_4_a_message_of_qos_1_is_answered_by_a_puback(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Publish(fresh(), qos=1, packet_id=1_234))
    assert client.rest() == [PubAck(1_234)]


def test_mqtt_4_3_2_5_after_the_puback_the_identifier_means_another_message(
    broker: RunningBroker,
) -> None:
    client, topic, reader = broker.client(), fresh(), broker.client()
    reader.subscribe(topic)
    for number, dup in ((b"1", False), (b"2", False), (b"3", True)):
        client.send(Publish(topic, number, 1, dup=dup, packet_id=7))
        assert client.expect(PubAck).packet_id == 7
    assert reader.payloads() == [b"1", b"2", b"3"]


def test_mqtt_4_3_3_4_and_4_3_3_5_a_pubrel_is_sent_until_the_pubcomp(
    broker: RunningBroker,
) -> None:
    topic, name = fresh(), fresh("client")
    reader = broker.client(name, expiry=100)
    reader.subscribe(topic)
    broker.client().publish(topic, qos=2)
    packet_id = reader.message().packet_id
    reader.send(PubRec(packet_id))
    assert reader.expect(PubRel) == PubRel(packet_id)
    for _ in range(2):
        broker.lose(reader)
        reader = broker.client(name, clean=False, expiry=100)
        assert reader.rest() == [PubRel(packet_id)]
    reader.send(PubComp(packet_id))
    assert reader.rest() == []
    broker.lose(reader)
    assert broker.client(name, clean=False).rest() == []


def test_mqtt_4_3_3_6_after_the_pubrel_the_message_is_not_sent_again(
    broker: RunningBroker,
) -> None:
    topic = fresh()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    broker.client().publish(topic, qos=2)
    reader.send(PubRec(reader.message().packet_id))
    reader.expect(PubRel)
    broker.lose(reader)
    assert broker.client(reader.client_id, clean=False).payloads() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_3_3_7_a_message_that_was_sent_does_not_expire(
    broker: RunningBroker, qos: int
) -> None:
    topic = fresh()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    limit = Properties(message_expiry_interval=10)
    broker.client().publish(topic, b"x", qos, properties=limit)
    message = reader.message()
    broker.lose(reader)
    broker.later(50)
    again = broker.client(reader.client_id, clean=False).take()
    assert (again.packet_id, again.dup) == (message.packet_id, True)
    assert again.properties.message_expiry_interval == 0


def test_mqtt_4_3_3_8_a_message_of_qos_2_is_answered_by_a_pubrec(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Publish(fresh(), qos=2, packet_id=1_234))
    assert client.rest() == [PubRec(1_234)]


def test_mqtt_4_3_3_9_after_a_refusal_the_identifier_means_another_message(
    broker: RunningBroker,
) -> None:
    client, topic, reader = broker.client(), fresh(), broker.client()
    reader.subscribe(topic)
    client.send(Publish("$refused", qos=2, packet_id=7))
    assert client.expect(PubRec).reason_code.failed
    client.send(Publish(topic, b"new", 2, packet_id=7))
    assert not client.expect(PubRec).reason_code.failed
    assert reader.payloads() == [b"new"]


@pytest.mark.parametrize("again", [False, True])
def test_mqtt_4_3_3_10_a_message_of_qos_2_is_delivered_once(
    broker: RunningBroker, again: bool
) -> None:
    client, topic, reader = broker.client(expiry=100), fresh(), broker.client()
    reader.subscribe(topic)
    packet = Publish(topic, b"once", 2, packet_id=7)
    client.send(packet)
    client.expect(PubRec)
    if again:
        broker.lose(client)
        client = broker.client(client.client_id, clean=False, expiry=100)
    for _ in range(3):
        client.send(Publish(topic, b"once", 2, dup=True, packet_id=7))
        assert client.expect(PubRec) == PubRec(7)
    client.send(PubRel(7))
    assert client.expect(PubComp) == PubComp(7)
    assert reader.payloads() == [b"once"]


def test_mqtt_4_3_3_11_a_pubrel_is_answered_by_a_pubcomp(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Publish(fresh(), qos=2, packet_id=7), PubRel(7))
    assert client.rest() == [PubRec(7), PubComp(7)]


def test_mqtt_4_3_3_12_after_the_pubcomp_the_identifier_means_another_message(
    broker: RunningBroker,
) -> None:
    client, topic, reader = broker.client(), fresh(), broker.client()
    reader.subscribe(topic)
    for number in (b"1", b"2"):
        client.send(Publish(topic, number, 2, packet_id=7), PubRel(7))
        assert client.rest() == [PubRec(7), PubComp(7)]
    assert reader.payloads() == [b"1", b"2"]


def test_mqtt_4_3_3_13_a_message_that_has_expired_is_seen_through(broker: RunningBroker) -> None:
    topic, client = fresh(), broker.client(expiry=1_000)
    away = broker.client(expiry=1_000)
    away.subscribe(topic)
    broker.lose(away)
    limited = Publish(topic, qos=2, packet_id=7).with_(Properties(message_expiry_interval=10))
    client.send(limited)
    client.expect(PubRec)
    broker.later(20)
    client.send(PubRel(7))
    assert client.expect(PubComp) == PubComp(7)


def test_mqtt_4_4_0_1_what_is_under_way_is_sent_again_in_order_and_only_then(
    broker: RunningBroker,
) -> None:
    topic, writer = fresh(), broker.client()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    for number in range(6):
        writer.publish(topic, bytes([number]), 1 + number % 2)
    sent = [reader.message() for _ in range(6)]
    broker.later(50)
    assert reader.rest() == []
    reader.send(PubRec(sent[1].packet_id), PubAck(sent[2].packet_id))
    reader.rest()
    broker.lose(reader)
    again = broker.client(reader.client_id, clean=False)
    expected = [PubRel(sent[1].packet_id)]
    came = again.rest()
    assert [each for each in came if isinstance(each, PubRel)] == expected
    repeated = [each for each in came if isinstance(each, Publish)]
    assert [each.packet_id for each in repeated] == [sent[n].packet_id for n in (0, 3, 4, 5)]
    assert all(each.dup for each in repeated)


def test_what_is_under_way_and_what_waits_comes_in_order(broker: RunningBroker) -> None:
    topic, writer, few = fresh(), broker.client(), Properties(receive_maximum=3)
    reader = broker.client(expiry=100, properties=few)
    reader.subscribe(topic)
    for number in range(10):
        writer.publish(topic, bytes([number]), 1)
    assert len(reader.payloads()) == 3
    broker.lose(reader)
    again = broker.client(reader.client_id, clean=False, properties=few)
    assert [again.take().payload[0] for _ in range(10)] == list(range(10))


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_4_0_2_a_message_that_the_client_refuses_is_not_sent_again(
    broker: RunningBroker, qos: int
) -> None:
    topic = fresh()
    reader = broker.client(expiry=100)
    reader.subscribe(topic)
    broker.client().publish(topic, qos=qos)
    packet_id = reader.message().packet_id
    refuse = PubAck if qos == 1 else PubRec
    reader.send(refuse(packet_id, ReasonCode.UNSPECIFIED_ERROR))
    assert reader.rest() == []
    broker.lose(reader)
    assert broker.client(reader.client_id, clean=False).rest() == []


def test_mqtt_4_5_0_1_a_message_is_owed_to_all_who_subscribed(broker: RunningBroker) -> None:
    topic, there, away = fresh(), broker.client(), broker.client(expiry=100)
    for each in (there, away):
        each.subscribe(topic)
    broker.lose(away)
    broker.client().publish(topic, b"for both", 1)
    assert there.take().payload == b"for both"
    assert broker.client(away.client_id, clean=False).take().payload == b"for both"


@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_mqtt_4_6_0_5_and_4_6_0_6_messages_stay_in_order(
    broker: RunningBroker, published: int, granted: int
) -> None:
    topic, writer, reader = fresh(), broker.client(), broker.client()
    reader.subscribe(TopicFilter(topic, granted))
    sent = [str(number).encode() for number in range(50)]
    packets = [
        # Every third is retained, which must not let others pass it.
        Publish(topic, each, published, number % 3 == 0, packet_id=number + 1 if published else 0)
        for number, each in enumerate(sent)
    ]
    writer.send(*packets)
    assert [reader.take().payload for _ in sent] == sent


def test_what_was_acknowledged_outlives_the_server(tmp_path: Path) -> None:
    topic, kept = fresh(), fresh()
    broker = RunningBroker(data=tmp_path)
    reader, writer = broker.client(expiry=1_000), broker.client(expiry=1_000)
    reader.subscribe(topic)
    for number in range(4):
        writer.publish(topic, bytes([number]), 2)
    writer.publish(kept, b"kept", 1, retain=True)
    writer.send(Publish(topic, b"\x04", 2, packet_id=700))
    writer.expect(PubRec)
    sent = [reader.message() for _ in range(5)]
    reader.send(PubRec(sent[0].packet_id))
    reader.expect(PubRel)
    reader.acknowledge(sent[1])
    reader.rest()
    broker.stop()

    broker = RunningBroker(data=tmp_path)
    again = broker.client(reader.client_id, clean=False, expiry=1_000)
    assert again.connack.session_present
    came = again.rest()
    assert [each.packet_id for each in came if isinstance(each, PubRel)] == [sent[0].packet_id]
    repeated = [each for each in came if isinstance(each, Publish)]
    assert [(each.packet_id, each.payload) for each in repeated] == [
        (each.packet_id, each.payload) for each in sent[2:]
    ]
    writer = broker.client(writer.client_id, clean=False)
    writer.send(Publish(topic, b"\x04", 2, dup=True, packet_id=700), PubRel(700))
    assert writer.rest() == [PubRec(700), PubComp(700)]
    again.subscribe(kept)
    assert again.payloads() == [b"kept"]
    broker.stop()
