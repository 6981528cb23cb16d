"""Chapters 3.8 to 3.11: SUBSCRIBE and UNSUBSCRIBE with their answers."""

import pytest

from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    Disconnect,
    Properties,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
)
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("first", ["80", "81", "83", "8a"])
def test_mqtt_3_8_1_1_the_flags_of_a_subscribe_are_checked(
    broker: RunningBroker, first: str
) -> None:
    packet = f"{first} 07 0001 00 0001 61 00"
    assert broker.client().end_reason(packet) == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("text", ["ff", "00"])
def test_mqtt_3_8_3_1_a_filter_that_is_no_text_ends_the_connection(
    broker: RunningBroker, text: str
) -> None:
    packet = f"82 07 0001 00 0001 {text} 00"
    assert broker.client().end_reason(packet) == ReasonCode.MALFORMED_PACKET


def test_mqtt_3_8_3_2_a_subscribe_has_a_filter(broker: RunningBroker) -> None:
    assert broker.client().end_reason("82 03 0001 00") == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_8_3_2_a_filter_has_options(broker: RunningBroker) -> None:
    assert broker.client().end_reason("82 06 0001 00 0001 61") == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_mqtt_3_8_3_3_with_no_local_a_client_does_not_get_its_own_messages(
    broker: RunningBroker, qos: int, retain: bool
) -> None:
    name = fresh("client")
    client, other = broker.client(f"{name}~a"), broker.client(f"{name}~b")
    topic = fresh()
    client.subscribe(TopicFilter(topic, 2, no_local=True))
    client.publish(topic, b"mine", qos, retain)
    other.publish(topic, b"theirs", qos, retain)
    assert client.payloads() == [b"theirs"]


def test_mqtt_3_8_3_3_without_no_local_a_client_gets_its_own_messages(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(TopicFilter(topic, 0, no_local=True), f"{topic}/#")
    client.publish(topic, b"mine", 1)
    # By the other subscription, and with its QoS.
    assert client.take().qos == 1
    assert client.rest() == []


def test_mqtt_3_8_3_4_no_local_and_shared_do_not_go_together(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Subscribe(1, (TopicFilter("$share/group/a", no_local=True),)))
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        pytest.param("40", 0x81, id="reserved bit 6"),
        pytest.param("80", 0x81, id="reserved bit 7"),
        pytest.param("03", 0x82, id="QoS 3"),
        pytest.param("30", 0x82, id="retain handling 3"),
    ],
)
def test_mqtt_3_8_3_5_options_that_do_not_exist_end_the_connection(
    broker: RunningBroker, options: str, reason: int
) -> None:
    assert broker.client().end_reason(f"82 07 0001 00 0001 61 {options}") == reason


def test_a_subscription_identifier_of_0_ends_the_connection(broker: RunningBroker) -> None:
    packet = "82 09 0001 02 0b 00 0001 61 00"
    assert broker.client().end_reason(packet) == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_8_4_1_and_3_8_4_2_a_subscribe_is_answered(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Subscribe(999, (TopicFilter(fresh()),)))
    assert client.expect(SubAck) == SubAck(999, (ReasonCode.GRANTED_QOS_0,))


def test_mqtt_3_8_4_3_the_same_filter_again_replaces_the_subscription(
    broker: RunningBroker,
) -> None:
    client, topic = broker.client(), fresh()
    named = Properties(subscription_identifiers=(5,))
    client.subscribe(TopicFilter(topic, 2, no_local=True), properties=named)
    client.subscribe(TopicFilter(topic, 1))
    client.publish(topic, qos=2)
    message = client.take()
    assert (message.qos, message.properties) == (1, NO_PROPERTIES)
    assert client.rest() == []
    client.unsubscribe(topic)
    client.publish(topic, qos=2)
    assert client.rest() == []


def test_mqtt_3_8_4_4_retained_messages_come_again_and_nothing_is_lost(
    broker: RunningBroker,
) -> None:
    topic, writer = fresh(), broker.client()
    client = broker.client(properties=Properties(receive_maximum=1))
    writer.publish(topic, b"kept", 1, retain=True)
    client.subscribe(topic)
    assert client.take().payload == b"kept"
    for number in b"012":
        writer.publish(topic, bytes([number]), 1)
    client.subscribe(topic)
    seen = sorted(client.take().payload for _ in range(4))
    assert seen == [b"0", b"1", b"2", b"kept"]


def test_mqtt_3_8_4_5_and_3_8_4_6_and_3_9_3_1_filters_are_answered_one_by_one_in_order(
    broker: RunningBroker,
) -> None:
    client, root = broker.client(), fresh()
    wanted = [
        TopicFilter(f"{root}/a", 2),
        TopicFilter("a/#/b", 0),
        TopicFilter(f"{root}/b", 0),
        TopicFilter("a+", 1),
        TopicFilter(f"{root}/c", 1),
        TopicFilter(f"{root}/a", 0),
    ]
    assert client.subscribe(*wanted) == (2, 0x8F, 0, 0x8F, 1, 0)
    for name in "abc":
        client.publish(f"{root}/{name}", qos=2)
    # The last one for `a` replaced the first.
    assert [client.take().qos for _ in range(3)] == [0, 0, 1]


def test_mqtt_3_8_4_7_the_granted_qos_is_told(broker: RunningBroker) -> None:
    client = broker.client()
    for qos in (0, 1, 2):
        assert client.subscribe(fresh(), qos=qos) == (qos,)


