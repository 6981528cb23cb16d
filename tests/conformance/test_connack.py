"""Chapter 3.2: CONNACK, and who is let in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.broker.auth.credentials.passwords import hashed
from nearcast.broker.auth.credentials.users_file import Account, write_users
from nearcast.broker.config.settings import AuthSection, Limits, Settings
from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    Properties,
    Publish,
    ReasonCode,
    Subscribe,
    TopicFilter,
    Will,
)
from tests.support.clients.raw_client import fresh
from tests.support.running_broker import RunningBroker

MQTT = "0004 4d515454"
RULES = """
[[rule]]
permission = "deny"
who = "all"
action = "publish"
topics = ["forbidden"]
"""


@pytest.fixture(scope="module")
def strict_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker with a user, rules, a store, and small limits."""
    data = tmp_path_factory.mktemp("data")
    Path(data, "rules.toml").write_text(RULES)
    write_users(data / "users.toml", {"ann": Account("ann", hashed(b"secret"))})
    settings = Settings(
        doors=AuthSection(rules=str(data / "rules.toml")),
        limits=Limits(keep_alive_s=60, session_expiry_s=100, receive_maximum=5, topic_aliases=3),
    )
    running = RunningBroker(settings, data)
    yield running
    running.stop()


@pytest.fixture
def strict(strict_house: RunningBroker) -> Iterator[RunningBroker]:
    yield strict_house
    strict_house.hang_up()


def test_mqtt_3_1_2_17_and_3_1_2_19_a_name_and_a_password_are_read(strict: RunningBroker) -> None:
    client = strict.open()
    answer = client.connect(Connect(fresh("client"), username="nobody", password=b"wrong"))
    assert answer.reason_code == ReasonCode.BAD_USER_NAME_OR_PASSWORD
    assert client.end() == []


def test_mqtt_3_1_3_8_a_client_identifier_that_is_refused_ends_the_connection(
    strict: RunningBroker,
) -> None:
    client = strict.open()
    answer = client.connect(Connect("me"))
    assert answer.reason_code == ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    assert client.end() == []


def test_mqtt_3_1_3_12_a_user_name_that_is_no_text_is_refused(strict: RunningBroker) -> None:
    client = strict.open()
    client.send_hex(f"10 11 {MQTT} 05 82 0000 00 0001 61 0001 ff")
    assert all(isinstance(each, ConnAck) and each.reason_code.failed for each in client.end())


def test_mqtt_3_1_4_2_who_may_not_come_in_is_told_and_disconnected(strict: RunningBroker) -> None:
    client = strict.open()
    answer = client.connect(Connect(fresh("client"), will=Will("forbidden")))
    assert answer.reason_code == ReasonCode.NOT_AUTHORIZED
    assert client.end() == []


def test_mqtt_3_2_0_1_nothing_comes_before_the_answer(broker: RunningBroker) -> None:
    topic, writer = fresh(), broker.client()
    first = broker.client(expiry=100)
    first.subscribe(topic)
    broker.lose(first)
    writer.publish(topic, qos=2)
    client = broker.open()
    client.send(Connect(first.client_id, clean_start=False))
    client.expect(ConnAck)
    client.expect(Publish)


def test_mqtt_3_2_0_2_there_is_one_answer(broker: RunningBroker) -> None:
    client = broker.open()
    client.send(Connect(fresh("client")), Connect(fresh("client")))
    answers = [each for each in client.end() if isinstance(each, ConnAck)]
    assert len(answers) <= 1


def test_mqtt_3_2_2_1_the_reserved_flags_are_0(broker: RunningBroker) -> None:
    first = broker.client(expiry=100)
    first.send(Disconnect())
    second = broker.client(first.client_id, clean=False)
    assert (first.raw[2], second.raw[2]) == (0, 1)


def test_mqtt_3_2_2_2_a_clean_start_finds_no_session(broker: RunningBroker) -> None:
    first = broker.client(expiry=100)
    first.send(Disconnect())
    first.end()
    assert broker.client(first.client_id).connack == ConnAck(
        False, ReasonCode.SUCCESS, first.connack.properties
    )


def test_mqtt_3_2_2_3_whether_there_is_a_session_is_told(broker: RunningBroker) -> None:
    first = broker.client(clean=False, expiry=100)
    assert (first.connack.session_present, first.connack.reason_code) == (False, 0)
    second = broker.client(first.client_id, clean=False)
    assert (second.connack.session_present, second.connack.reason_code) == (True, 0)


def test_mqtt_3_2_2_6_who_is_refused_has_no_session(strict: RunningBroker) -> None:
    first = strict.client(expiry=100)
    first.send(Disconnect())
    client = strict.open()
    client.send(Connect(first.client_id, clean_start=False, will=Will("forbidden")))
    answer = client.expect(ConnAck)
    assert answer.reason_code.failed
    assert not answer.session_present


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (Connect("me"), ReasonCode.CLIENT_IDENTIFIER_NOT_VALID),
        (Connect("a", username="b", password=b"c"), ReasonCode.BAD_USER_NAME_OR_PASSWORD),
        (Connect("a", will=Will("forbidden")), ReasonCode.NOT_AUTHORIZED),
        (Connect("a", will=Will("$SYS")), ReasonCode.TOPIC_NAME_INVALID),
        (
            Connect("a", properties=Properties(authentication_method="x")),
            ReasonCode.BAD_AUTHENTICATION_METHOD,
        ),
    ],
)
def test_mqtt_3_2_2_7_and_3_2_2_8_a_refusal_has_a_known_reason_and_ends_the_connection(
    strict: RunningBroker, packet: Packet, reason: ReasonCode
) -> None:
    client = strict.open()
    client.send(packet)
    (answer,) = client.end()
    assert isinstance(answer, ConnAck)
    assert answer.reason_code == reason


