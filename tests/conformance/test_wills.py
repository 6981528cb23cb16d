"""Chapters 3.1.2.5 to 3.1.3.4: what a client leaves behind."""

import pytest

from nearcast.wire.mqtt import (
    ConnAck,
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

MQTT = "0004 4d515454"


@pytest.fixture
def watcher(broker: RunningBroker) -> RawClient:
    client = broker.client()
    client.subscribe(TopicFilter("wills/#", 2, retain_as_published=True, retain_handling=2))
    return client


def a_will(qos: int = 0, retain: bool = False, delay: int | None = None) -> Will:
    return Will(fresh("wills/"), b"gone", qos, retain, Properties(will_delay_interval=delay))


def test_mqtt_3_1_2_7_a_will_is_published_when_the_client_is_lost(
    broker: RunningBroker, watcher: RawClient
) -> None:
    will = a_will()
    broker.lose(broker.client(will=will))
    message = watcher.take()
    assert (message.topic, message.payload) == (will.topic, b"gone")


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("e0 01 04", id="it says goodbye and wants its will"),
        pytest.param("00 00", id="it sends what is no MQTT"),
        pytest.param("82 02 0001", id="it sends half a packet"),
    ],
)
def test_mqtt_3_1_2_8_a_will_is_published_whatever_ended_the_connection(
    broker: RunningBroker, watcher: RawClient, last: str
) -> None:
    client = broker.client(will=a_will())
    client.send_hex(last)
    assert watcher.take().payload == b"gone"


def test_mqtt_3_1_2_8_a_will_waits_for_its_delay(broker: RunningBroker, watcher: RawClient) -> None:
    will = a_will(delay=50)
    client = broker.client(will=will, expiry=100)
    client.send(Disconnect(ReasonCode.DISCONNECT_WITH_WILL_MESSAGE))
    client.end()
    broker.later(40)
    assert watcher.rest() == []
    broker.later(20)
    assert watcher.take().topic == will.topic
    # The session is still there, and the will is gone from it.
    assert broker.client(client.client_id, clean=False).connack.session_present
    assert watcher.rest() == []


def test_mqtt_3_1_2_8_a_will_does_not_wait_longer_than_its_session(
    broker: RunningBroker, watcher: RawClient
) -> None:
    client = broker.client(will=a_will(delay=500), expiry=100)
    broker.lose(client)
    watcher.rest()
    broker.later(101)
    assert watcher.take().payload == b"gone"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("0001 61 00", id="no topic"),
        pytest.param("0001 61 00 0001 74", id="no payload"),
        pytest.param("0001 61", id="nothing"),
    ],
)
def test_mqtt_3_1_2_9_a_will_has_properties_topic_and_payload(
    broker: RunningBroker, payload: str
) -> None:
    body = f"{MQTT} 05 06 0000 00 {payload}"
    client = broker.open()
    client.send_hex(f"10 {len(bytes.fromhex(body)):02x} {body}")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_3_1_2_10_a_will_is_published_once(broker: RunningBroker, watcher: RawClient) -> None:
    client = broker.client(will=a_will(), expiry=100)
    broker.lose(client)
    watcher.take()
    again = broker.client(client.client_id, clean=False, expiry=100)
    broker.lose(again)
    broker.later(200)
    assert watcher.rest() == []


@pytest.mark.parametrize(
    ("flags", "number"),
    [("0a", "3.1.2-11"), ("12", "3.1.2-11"), ("1e", "3.1.2-12"), ("22", "3.1.2-13")],
)
def test_mqtt_3_1_2_11_and_3_1_2_12_and_3_1_2_13_flags_of_a_will_make_sense(
    broker: RunningBroker, flags: str, number: str
) -> None:
    client = broker.open()
    will = "" if number != "3.1.2-12" else "00 0001 74 0001 70"
    body = f"{MQTT} 05 {flags} 0000 00 0001 61 {will}"
    client.send_hex(f"10 {len(bytes.fromhex(body)):02x} {body}")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_3_1_2_12_a_will_has_the_qos_that_it_was_given(
    broker: RunningBroker, watcher: RawClient, qos: int
) -> None:
    broker.lose(broker.client(will=a_will(qos=qos)))
    assert watcher.take().qos == qos


@pytest.mark.parametrize("retain", [False, True])
def test_mqtt_3_1_2_14_and_3_1_2_15_a_will_is_retained_if_it_says_so(
    broker: RunningBroker, watcher: RawClient, retain: bool
) -> None:
    will = a_will(retain=retain)
    broker.lose(broker.client(will=will))
    assert watcher.take().retain == retain
    late = broker.client()
    late.subscribe(will.topic)
    assert [each.payload for each in late.rest() if isinstance(each, Publish)] == [b"gone"] * retain


def test_mqtt_3_1_3_9_who_comes_back_in_time_leaves_no_will(
    broker: RunningBroker, watcher: RawClient
) -> None:
    client = broker.client(will=a_will(delay=50), expiry=100)
    broker.lose(client)
    broker.later(40)
    broker.client(client.client_id, clean=False, expiry=100)
    broker.later(200)
    assert watcher.rest() == []


def test_mqtt_3_1_3_9_who_takes_over_in_time_leaves_no_will(
    broker: RunningBroker, watcher: RawClient
) -> None:
    client = broker.client(will=a_will(delay=50), expiry=100)
    broker.client(client.client_id, clean=False, expiry=100)
    broker.later(60)
    assert watcher.rest() == []


def test_a_will_without_delay_is_published_when_another_takes_over(
    broker: RunningBroker, watcher: RawClient
) -> None:
    client = broker.client(will=a_will(), expiry=100)
    broker.client(client.client_id, clean=False, expiry=100)
    assert watcher.take().payload == b"gone"


def test_a_delayed_will_is_published_when_its_session_is_forgotten(
    broker: RunningBroker, watcher: RawClient
) -> None:
    client = broker.client(will=a_will(delay=50), expiry=100)
    broker.lose(client)
    broker.client(client.client_id, clean=True)
    assert watcher.take().payload == b"gone"


def test_mqtt_3_1_3_10_the_properties_of_a_will_are_passed_on_in_order(
    broker: RunningBroker, watcher: RawClient
) -> None:
    pairs = (("b", "1"), ("a", "2"), ("b", "3"), ("a", "2"))
    properties = Properties(
        user_properties=pairs,
        content_type="text/plain",
        payload_format_indicator=1,
        response_topic="answers",
        correlation_data=b"\0\1",
        message_expiry_interval=100,
    )
    broker.lose(broker.client(will=Will(fresh("wills/"), b"gone", properties=properties)))
    assert watcher.take().properties == properties


@pytest.mark.parametrize("topic", ["ff", "00", "23", "2b"])
def test_mqtt_3_1_3_11_the_topic_of_a_will_is_a_topic(broker: RunningBroker, topic: str) -> None:
    client = broker.open()
    client.send_hex(f"10 15 {MQTT} 05 06 0000 00 0001 61 00 0001 {topic} 0001 70")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())
