"""Chapter 3.3.2.3: the properties of PUBLISH."""

import pytest

from nearcast.wire.mqtt import Properties, Publish, ReasonCode
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker

TEXT = "78"


def passed_on(broker: RunningBroker, properties: Properties, qos: int = 0) -> Properties:
    """What two subscribers see of the properties of a message: the same."""
    one, other, topic = broker.client(), broker.client(), fresh()
    for each in (one, other):
        each.subscribe(f"{topic}/#")
    broker.client().publish(topic, b"x", qos, properties=properties)
    seen = one.take().properties
    assert seen == other.take().properties
    return seen


def publish(properties: str) -> str:
    """A PUBLISH with these properties, as hexadecimal bytes."""
    raw = bytes.fromhex(properties)
    return f"30 {5 + len(raw):02x} 0001 61 {len(raw):02x} {properties} {TEXT}"


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("indicator", [0, 1])
def test_mqtt_3_3_2_4_the_payload_format_is_passed_on(
    broker: RunningBroker, qos: int, indicator: int
) -> None:
    properties = Properties(payload_format_indicator=indicator)
    assert passed_on(broker, properties, qos) == properties


def test_a_payload_that_is_not_the_text_it_is_said_to_be_is_refused(
    broker: RunningBroker,
) -> None:
    properties = Properties(payload_format_indicator=1)
    for qos in (1, 2):
        answer = broker.client().publish(fresh(), b"\xff", qos, properties=properties)
        assert answer == ReasonCode.PAYLOAD_FORMAT_INVALID


@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt_3_3_2_5_a_message_that_waited_too_long_is_not_delivered(
    broker: RunningBroker, qos: int
) -> None:
    topic, writer = fresh(), broker.client()
    reader = broker.client(expiry=1_000)
    reader.subscribe(topic)
    broker.lose(reader)
    writer.publish(topic, b"short", qos, properties=Properties(message_expiry_interval=50))
    writer.publish(topic, b"long", qos, properties=Properties(message_expiry_interval=500))
    broker.later(51)
    again = broker.client(reader.client_id, clean=False)
    assert again.take().payload == b"long"
    assert again.rest() == []


def test_mqtt_3_3_2_5_a_retained_message_that_has_expired_is_not_delivered(
    broker: RunningBroker,
) -> None:
    topic, writer = fresh(), broker.client()
    limit = Properties(message_expiry_interval=50)
    writer.publish(topic, b"x", retain=True, properties=limit)
    broker.later(40)
    early, late = broker.client(), broker.client()
    early.subscribe(topic)
    assert early.message().retain
    broker.later(11)
    late.subscribe(topic)
    assert late.rest() == []


@pytest.mark.parametrize("expiry", [1, 60, 0xFFFF_FFFF])
def test_a_message_that_did_not_wait_has_all_its_time(broker: RunningBroker, expiry: int) -> None:
    topic, reader = fresh(), broker.client()
    reader.subscribe(topic)
    broker.client().publish(topic, b"x", 1, properties=Properties(message_expiry_interval=expiry))
    assert reader.take().properties.message_expiry_interval == expiry


@pytest.mark.parametrize("retain", [False, True])
def test_mqtt_3_3_2_6_the_time_that_a_message_waited_is_subtracted(
    broker: RunningBroker, retain: bool
) -> None:
    topic, writer = fresh(), broker.client()
    reader = broker.client(expiry=1_000)
    if not retain:
        reader.subscribe(topic)
    broker.lose(reader)
    limit = Properties(message_expiry_interval=500)
    writer.publish(topic, b"x", 1, retain, limit)
    broker.later(200)
    again = broker.client(reader.client_id, clean=False)
    if retain:
        again.subscribe(topic)
    left = again.take().properties.message_expiry_interval
    assert left is not None
    assert 290 <= left <= 300


def test_mqtt_3_3_2_7_a_topic_alias_ends_with_its_connection(broker: RunningBroker) -> None:
    topic, name = fresh(), fresh("client")
    first = broker.client(name, expiry=100)
    first.publish(topic, qos=1, properties=Properties(topic_alias=1))
    broker.lose(first)
    again = broker.client(name, clean=False)
    again.send(Publish("").with_(Properties(topic_alias=1)))
    assert again.end_reason() == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_3_2_7_the_server_says_a_topic_again_on_a_new_connection(
    broker: RunningBroker,
) -> None:
    topic, allowed = fresh(), Properties(topic_alias_maximum=10)
    first = broker.client(expiry=100, properties=allowed)
    first.subscribe(topic)
    broker.client().publish(topic, qos=1)
    assert first.message().topic == topic
    broker.lose(first)
    again = broker.client(first.client_id, clean=False, properties=allowed)
    assert again.take().topic == topic


