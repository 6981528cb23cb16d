"""Chapter 3.1: CONNECT. Wills are in `test_wills`, what answers it in `test_connack`."""

import pytest

from nearcast.wire.mqtt import (
    NO_PROPERTIES,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    Publish,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
)
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker

MQTT = "0004 4d515454"


def test_mqtt_3_1_0_1_anything_but_connect_at_first_ends_the_connection(
    broker: RunningBroker,
) -> None:
    for packet in (PingReq(), Publish("a"), Subscribe(1, (TopicFilter("a"),)), Disconnect()):
        client = broker.open()
        client.send(packet)
        assert client.end() == []


def test_mqtt_3_1_0_2_a_second_connect_ends_the_connection(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Connect(client.client_id))
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_1_2_1_another_protocol_name_is_refused(broker: RunningBroker) -> None:
    # It is not known which version would be understood: the oldest is.
    client = broker.open(4)
    client.send_hex("10 0e 0004 4d515458 05 02 0000 00 0001 61")
    assert client.end() == [ConnAck(False, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)]


@pytest.mark.parametrize("version", ["00", "02", "06", "ff"])
def test_mqtt_3_1_2_2_another_protocol_version_is_refused(
    broker: RunningBroker, version: str
) -> None:
    client = broker.open(4)
    client.send_hex(f"10 0e {MQTT} {version} 02 0000 00 0001 61")
    assert client.end() == [ConnAck(False, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)]


def test_mqtt_3_1_2_3_the_reserved_flag_must_be_0(broker: RunningBroker) -> None:
    client = broker.open()
    client.send_hex(f"10 0e {MQTT} 05 03 0000 00 0001 61")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_3_1_2_4_a_clean_start_forgets_what_was(broker: RunningBroker) -> None:
    topic, writer = fresh(), broker.client()
    first = broker.client(expiry=100)
    first.subscribe(topic)
    first.send(Disconnect())
    first.end()
    writer.publish(topic, qos=1)
    second = broker.client(first.client_id, clean=True, expiry=100)
    assert not second.connack.session_present
    writer.publish(topic, qos=1)
    assert second.rest() == []


def test_mqtt_3_1_2_5_without_a_clean_start_a_session_goes_on(broker: RunningBroker) -> None:
    topic, writer = fresh(), broker.client()
    first = broker.client(expiry=100)
    first.subscribe(topic)
    first.send(Disconnect())
    first.end()
    writer.publish(topic, b"missed", qos=1)
    second = broker.client(first.client_id, clean=False, expiry=100)
    assert second.connack.session_present
    assert second.take().payload == b"missed"
    writer.publish(topic, b"new", qos=0)
    assert second.take().payload == b"new"


def test_mqtt_3_1_2_6_without_a_clean_start_and_a_session_there_is_a_new_one(
    broker: RunningBroker,
) -> None:
    client = broker.client(clean=False)
    assert not client.connack.session_present
    assert client.rest() == []


@pytest.mark.parametrize(
    ("flags", "payload"),
    [
        pytest.param("02", "0001 61 0001 62", id="MQTT-3.1.2-16 a user name without its flag"),
        pytest.param("82", "0001 61", id="MQTT-3.1.2-17 a flag without its user name"),
        pytest.param(
            "82", "0001 61 0001 62 0001 63", id="MQTT-3.1.2-18 a password without its flag"
        ),
        pytest.param("42", "0001 61", id="MQTT-3.1.2-19 a flag without its password"),
    ],
)
def test_mqtt_3_1_2_16_and_3_1_2_17_and_3_1_2_18_and_3_1_2_19_flags_and_fields_agree(
    broker: RunningBroker, flags: str, payload: str
) -> None:
    body = f"{MQTT} 05 {flags} 0000 00 {payload}"
    client = broker.open()
    client.send_hex(f"10 {len(bytes.fromhex(body)):02x} {body}")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_3_1_2_22_a_silent_client_is_disconnected(broker: RunningBroker) -> None:
    client = broker.client(keep_alive=100)
    broker.later(140)
    assert client.rest() == []
    broker.later(151)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.KEEP_ALIVE_TIMEOUT