@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_mqtt_3_8_4_8_a_message_comes_with_the_lower_qos(
    broker: RunningBroker, published: int, granted: int, retain: bool
) -> None:
    client, topic = broker.client(), fresh()
    if retain:
        client.publish(topic, qos=published, retain=True)
    client.subscribe(topic, qos=granted)
    if not retain:
        client.publish(topic, qos=published)
    assert client.take().qos == min(published, granted)


def test_mqtt_3_9_2_1_a_suback_is_not_larger_than_the_client_takes(broker: RunningBroker) -> None:
    client = broker.client(properties=Properties(maximum_packet_size=30))
    client.send(Subscribe(1, (TopicFilter("a/#/" + "b" * 100),)))
    answer = client.expect(SubAck)
    assert answer.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert answer.properties == NO_PROPERTIES


def test_an_answer_that_cannot_be_shortened_ends_the_connection(broker: RunningBroker) -> None:
    client = broker.client(properties=Properties(maximum_packet_size=30))
    client.send(Subscribe(1, tuple(TopicFilter(fresh()) for _ in range(40))))
    last = client.end()[-1]
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PACKET_TOO_LARGE


def test_mqtt_3_9_3_2_refusals_have_a_known_reason(broker: RunningBroker) -> None:
    client = broker.client()
    assert client.subscribe("a/#/b", "/".join("a" * 200)) == (0x8F, 0x8F)
    ours = Properties(user_properties=(("nc-nothing", "1"),))
    assert client.subscribe("a", properties=ours) == (0x83,)
    assert client.subscribe(*("a" for _ in range(1_001))) == (0x97,) * 1_001


@pytest.mark.parametrize("first", ["a0", "a1", "a3", "aa"])
def test_mqtt_3_10_1_1_the_flags_of_an_unsubscribe_are_checked(
    broker: RunningBroker, first: str
) -> None:
    packet = f"{first} 06 0001 00 0001 61"
    assert broker.client().end_reason(packet) == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("text", ["ff", "00"])
def test_mqtt_3_10_3_1_a_filter_to_give_up_is_text(broker: RunningBroker, text: str) -> None:
    packet = f"a2 06 0001 00 0001 {text}"
    assert broker.client().end_reason(packet) == ReasonCode.MALFORMED_PACKET


def test_mqtt_3_10_3_2_an_unsubscribe_has_a_filter(broker: RunningBroker) -> None:
    assert broker.client().end_reason("a2 03 0001 00") == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_10_4_1_only_the_very_same_filter_is_given_up(broker: RunningBroker) -> None:
    client, root = broker.client(), fresh()
    client.subscribe(f"{root}/+")
    for other in (f"{root}/#", f"{root}/a", f"{root}/+/", f"{root.upper()}/+"):
        assert client.unsubscribe(other) == (ReasonCode.NO_SUBSCRIPTION_EXISTED,)
    client.publish(f"{root}/a")
    assert client.payloads() == [b"x"]
    assert client.unsubscribe(f"{root}/+") == (ReasonCode.SUCCESS,)


def test_mqtt_3_10_4_2_nothing_new_comes_after_an_unsubscribe(broker: RunningBroker) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    client.unsubscribe(topic)
    for qos in (0, 1, 2):
        client.publish(topic, qos=qos)
    assert client.rest() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_10_4_3_what_was_begun_is_completed(broker: RunningBroker, qos: int) -> None:
    topic = fresh()
    client = broker.client(expiry=100)
    client.subscribe(topic)
    broker.client().publish(topic, qos=qos)
    message = client.message()
    client.unsubscribe(topic)
    broker.lose(client)
    again = broker.client(client.client_id, clean=False)
    repeated = again.take()
    assert (repeated.packet_id, repeated.dup) == (message.packet_id, True)


def test_mqtt_3_10_4_4_and_3_10_4_5_an_unsubscribe_is_answered(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Unsubscribe(888, (fresh(),)))
    assert client.expect(UnsubAck) == UnsubAck(888, (ReasonCode.NO_SUBSCRIPTION_EXISTED,))


def test_mqtt_3_10_4_6_and_3_11_3_1_filters_are_given_up_one_by_one_in_order(
    broker: RunningBroker,
) -> None:
    client, root = broker.client(), fresh()
    client.subscribe(f"{root}/a", f"{root}/b")
    filters = (f"{root}/b", f"{root}/x", f"{root}/a", f"{root}/a")
    assert client.unsubscribe(*filters) == (0, 0x11, 0, 0x11)
    client.publish(f"{root}/a")
    client.publish(f"{root}/b")
    assert client.rest() == []


def test_mqtt_3_11_2_1_an_unsuback_is_not_larger_than_the_client_takes(
    broker: RunningBroker,
) -> None:
    client = broker.client(properties=Properties(maximum_packet_size=30))
    client.send(Unsubscribe(1, ("x" * 200,)))
    assert client.expect(UnsubAck).properties == NO_PROPERTIES


def test_mqtt_3_11_3_2_what_cannot_be_given_up_has_a_known_reason(broker: RunningBroker) -> None:
    client = broker.client()
    answers = client.unsubscribe("a/#/b", "$share//x", "x" * 5_000)
    assert all(each in (0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91) for each in answers)
    assert 0x00 not in answers
