"""Published faults of other brokers, replayed against a running one.

Left to `tests/conformance`, which has them: CONNECT twice, topic alias 0 and beyond the maximum,
topics that are not UTF-8 or have NUL or surrogates, a will with a wildcard, subscription identifier
0, SUBSCRIBE without filters, packet identifier 0, no client id without a clean session, PUBREL and
PUBREC for unknown ids, wildcards in the name of a shared group, retained messages of length zero,
too many QoS 1 or 2 messages without an answer.
"""

import socket
import struct

import pytest

from nearcast.broker.config.settings import Limits, Settings
from nearcast.wire.mqtt import (
    MQTT_3_1_1,
    MQTT_5,
    Connect,
    Disconnect,
    Packet,
    Properties,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    encode,
)
from tests.support.clients.raw_client import RawClient
from tests.support.clients.web_socket_client import BINARY, CONTINUATION, PING, WebSocketClient
from tests.support.running_broker import RunningBroker

HALF_READ = 40
"""Connections that each send most of a packet of one megabyte."""


def is_served(broker: RunningBroker) -> bool:
    """Return whether another client gets its own message."""
    client = broker.client()
    client.subscribe("served/#")
    client.publish("served/x", b"yes", qos=1)
    return client.take().payload == b"yes"


@pytest.mark.parametrize("version", [MQTT_3_1_1, MQTT_5])
@pytest.mark.parametrize("first", ["10", "30", "82", "c0"])
def test_a_remaining_length_of_five_bytes_ends_the_connection(
    broker: RunningBroker, version: int, first: str
) -> None:
    client = broker.open(version) if first == "10" else broker.client(version=version)
    client.send_hex(f"{first} ff ff ff ff 7f")
    packets = client.end()
    assert all(
        isinstance(each, Disconnect) and each.reason_code is ReasonCode.MALFORMED_PACKET
        for each in packets
    )
    assert is_served(broker)


def test_an_endless_remaining_length_does_not_grow_a_buffer(broker: RunningBroker) -> None:
    client = broker.client()
    client.send_hex("30 80 80 80")
    client.send_hex("80")
    assert client.end_reason() is ReasonCode.MALFORMED_PACKET


@pytest.mark.parametrize("body", ["0001 78 7f", "0001 78 ff ff ff 7f", "0001 78 05 26 0001 61"])
def test_a_property_length_beyond_its_packet_ends_the_connection(
    broker: RunningBroker, body: str
) -> None:
    client = broker.client()
    data = bytes.fromhex(body)
    assert client.end_reason((bytes([0x30, len(data)]) + data).hex()) in (
        ReasonCode.MALFORMED_PACKET,
        ReasonCode.PROTOCOL_ERROR,
    )
    assert is_served(broker)


def test_huge_user_properties_are_refused_or_passed_on_whole(broker: RunningBroker) -> None:
    client = broker.client()
    client.subscribe("big")
    pairs = tuple((f"name-{at}", "x" * 3_000) for at in range(200))
    assert not client.publish("big", qos=1, properties=Properties(user_properties=pairs)).failed
    assert client.take().properties.user_properties == pairs
    many = tuple(("a", "b") for _ in range(1_000))
    assert client.publish("big", qos=1, properties=Properties(user_properties=many)).failed
    assert is_served(broker)


@pytest.mark.parametrize("retain", [False, True])
def test_a_message_that_expires_at_once_harms_nobody(broker: RunningBroker, retain: bool) -> None:
    client = broker.client()
    properties = Properties(message_expiry_interval=0)
    assert not client.publish("gone", b"x", 1, retain, properties).failed
    later = broker.client()
    later.subscribe("gone")
    assert later.rest() == []
    assert is_served(broker)


FRAMES = {
    "more than was sent": b"\x82\xfe\xff\xffmask" + b"x" * 100,
    "less than was sent": b"\x82\x81mask" + b"x" * 100,
    "16 bits for a small one": b"\x82\xfe\x00\x05mask" + b"x" * 5,
    "64 bits for a small one": b"\x82\xff" + struct.pack(">Q", 5) + b"mask" + b"x" * 5,
    "the top bit": b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"mask" + b"x" * 100,
    "all bits": b"\x82\xff" + b"\xff" * 8 + b"mask" + b"x" * 100,
    "many gigabytes": b"\x82\xff" + struct.pack(">Q", 1 << 40) + b"mask" + b"x" * 100,
}


