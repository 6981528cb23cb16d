"""Chapters 4.7 and 4.8: topic names, topic filters and shared subscriptions."""

import pytest

from nearcast.wire.mqtt import (
    Properties,
    PubAck,
    Publish,
    PubRec,
    ReasonCode,
    TopicFilter,
)
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.running_broker import RunningBroker


def acknowledged_payloads(client: RawClient) -> list[bytes]:
    """What has come, acknowledged."""
    messages = [each for each in client.rest() if isinstance(each, Publish)]
    for each in messages:
        client.acknowledge(each)
    return [each.payload for each in messages]


@pytest.mark.parametrize("topic", ["23", "2b"])
def test_mqtt_4_7_0_1_wildcards_are_for_filters_only(broker: RunningBroker, topic: str) -> None:
    client = broker.client()
    assert client.end_reason(f"30 04 0001 {topic} 00") == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("text", ["a#", "#a", "a/#/b", "a/b#", "#/", "##"])
def test_mqtt_4_7_1_1_the_wildcard_for_many_levels_is_the_last_level(
    broker: RunningBroker, text: str
) -> None:
    client = broker.client()
    assert client.subscribe(text) == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert client.rest() == []


@pytest.mark.parametrize("text", ["a+", "+a", "a/+b", "a/b+/c", "++"])
def test_mqtt_4_7_1_2_the_wildcard_for_one_level_is_a_whole_level(
    broker: RunningBroker, text: str
) -> None:
    client = broker.client()
    assert client.subscribe(text) == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert client.rest() == []


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("R/#", ["R", "R/", "R/a", "R/a/b"], ["Ra", "r", "r/a"]),
        ("R/+", ["R/a", "R/"], ["R", "R/a/b", "R/a/"]),
        ("R/+/#", ["R/a", "R/a/b", "R//b/c"], ["R"]),
        ("R/+/b", ["R/a/b", "R//b"], ["R/b", "R/a/c", "R/a/b/c"]),
        ("+/R", ["/R", "a/R"], ["R", "a/b/R", "R/a"]),
        ("/R", ["/R"], ["R", "//R", "/R/"]),
        ("R//", ["R//"], ["R/", "R", "R///"]),
        ("R/Å b", ["R/Å b"], ["R/A\u030a b", "R/Å  b", "R/å b"]),
    ],
)
@pytest.mark.parametrize("retained", [False, True])
def test_mqtt_4_7_3_4_filters_select_by_levels_and_letters(
    broker: RunningBroker, pattern: str, fitting: list[str], other: list[str], retained: bool
) -> None:
    root, client, writer = fresh(), broker.client(), broker.client()
    topics = [each.replace("R", root).replace("r", root.upper()) for each in fitting + other]
    wanted = pattern.replace("R", root)
    if not retained:
        client.subscribe(wanted)
    for topic in topics:
        writer.publish(topic, b"x", retain=retained)
    if retained:
        client.subscribe(wanted)
    seen = [each.topic for each in client.rest() if isinstance(each, Publish)]
    assert sorted(seen) == sorted(topics[: len(fitting)])


def test_mqtt_4_7_2_1_wildcards_at_the_start_do_not_select_dollar_topics(
    broker: RunningBroker,
) -> None:
    client = broker.client()
    client.subscribe(
        *(TopicFilter(each, 2, retain_handling=2) for each in ("#", "+/#", "+/dollar"))
    )
    for qos in (0, 1, 2):
        client.publish("$other/dollar", qos=qos, retain=qos == 1)
    client.subscribe("+/dollar")
    assert client.rest() == []


@pytest.mark.parametrize("packet", ["30 03 0000 00", "82 06 0001 00 0000 00", "a2 05 0001 00 0000"])
def test_mqtt_4_7_3_1_names_and_filters_are_not_empty(broker: RunningBroker, packet: str) -> None:
    assert broker.client().end_reason(packet) in (
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
    )


@pytest.mark.parametrize("packet", ["30 04 0001 00 00", "82 07 0001 00 0001 00 00"])
def test_mqtt_4_7_3_2_names_and_filters_have_no_nul_character(
    broker: RunningBroker, packet: str
) -> None:
    assert broker.client().end_reason(packet) == ReasonCode.MALFORMED_PACKET


def test_mqtt_4_7_3_3_the_longest_name_is_understood(broker: RunningBroker) -> None:
    client = broker.client()
    # It is more than this server takes, and that is an answer and no reason to go.
    assert client.publish("x" * 65_535, qos=1) == ReasonCode.TOPIC_NAME_INVALID
    assert client.subscribe("x" * 65_535) == (ReasonCode.TOPIC_FILTER_INVALID,)
    topic = fresh() + "x" * 4_000
    client.subscribe(topic)
    client.publish(topic)
    assert client.message().topic == topic