def test_mqtt_3_2_2_10_every_qos_can_be_subscribed_to(broker: RunningBroker) -> None:
    client = broker.client()
    assert client.connack.properties.maximum_qos is None
    wanted = [TopicFilter(fresh(), qos) for qos in (0, 1, 2)]
    assert client.subscribe(*wanted) == (0, 1, 2)


@pytest.mark.parametrize("room", [0, 1, 200])
def test_mqtt_3_2_2_15_a_packet_larger_than_was_told_ends_the_connection(
    broker: RunningBroker, room: int
) -> None:
    client, topic = broker.client(), fresh()
    largest = client.connack.properties.maximum_packet_size
    assert largest == 1 << 20
    packet = client.encode(Publish(topic, b"", 1, packet_id=1))
    payload = b"x" * (largest - len(packet) - 2 + room)
    client.send(Publish(topic, payload, 1, packet_id=1))
    if not room:
        assert client.publish(topic, qos=1) == ReasonCode.SUCCESS
        return
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.PACKET_TOO_LARGE


def test_mqtt_3_2_2_16_an_assigned_client_identifier_is_nobody_elses(
    broker: RunningBroker,
) -> None:
    names = {broker.client("").connack.properties.assigned_client_identifier for _ in range(20)}
    assert len(names) == 20


def test_mqtt_3_2_2_17_a_topic_alias_beyond_what_was_told_ends_the_connection(
    strict: RunningBroker,
) -> None:
    client = strict.client()
    assert client.connack.properties.topic_alias_maximum == 3
    client.send(Publish(fresh()).with_(Properties(topic_alias=4)))
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.TOPIC_ALIAS_INVALID


def test_mqtt_3_2_2_19_a_refusal_is_not_larger_than_the_client_takes(
    broker: RunningBroker,
) -> None:
    client = broker.open()
    limited = Properties(authentication_method="x" * 40, maximum_packet_size=20)
    answer = client.connect(Connect(fresh("client"), properties=limited))
    assert answer.reason_code == ReasonCode.BAD_AUTHENTICATION_METHOD
    assert answer.properties.reason_string is None
    assert client.end() == []


def test_a_client_that_takes_not_even_the_answer_is_disconnected(broker: RunningBroker) -> None:
    client = broker.open()
    client.decoder.max_packet_size = 4
    client.send(Connect(fresh("client"), properties=Properties(maximum_packet_size=4)))
    assert client.end() == []


def test_mqtt_3_2_2_21_a_longer_keep_alive_than_allowed_is_shortened(
    strict: RunningBroker,
) -> None:
    for asked, told in ((120, 60), (0, 60), (60, None), (30, None)):
        client = strict.client(keep_alive=asked)
        assert client.connack.properties.server_keep_alive == told
    client = strict.client(keep_alive=120)
    strict.later(91)
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert last.reason_code == ReasonCode.KEEP_ALIVE_TIMEOUT


def test_mqtt_3_2_2_22_the_clients_keep_alive_counts_where_none_is_told(
    broker: RunningBroker,
) -> None:
    client = broker.client(keep_alive=1_000)
    assert client.connack.properties.server_keep_alive is None
    broker.later(1_400)
    assert client.rest() == []
    broker.later(1_600)
    (last,) = client.end()
    assert isinstance(last, Disconnect)


def test_limits_are_told(strict: RunningBroker) -> None:
    told = strict.client(expiry=1_000).connack.properties
    assert (told.session_expiry_interval, told.receive_maximum) == (100, 5)
    assert strict.client(expiry=10).connack.properties.session_expiry_interval is None
    assert told.retain_available is None
    assert told.wildcard_subscription_available is None
    assert told.shared_subscription_available is None
    assert told.subscription_identifier_available is None


def test_what_a_broken_packet_after_the_connect_says_ends_only_that_connection(
    broker: RunningBroker,
) -> None:
    topic, other = fresh(), broker.client()
    other.subscribe(topic)
    client = broker.open()
    # Well-formed as a packet, broken in its properties: known only when it is looked at.
    broken = b"\x30\x06\x00\x01a\x02\x01\x07"
    client.send(Connect(fresh("client")), Subscribe(1, (TopicFilter(topic),)), broken)
    assert isinstance(client.end()[-1], Disconnect)
    other.publish(topic, b"still here", qos=1)
    assert other.take().payload == b"still here"
    broker.validate()


@pytest.mark.parametrize(
    "packet",
    [
        Connect("a", properties=Properties(authentication_method="x" * 65_535)),
        Connect(
            "a", will=Will("w", properties=Properties(user_properties=(("nc-" * 20_000, ""),)))
        ),
    ],
)
def test_a_refusal_is_not_too_long_to_be_sent(broker: RunningBroker, packet: Packet) -> None:
    client = broker.open()
    client.send(packet)
    (answer,) = client.end()
    assert isinstance(answer, ConnAck)
    assert answer.reason_code.failed
