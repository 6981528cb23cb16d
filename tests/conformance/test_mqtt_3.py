"""MQTT 3.1.1 and 3.1: what is different there. Numbers are those of the 3.1.1 specification."""

from collections.abc import Iterator

import pytest

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.broker.config.settings import AuthSection, Settings
from nearcast.wire.mqtt import (
    MQTT_3_1,
    MQTT_3_1_1,
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    TopicFilter,
    Will,
)
from tests.support.clients.raw_client import RawClient, fresh
from tests.support.running_broker import RunningBroker

RULES = """
[[rule]]
permission = "deny"
who = "all"
action = "all"
topics = ["test/nosubscribe"]
"""
MQTT = "0004 4d515454"


@pytest.fixture(scope="module")
def house_with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    data = tmp_path_factory.mktemp("data")
    (data / "rules.toml").write_text(RULES)
    write_users(data / "users.toml", {"ann": Account("ann", hashed(b"secret"))})
    running = RunningBroker(Settings(doors=AuthSection(rules=str(data / "rules.toml"))), data)
    yield running
    running.stop()


@pytest.fixture
def guarded(house_with_rules: RunningBroker) -> Iterator[RunningBroker]:
    yield house_with_rules
    house_with_rules.hang_up()


def old(
    broker: RunningBroker,
    name: str | None = None,
    clean: bool = True,
    will: Will | None = None,
    keep_alive: int = 0,
) -> RawClient:
    """A client of version 3.1.1."""
    return broker.client(name, version=MQTT_3_1_1, clean=clean, will=will, keep_alive=keep_alive)


def test_mqtt3_3_1_0_1_anything_but_connect_at_first_ends_the_connection(
    broker: RunningBroker,
) -> None:
    client = broker.open(MQTT_3_1_1)
    client.send(PingReq())
    assert client.end() == []


def test_mqtt3_3_1_0_2_a_second_connect_ends_the_connection_without_a_word(
    broker: RunningBroker,
) -> None:
    client = old(broker)
    client.send(Connect(client.client_id, MQTT_3_1_1))
    assert client.end() == []


@pytest.mark.parametrize("version", ["00", "06", "84"])
def test_mqtt3_3_1_2_2_an_unknown_version_is_answered_with_return_code_1(
    broker: RunningBroker, version: str
) -> None:
    client = broker.open(MQTT_3_1_1)
    client.send_hex(f"10 0d {MQTT} {version} 02 0000 0001 61")
    client.end()
    assert client.raw == b"\x20\x02\x00\x01"


def test_mqtt3_3_1_2_3_the_reserved_flag_must_be_0(broker: RunningBroker) -> None:
    client = broker.open(MQTT_3_1_1)
    client.send_hex(f"10 0d {MQTT} 04 03 0000 0001 61")
    assert client.end() == []


def test_mqtt3_3_1_2_4_without_a_clean_session_it_is_kept(broker: RunningBroker) -> None:
    topic, first = fresh(), old(broker, clean=False)
    first.subscribe(topic)
    first.send(Disconnect())
    first.end()
    old(broker).publish(topic, b"missed", 1)
    broker.later(1_000_000)
    again = old(broker, first.client_id, clean=False)
    assert again.connack.session_present
    assert again.take().payload == b"missed"


def test_mqtt3_3_1_2_6_a_clean_session_forgets_what_was_and_is_forgotten(
    broker: RunningBroker,
) -> None:
    topic, first = fresh(), old(broker, clean=False)
    first.subscribe(topic)
    broker.lose(first)
    second = old(broker, first.client_id, clean=True)
    assert not second.connack.session_present
    second.subscribe(topic)
    broker.lose(second)
    assert not old(broker, first.client_id, clean=False).connack.session_present


def test_mqtt3_3_1_2_22_a_password_needs_a_user_name(broker: RunningBroker) -> None:
    client = broker.open(MQTT_3_1_1)
    client.send_hex(f"10 10 {MQTT} 04 42 0000 0001 61 0001 62")
    assert client.end() == []


def test_mqtt3_3_1_2_24_a_silent_client_is_lost_and_leaves_its_will(
    broker: RunningBroker,
) -> None:
    topic, watcher = fresh(), broker.client()
    watcher.subscribe(topic)
    client = old(broker, will=Will(topic, b"silent"), keep_alive=100)
    broker.later(151)
    assert client.end() == []
    assert watcher.take().payload == b"silent"


def test_mqtt3_3_1_3_7_and_8_without_an_identifier_a_session_must_be_clean(
    broker: RunningBroker,
) -> None:
    client = broker.open(MQTT_3_1_1)
    client.send(Connect("", MQTT_3_1_1, clean_start=False))
    client.end()
    assert client.raw == b"\x20\x02\x00\x02"
    assert old(broker, "").rest() == []


def test_mqtt3_3_1_4_2_a_newcomer_takes_over_without_a_word(broker: RunningBroker) -> None:
    first = old(broker)
    second = old(broker, first.client_id)
    assert first.end() == []
    assert second.rest() == []