def test_a_keep_alive_of_0_is_none(broker: RunningBroker) -> None:
    client, other = broker.client(keep_alive=0), broker.client(keep_alive=1)
    broker.later(1_000_000)
    other.end()
    assert client.rest() == []


def test_mqtt_3_1_2_23_a_session_is_kept_until_it_expires(broker: RunningBroker) -> None:
    topic = fresh()
    first = broker.client(expiry=100)
    first.subscribe(topic)
    broker.lose(first)
    broker.later(90)
    second = broker.client(first.client_id, clean=False, expiry=100)
    assert second.connack.session_present
    broker.client().publish(topic, b"kept")
    assert second.take().payload == b"kept"


def test_mqtt_3_1_2_24_and_3_1_2_25_what_is_too_large_for_a_client_is_dropped(
    broker: RunningBroker,
) -> None:
    reader = broker.client(properties=Properties(maximum_packet_size=60, receive_maximum=1))
    writer, topic = broker.client(), fresh()
    reader.subscribe(topic)
    for qos in (0, 1, 2):
        writer.publish(topic, b"x" * 100, qos)
        writer.publish(topic, b"small", qos)
    # What was dropped counts as sent: it holds up nothing behind it.
    assert [(m.payload, m.qos) for m in (reader.take() for _ in range(3))] == [
        (b"small", 0),
        (b"small", 1),
        (b"small", 2),
    ]
    assert reader.rest() == []


def test_mqtt_3_1_2_26_topic_aliases_stay_within_what_the_client_allows(
    broker: RunningBroker,
) -> None:
    reader = broker.client(properties=Properties(topic_alias_maximum=2))
    root, writer = fresh(), broker.client()
    reader.subscribe(f"{root}/#")
    for _ in range(2):
        for number in range(5):
            writer.publish(f"{root}/{number}", qos=1)
    aliases = [reader.take().properties.topic_alias for _ in range(10)]
    assert {each for each in aliases if each is not None} <= {1, 2}


@pytest.mark.parametrize("most", [None, 0])
def test_mqtt_3_1_2_27_without_permission_there_are_no_topic_aliases(
    broker: RunningBroker, most: int | None
) -> None:
    client, topic = broker.client(properties=Properties(topic_alias_maximum=most)), fresh()
    client.subscribe(topic)
    for qos in (0, 1, 2):
        client.publish(topic, qos=qos)
        message = client.take()
        assert (message.topic, message.properties.topic_alias) == (topic, None)


@pytest.mark.parametrize("asked", [None, False])
def test_mqtt_3_1_2_28_response_information_is_not_given_unasked(
    broker: RunningBroker, asked: bool | None
) -> None:
    client = broker.client(properties=Properties(request_response_information=asked))
    assert client.connack.properties.response_information is None


def test_mqtt_3_1_2_29_reasons_are_not_explained_to_who_does_not_want_to_know(
    broker: RunningBroker,
) -> None:
    client = broker.client(properties=Properties(request_problem_information=False))
    client.send(Publish("$nothing", qos=1, packet_id=1))
    refused = client.expect(PubAck)
    assert refused.reason_code.failed
    assert refused.properties == NO_PROPERTIES
    client.send(Subscribe(2, (TopicFilter("a/#/b"),)))
    answer = client.expect(SubAck)
    assert answer.reason_codes == (ReasonCode.TOPIC_FILTER_INVALID,)
    assert answer.properties == NO_PROPERTIES


def test_mqtt_3_1_3_1_fields_in_another_order_are_not_understood(broker: RunningBroker) -> None:
    # The will's topic before its properties: then the lengths do not fit.
    client = broker.open()
    client.send_hex(f"10 16 {MQTT} 05 06 0000 00 0001 61 0002 6262 00 0001 63")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_3_1_3_2_a_session_belongs_to_its_client_identifier(broker: RunningBroker) -> None:
    name = fresh("client")
    broker.client(name, expiry=100).send(Disconnect())
    assert not broker.client(f"{name}x", clean=False).connack.session_present
    assert not broker.client(name.upper(), clean=False).connack.session_present
    assert broker.client(name, clean=False).connack.session_present