@pytest.mark.parametrize("lie", FRAMES)
def test_a_web_socket_length_that_lies_ends_only_its_own_connection(
    broker: RunningBroker, lie: str
) -> None:
    client = WebSocketClient(broker.ws_port)
    client.connect(Connect("liar"))
    client.socket.sendall(FRAMES[lie])
    client.socket.shutdown(socket.SHUT_WR)
    client.end()
    client.close()
    assert is_served(broker)


def test_a_control_frame_in_parts_ends_the_web_socket(broker: RunningBroker) -> None:
    client = WebSocketClient(broker.ws_port)
    client.connect(Connect("parts"))
    client.send_frame(PING, b"a", last=False)
    client.send_frame(CONTINUATION, b"b")
    client.end()
    client.close()
    assert is_served(broker)


def test_a_ping_between_the_parts_of_a_message_does_not_break_it(broker: RunningBroker) -> None:
    client = WebSocketClient(broker.ws_port)
    client.connect(Connect("woven"))
    client.subscribe("woven")
    data = encode(Publish("woven", b"whole"))
    client.send_frame(BINARY, data[:4], last=False)
    client.send_frame(PING, b"between")
    client.send_frame(CONTINUATION, data[4:])
    assert client.message().payload == b"whole"
    client.close()


def takeovers(broker: RunningBroker, said: Packet, rounds: int = 20) -> list[RawClient]:
    """Let clients with one id take over from each other, each while the one before speaks."""
    clients: list[RawClient] = []
    for _ in range(rounds):
        client = broker.open()
        client.client_id = "fought-over"
        properties = Properties(session_expiry_interval=100)
        client.send(Connect("fought-over", clean_start=False, properties=properties), said)
        clients.append(client)
    return clients


def test_a_take_over_that_races_with_subscribe_leaves_one_session(broker: RunningBroker) -> None:
    *losers, winner = takeovers(broker, Subscribe(1, (TopicFilter("raced/#", 2),)))
    assert winner.wait_for(SubAck).reason_codes == (ReasonCode.GRANTED_QOS_2,)
    for loser in losers:
        assert any(
            isinstance(each, Disconnect) and each.reason_code is ReasonCode.SESSION_TAKEN_OVER
            for each in loser.end()
        )
    winner.publish("raced/x", b"once", qos=2)
    assert winner.take().payload == b"once"
    assert winner.payloads() == []
    broker.validate()


def test_a_take_over_that_races_with_qos_2_delivers_once(broker: RunningBroker) -> None:
    watcher = broker.client()
    watcher.subscribe("raced/twice", qos=2)
    # The same message each time: who comes next goes on with what its session has received.
    *losers, winner = takeovers(broker, Publish("raced/twice", b"once", 2, packet_id=7, dup=True))
    assert not winner.wait_for(PubRec).reason_code.failed
    winner.send(PubRel(7))
    assert winner.wait_for(PubComp).reason_code is ReasonCode.SUCCESS
    assert watcher.take().payload == b"once"
    assert watcher.payloads() == []
    for loser in losers:
        loser.close()
    broker.validate()


def test_a_client_that_never_releases_and_never_reads_is_bounded() -> None:
    limits = Limits(receive_maximum=50, unsent_bytes=10_000, queued=100)
    broker = RunningBroker(Settings(limits=limits))
    try:
        deaf = broker.client("deaf")
        deaf.subscribe("flood", qos=0)
        other = broker.client("other")
        for _ in range(1_000):
            other.send(Publish("flood", b"x" * 20_000))
        other.rest()
        session = broker.server.hub.sessions["deaf"]
        # More than the system takes was sent, so the queue is full, and no fuller.
        assert session.statistics()["waiting"] == limits.queued
        greedy = broker.client("greedy")
        greedy.send(*(Publish("held", b"x", 2, packet_id=each) for each in range(1, 100)))
        last = greedy.end()[-1]
        assert isinstance(last, Disconnect)
        assert last.reason_code is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED
        assert is_served(broker)
        broker.validate()
    finally:
        broker.hang_up()
        broker.stop()


def test_half_read_packets_on_many_connections_hold_no_more_than_was_sent(
    broker: RunningBroker,
) -> None:
    head = encode(Publish("half", b"x" * 1_000_000))[:1_000]
    clients = [broker.client() for _ in range(HALF_READ)]
    for client in clients:
        client.send(head)
    assert is_served(broker)
    connections = [
        session.connection
        for session in broker.server.hub.sessions.values()
        if session.connection is not None
    ]
    held = [each.decoder.waiting for each in connections if each.decoder is not None]
    assert sum(held) <= len(head) * HALF_READ
    for client in clients:
        client.close()