def test_mqtt3_3_2_2_return_codes_are_those_of_this_version(guarded: RunningBroker) -> None:
    refused = {
        Connect("a", MQTT_3_1_1, username="nobody", password=b"x"): 4,
        Connect("a", MQTT_3_1_1, will=Will("test/nosubscribe")): 5,
        Connect("me", MQTT_3_1_1): 2,
    }
    for packet, code in refused.items():
        client = guarded.open(MQTT_3_1_1)
        client.send(packet)
        client.end()
        assert client.raw == bytes([0x20, 2, 0, code])


def test_mqtt3_3_2_2_an_answer_has_no_more_than_two_bytes(broker: RunningBroker) -> None:
    first = old(broker, clean=False)
    second = old(broker, first.client_id, clean=False)
    assert (first.raw, second.raw) == (b"\x20\x02\x00\x00", b"\x20\x02\x01\x00")


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_3_3_5_what_a_rule_forbids_is_acknowledged_and_dropped(
    guarded: RunningBroker, qos: int
) -> None:
    watcher, client = guarded.client(), old(guarded)
    assert watcher.subscribe("test/+") == (ReasonCode.NOT_AUTHORIZED,)
    assert client.publish("test/nosubscribe", b"x", qos) == ReasonCode.SUCCESS
    assert client.rest() == []


def test_mqtt3_3_9_3_a_filter_that_is_refused_is_answered_with_0x80(
    guarded: RunningBroker,
) -> None:
    wanted = (TopicFilter("test/nosubscribe", 2), TopicFilter("test/other", 1))
    client = old(guarded)
    assert client.subscribe(*wanted) == (0x80, 1)
    assert client.raw.endswith(b"\x90\x04\x00\x01\x80\x01")
    assert guarded.client().subscribe(*wanted) == (ReasonCode.NOT_AUTHORIZED, 1)


@pytest.mark.parametrize("options", ["03", "04", "80"])
def test_mqtt3_3_8_3_4_other_bits_than_the_qos_end_the_connection(
    broker: RunningBroker, options: str
) -> None:
    client = old(broker)
    client.send_hex(f"82 06 0001 0001 61 {options}")
    assert client.end() == []


def test_mqtt3_3_8_4_3_subscribing_again_brings_retained_messages_again(
    broker: RunningBroker,
) -> None:
    client, topic = old(broker), fresh()
    client.publish(topic, b"kept", retain=True)
    for _ in range(2):
        client.subscribe(topic)
        message = client.take()
        assert (message.payload, message.retain) == (b"kept", True)


def test_mqtt3_3_10_4_an_unsuback_has_no_reasons(broker: RunningBroker) -> None:
    client = old(broker)
    assert client.unsubscribe(fresh()) == ()
    assert client.raw.endswith(b"\xb0\x02\x00\x01")


def test_mqtt3_3_14_the_server_never_sends_a_disconnect(broker: RunningBroker) -> None:
    for broken in ("00 00", "c1 00", "30 03 0001 23", "f0 00", "82 02 0001"):
        client = old(broker)
        client.send_hex(broken)
        assert client.end() == []


def test_mqtt3_4_3_answers_have_no_reasons(broker: RunningBroker) -> None:
    client, topic = old(broker), fresh()
    client.send(Publish(topic, b"", 1, packet_id=1), Publish(topic, b"", 2, packet_id=2))
    client.send(PubRel(2), PubRec(77), PubRel(78))
    assert client.rest() == [PubAck(1), PubRec(2), PubComp(2), PubRel(77), PubComp(78)]
    assert b"\x40\x02\x00\x01\x50\x02\x00\x02" in client.raw


@pytest.mark.parametrize("version", [MQTT_3_1, MQTT_3_1_1])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_pass_between_the_versions(broker: RunningBroker, version: int, qos: int) -> None:
    topic = fresh()
    older, newer = broker.client(version=version), broker.client()
    for each in (older, newer):
        each.subscribe(topic)
    older.publish(topic, b"old", qos)
    newer.publish(topic, b"new", qos)
    for each in (older, newer):
        messages = [each.take() for _ in range(2)]
        assert [(m.payload, m.qos) for m in messages] == [(b"old", qos), (b"new", qos)]


def test_version_3_1_is_let_in_by_its_own_name(broker: RunningBroker) -> None:
    client = broker.open(MQTT_3_1)
    client.send_hex("10 0f 0006 4d5149736470 03 02 0000 0001 7a")
    assert client.expect(ConnAck) == ConnAck()
    assert client.raw == b"\x20\x02\x00\x00"


def test_version_3_1_needs_an_identifier(broker: RunningBroker) -> None:
    client = broker.open(MQTT_3_1)
    client.send_hex("10 0e 0006 4d5149736470 03 02 0000 0000")
    client.end()
    assert client.raw == b"\x20\x02\x00\x02"