@pytest.mark.parametrize(
    ("alias", "number"), [(0, "3.3.2-8"), (65, "3.3.2-9"), (65_535, "3.3.2-9")]
)
def test_mqtt_3_3_2_8_and_3_3_2_9_a_topic_alias_out_of_range_ends_the_connection(
    broker: RunningBroker, alias: int, number: str
) -> None:
    client = broker.client()
    assert client.connack.properties.topic_alias_maximum == 64
    client.send_hex(publish(f"23 {alias:04x}"))
    assert client.end_reason() == ReasonCode.TOPIC_ALIAS_INVALID


def test_mqtt_3_3_2_11_the_server_uses_as_many_topic_aliases_as_it_may(
    broker: RunningBroker,
) -> None:
    root, writer = fresh(), broker.client()
    reader = broker.client(properties=Properties(topic_alias_maximum=1))
    reader.subscribe(f"{root}/#")
    seen = []
    for name in ("a", "a", "b", "a", "b"):
        writer.publish(f"{root}/{name}")
        message = reader.message()
        seen.append((message.topic.removeprefix(root), message.properties.topic_alias))
    assert seen == [("/a", 1), ("", 1), ("/b", None), ("", 1), ("/b", None)]


def test_mqtt_3_3_2_12_all_topic_aliases_that_were_offered_work(broker: RunningBroker) -> None:
    client, root = broker.client(), fresh()
    client.subscribe(f"{root}/#")
    most = client.connack.properties.topic_alias_maximum
    assert most is not None
    for alias in range(1, most + 1):
        client.publish(f"{root}/{alias}", properties=Properties(topic_alias=alias))
        client.publish("", qos=alias % 3, properties=Properties(topic_alias=alias))
    topics = [client.take().topic for _ in range(2 * most)]
    assert topics == [f"{root}/{alias}" for alias in range(1, most + 1) for _ in range(2)]


def test_a_topic_alias_can_be_given_another_topic(broker: RunningBroker) -> None:
    client, root = broker.client(), fresh()
    client.subscribe(f"{root}/#")
    alias = Properties(topic_alias=3)
    for topic in (f"{root}/a", "", f"{root}/b", ""):
        client.publish(topic, properties=alias)
    messages = [client.message() for _ in range(4)]
    assert [each.topic[-1] for each in messages] == ["a", "a", "b", "b"]
    assert all(each.properties.topic_alias is None for each in messages)


@pytest.mark.parametrize("topic", ["ff", "00"])
def test_mqtt_3_3_2_13_a_response_topic_that_is_no_text_ends_the_connection(
    broker: RunningBroker, topic: str
) -> None:
    client = broker.client()
    client.send_hex(publish(f"08 0001 {topic}"))
    assert client.end_reason() == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("topic", ["23", "2b"])
def test_mqtt_3_3_2_14_a_response_topic_with_a_wildcard_ends_the_connection(
    broker: RunningBroker, topic: str
) -> None:
    client = broker.client()
    client.send_hex(publish(f"08 0001 {topic}"))
    assert client.end_reason() == ReasonCode.PROTOCOL_ERROR


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_2_15_and_3_3_2_16_a_request_says_where_its_answer_goes(
    broker: RunningBroker, qos: int
) -> None:
    properties = Properties(response_topic="answers/me", correlation_data=b"\0\xff\1")
    assert passed_on(broker, properties, qos) == properties


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_2_17_and_3_3_2_18_user_properties_are_passed_on_in_order(
    broker: RunningBroker, qos: int
) -> None:
    pairs = (("b", "1"), ("a", "ä" * 100), ("b", ""), ("", "4"), ("a", "2"), ("b", "1"))
    properties = Properties(user_properties=pairs)
    assert passed_on(broker, properties, qos) == properties
    mixed = Properties(user_properties=pairs, content_type="x", payload_format_indicator=0)
    assert passed_on(broker, mixed, qos) == mixed


def test_mqtt_3_3_2_19_a_content_type_that_is_no_text_ends_the_connection(
    broker: RunningBroker,
) -> None:
    client = broker.client()
    client.send_hex(publish("03 0001 ff"))
    assert client.end_reason() == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_3_2_20_the_content_type_is_passed_on(broker: RunningBroker, qos: int) -> None:
    properties = Properties(content_type="application/json; schema=ü")
    assert passed_on(broker, properties, qos) == properties


def test_retained_messages_keep_their_properties(broker: RunningBroker) -> None:
    properties = Properties(
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic="answers",
        correlation_data=b"7",
        user_properties=(("b", "1"), ("a", "2"), ("b", "3")),
    )
    topic, late = fresh(), broker.client()
    broker.client().publish(topic, b"x", 1, True, properties)
    late.subscribe(topic)
    assert late.take().properties == properties
