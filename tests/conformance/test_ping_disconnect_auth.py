"""Chapters 3.12 to 3.15: PINGREQ, DISCONNECT and AUTH."""

import pytest

from nearcast.broker.config.settings import Settings, ShutdownSection
from nearcast.wire.mqtt import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    Properties,
    Publish,
    ReasonCode,
    Will,
)
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker


def test_mqtt_3_12_4_1_a_pingreq_is_answered(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(PingReq(), PingReq())
    client.expect(PingResp)
    client.expect(PingResp)
    assert client.raw.endswith(b"\xd0\x00\xd0\x00")


def test_mqtt_3_14_0_1_who_is_not_let_in_gets_no_disconnect(broker: RunningBroker) -> None:
    refused = Connect(fresh("client"), properties=Properties(authentication_method="none such"))
    for packet in (refused, PingReq(), b"\x10\x02\x00\x00", b"\xff\x00"):
        client = broker.open()
        client.send(packet)
        assert not any(isinstance(each, Disconnect) for each in client.end())


@pytest.mark.parametrize("first", ["e1", "e2", "e8", "ef"])
def test_mqtt_3_14_1_1_the_flags_of_a_disconnect_are_checked(
    broker: RunningBroker, first: str
) -> None:
    client = broker.client()
    client.send_hex(f"{first} 00")
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("code", ["01", "8c", "91", "ff"])
def test_mqtt_3_14_2_1_a_disconnect_with_an_unknown_reason_is_an_error(
    broker: RunningBroker, code: str
) -> None:
    client = broker.client()
    client.send_hex(f"e0 01 {code}")
    (last,) = client.end()
    # The decoder takes none of the server's but those that are listed.
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR


def test_mqtt_3_14_2_2_the_server_says_nothing_of_how_long_a_session_lasts(
    broker: RunningBroker,
) -> None:
    client = broker.client(expiry=100)
    broker.client(client.client_id)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.properties.session_expiry_interval is None


def test_mqtt_3_14_2_3_a_disconnect_is_not_larger_than_the_client_takes(
    broker: RunningBroker,
) -> None:
    client = broker.client(properties=Properties(maximum_packet_size=30))
    client.send_hex("30 05 0002 c328 00")
    (last,) = client.end()
    assert last == Disconnect(ReasonCode.MALFORMED_PACKET)


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_mqtt_3_14_4_1_and_3_14_4_2_a_disconnect_is_the_last_packet(
    broker: RunningBroker, qos: int, retain: bool
) -> None:
    client, topic = broker.client(), fresh()
    client.subscribe(topic)
    # Messages and answers that are under way when the connection is ended.
    client.send(Publish(topic, b"x", qos, retain, packet_id=9 if qos else 0), b"\0\0")
    packets = client.end()
    assert isinstance(packets[-1], Disconnect)
    assert sum(isinstance(each, Disconnect) for each in packets) == 1


def test_what_follows_a_disconnect_of_the_client_is_not_done(broker: RunningBroker) -> None:
    client, topic, watcher = broker.client(), fresh(), broker.client()
    watcher.subscribe(topic)
    client.send(Disconnect(), Publish(topic, b"too late", 1, packet_id=1))
    assert client.end() == []
    assert watcher.rest() == []


def test_mqtt_3_14_4_3_who_says_goodbye_leaves_no_will(broker: RunningBroker) -> None:
    topic, watcher = fresh(), broker.client()
    watcher.subscribe(topic)
    for delay in (None, 10):
        will = Will(topic, b"gone", properties=Properties(will_delay_interval=delay))
        client = broker.client(will=will, expiry=100)
        client.send(Disconnect())
        assert client.end() == []
        broker.later(200)
        assert watcher.rest() == []


def test_a_disconnect_can_change_how_long_a_session_lasts(broker: RunningBroker) -> None:
    longer, shorter = broker.client(expiry=10), broker.client(expiry=1_000)
    longer.send(Disconnect(properties=Properties(session_expiry_interval=1_000)))
    shorter.send(Disconnect(properties=Properties(session_expiry_interval=10)))
    longer.end()
    shorter.end()
    broker.later(500)
    assert broker.client(longer.client_id, clean=False).connack.session_present
    assert not broker.client(shorter.client_id, clean=False).connack.session_present


def test_a_disconnect_cannot_prolong_a_session_that_was_to_end(broker: RunningBroker) -> None:
    client = broker.client()
    client.send(Disconnect(properties=Properties(session_expiry_interval=100)))
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR
    assert not broker.client(client.client_id, clean=False).connack.session_present


@pytest.mark.parametrize("redirect", ["", "other.example:1883"])
def test_a_server_that_stops_says_goodbye_and_where_else_to_go(redirect: str) -> None:
    broker = RunningBroker(Settings(shutdown=ShutdownSection(redirect=redirect)))
    client, old = broker.client(), broker.client(version=4)
    broker.shut_down()
    (last,) = client.end()
    assert old.end() == []
    broker.hang_up()
    assert isinstance(last, Disconnect)
    if redirect:
        assert last.reason_code == ReasonCode.USE_ANOTHER_SERVER
        assert last.properties.server_reference == redirect
    else:
        assert last.reason_code == ReasonCode.SERVER_SHUTTING_DOWN


@pytest.mark.parametrize("first", ["f1", "f2", "f8"])
def test_mqtt_3_15_1_1_the_flags_of_an_auth_are_checked(broker: RunningBroker, first: str) -> None:
    client = broker.client()
    client.send_hex(f"{first} 00")
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.MALFORMED_PACKET


def test_mqtt_3_15_2_1_an_auth_with_an_unknown_reason_is_an_error(broker: RunningBroker) -> None:
    client = broker.client()
    client.send_hex("f0 02 01 00")
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR


def test_mqtt_4_12_0_1_and_4_12_0_4_a_method_that_is_not_offered_is_refused(
    broker: RunningBroker,
) -> None:
    client = broker.open()
    asked = Properties(authentication_method="SCRAM-SHA-256", authentication_data=b"x")
    answer = client.connect(Connect(fresh("client"), properties=asked))
    assert answer.reason_code == ReasonCode.BAD_AUTHENTICATION_METHOD
    assert client.end() == []


def test_data_without_a_method_is_an_error(broker: RunningBroker) -> None:
    client = broker.open()
    client.send_hex("10 12 0004 4d515454 05 02 0000 04 16 0001 78 0001 61")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_4_12_0_6_who_names_no_method_hears_of_none(broker: RunningBroker) -> None:
    client = broker.client()
    assert client.connack.properties.authentication_method is None
    assert client.rest() == []


@pytest.mark.parametrize("code", [ReasonCode.CONTINUE_AUTHENTICATION, ReasonCode.RE_AUTHENTICATE])
def test_mqtt_4_12_0_7_and_4_12_1_2_an_auth_where_none_was_begun_ends_the_connection(
    broker: RunningBroker, code: ReasonCode
) -> None:
    client = broker.client()
    client.send(Auth(code, Properties(authentication_method="x")))
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PROTOCOL_ERROR