def test_mqtt_3_1_3_3_a_connect_without_a_client_identifier_field_is_refused(
    broker: RunningBroker,
) -> None:
    client = broker.open()
    client.send_hex(f"10 0b {MQTT} 05 02 0000 00")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


@pytest.mark.parametrize("text", ["ff", "00"])
def test_mqtt_3_1_3_4_a_client_identifier_that_is_no_text_is_refused(
    broker: RunningBroker, text: str
) -> None:
    client = broker.open()
    client.send_hex(f"10 0e {MQTT} 05 02 0000 00 0001 {text}")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


@pytest.mark.parametrize(
    "name", ["0", "abcdefghijklmnopqrstuvw", "xyzABCDEFGHIJKLMNOPQRST", "UVWXYZ1"]
)
def test_mqtt_3_1_3_5_letters_and_digits_are_a_client_identifier(
    broker: RunningBroker, name: str
) -> None:
    client = broker.client(name)
    assert client.rest() == []
    assert client.connack.properties.assigned_client_identifier is None


def test_mqtt_3_1_3_6_and_3_1_3_7_who_brings_no_client_identifier_gets_one(
    broker: RunningBroker,
) -> None:
    one, other = broker.client("", expiry=100), broker.client("")
    given = one.connack.properties.assigned_client_identifier
    assert given
    assert given != other.connack.properties.assigned_client_identifier
    broker.lose(one)
    assert broker.client(given, clean=False).connack.session_present


def test_mqtt_3_1_4_1_a_connect_that_is_too_long_is_refused(broker: RunningBroker) -> None:
    client = broker.open()
    client.send_hex(f"10 0f {MQTT} 05 02 0000 00 0001 61 ff")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_3_1_4_3_a_newcomer_takes_over_from_who_has_its_client_identifier(
    broker: RunningBroker,
) -> None:
    first = broker.client()
    second = broker.client(first.client_id)
    (last,) = first.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.SESSION_TAKEN_OVER
    assert second.rest() == []


def test_mqtt_3_1_4_4_a_newcomer_goes_on_with_the_session_or_starts_anew(
    broker: RunningBroker,
) -> None:
    first = broker.client(expiry=100)
    second = broker.client(first.client_id, clean=False, expiry=100)
    third = broker.client(first.client_id, clean=True, expiry=100)
    assert second.connack.session_present
    assert not third.connack.session_present


def test_mqtt_3_1_4_5_who_is_let_in_is_told_so(broker: RunningBroker) -> None:
    client = broker.open()
    answer = client.connect(Connect(fresh("client")))
    assert answer.reason_code == ReasonCode.SUCCESS


def test_a_client_need_not_wait_for_the_answer(broker: RunningBroker) -> None:
    client, topic = broker.open(), fresh()
    client.send(
        Connect(fresh("client")),
        Subscribe(1, (TopicFilter(topic, 1),)),
        Publish(topic, b"early", 1, packet_id=2),
        PingReq(),
    )
    client.expect(ConnAck)
    client.expect(SubAck)
    assert client.wait_for(Publish).payload == b"early"
    client.wait_for(PubAck)
    client.wait_for(PingResp)


def test_mqtt_3_1_4_6_what_follows_a_connect_that_is_refused_is_not_done(
    broker: RunningBroker,
) -> None:
    topic, watcher = fresh(), broker.client()
    watcher.subscribe(topic)
    client = broker.open()
    refused = Connect(fresh("client"), properties=Properties(authentication_method="none such"))
    client.send(refused, Publish(topic, b"sneaked in", 1, packet_id=1))
    (answer,) = client.end()
    assert isinstance(answer, ConnAck)
    assert answer.reason_code.failed
    assert watcher.rest() == []