@pytest.mark.parametrize(
    "text", ["$share", "$share/", "$share//a", "$share/group", "$share/group/"]
)
def test_mqtt_4_8_2_1_a_shared_filter_has_a_group_and_a_filter(
    broker: RunningBroker, text: str
) -> None:
    client = broker.client()
    assert client.subscribe(text) == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert client.rest() == []


@pytest.mark.parametrize("text", ["$share/a+/b", "$share/+/b", "$share/#", "$share/a#/b"])
def test_mqtt_4_8_2_2_a_group_has_no_wildcards(broker: RunningBroker, text: str) -> None:
    assert broker.client().subscribe(text) == (ReasonCode.TOPIC_FILTER_INVALID,)


def test_each_message_goes_to_one_of_a_group(broker: RunningBroker) -> None:
    topic, writer = fresh(), broker.client()
    group, others = [broker.client() for _ in range(3)], [broker.client() for _ in range(2)]
    for each in group:
        each.subscribe(f"$share/one/{topic}/#")
    others[0].subscribe(f"$share/two/{topic}/#")
    others[1].subscribe(f"{topic}/#")
    sent = [str(number).encode() for number in range(30)]
    for number, payload in enumerate(sent):
        writer.publish(f"{topic}/a", payload, number % 3)
    came = [acknowledged_payloads(each) for each in group]
    assert sorted(payload for some in came for payload in some) == sorted(sent)
    assert all(came)
    assert acknowledged_payloads(others[0]) == sent
    assert acknowledged_payloads(others[1]) == sent


def test_who_shares_and_subscribes_gets_both(broker: RunningBroker) -> None:
    topic, client = fresh(), broker.client()
    client.subscribe(f"$share/group/{topic}", topic)
    client.publish(topic, qos=1)
    assert 1 <= len(acknowledged_payloads(client)) <= 2


def test_a_shared_subscription_is_given_up_by_its_whole_filter(broker: RunningBroker) -> None:
    topic, client = fresh(), broker.client()
    client.subscribe(f"$share/group/{topic}")
    assert client.unsubscribe(topic) == (ReasonCode.NO_SUBSCRIPTION_EXISTED,)
    assert client.unsubscribe(f"$share/group/{topic}") == (ReasonCode.SUCCESS,)
    client.publish(topic, qos=1)
    assert client.rest() == []


def test_retained_messages_do_not_come_with_a_shared_subscription(broker: RunningBroker) -> None:
    topic, client = fresh(), broker.client()
    client.publish(topic, retain=True)
    client.subscribe(f"$share/group/{topic}")
    assert client.rest() == []


@pytest.mark.parametrize("granted", [0, 1, 2])
def test_mqtt_4_8_2_3_a_shared_message_comes_with_the_granted_qos(
    broker: RunningBroker, granted: int
) -> None:
    topic, client = fresh(), broker.client()
    named = Properties(subscription_identifiers=(9,))
    client.subscribe(TopicFilter(f"$share/group/{topic}", granted), properties=named)
    client.publish(topic, qos=2)
    message = client.take()
    assert message.qos == granted
    assert message.properties.subscription_identifiers == (9,)


def begun(broker: RunningBroker, qos: int) -> tuple[RawClient, RawClient, Publish]:
    """Two who share: one that was sent a message and has not acknowledged it, and the other."""
    topic = fresh()
    first = broker.client(expiry=100)
    first.subscribe(f"$share/group/{topic}")
    broker.client().publish(topic, qos=qos)
    message = first.message()
    other = broker.client()
    other.subscribe(f"$share/group/{topic}")
    return first, other, message


def test_mqtt_4_8_2_4_a_shared_message_of_qos_2_that_was_begun_is_completed(
    broker: RunningBroker,
) -> None:
    first, other, message = begun(broker, 2)
    broker.lose(first)
    assert other.rest() == []
    again = broker.client(first.client_id, clean=False).take()
    assert (again.packet_id, again.dup) == (message.packet_id, True)
    assert other.rest() == []


def test_mqtt_4_8_2_5_a_shared_message_of_qos_2_ends_with_the_session(
    broker: RunningBroker,
) -> None:
    first, other, _ = begun(broker, 2)
    broker.lose(first)
    broker.later(101)
    assert not broker.client(first.client_id, clean=False).connack.session_present
    assert other.rest() == []


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_4_8_2_6_a_shared_message_that_was_refused_goes_to_nobody_else(
    broker: RunningBroker, qos: int
) -> None:
    first, other, message = begun(broker, qos)
    refuse = PubAck if qos == 1 else PubRec
    first.send(refuse(message.packet_id, ReasonCode.UNSPECIFIED_ERROR))
    assert first.rest() == []
    assert other.rest() == []
