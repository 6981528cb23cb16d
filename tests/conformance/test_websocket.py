"""Chapter 6: MQTT over WebSocket."""

from collections.abc import Callable, Iterator

import pytest

from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    Publish,
    Subscribe,
    TopicFilter,
    Will,
)
from tests.support.clients.raw_client import fresh
from tests.support.clients.web_socket_client import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    WebSocketClient,
)
from tests.support.running_broker import RunningBroker

Open = Callable[..., WebSocketClient]


@pytest.fixture
def opened(broker: RunningBroker) -> Iterator[Open]:
    clients: list[WebSocketClient] = []

    def open_one(offered: str | None = "mqtt", version: int = 5) -> WebSocketClient:
        client = WebSocketClient(broker.ws_port, offered, version)
        clients.append(client)
        return client

    yield open_one
    for each in clients:
        each.close()


@pytest.fixture
def client(opened: Open) -> WebSocketClient:
    one = opened()
    one.connect(Connect(fresh("client")))
    return one


@pytest.mark.parametrize("version", [3, 4, 5])
def test_mqtt_6_0_0_1_packets_are_sent_in_binary_frames(opened: Open, version: int) -> None:
    client, topic = opened(version=version), fresh()
    client.connect(Connect(fresh("client"), version))
    client.subscribe(topic)
    for qos in (0, 1, 2):
        client.publish(topic, b"x" * 70_000, qos)
        assert client.take().payload == b"x" * 70_000
    assert {kind for kind, _ in client.frames} == {BINARY}


def test_mqtt_6_0_0_1_a_text_frame_ends_the_connection(broker: RunningBroker, opened: Open) -> None:
    watcher, topic = broker.client(), fresh()
    watcher.subscribe(topic)
    client = opened()
    client.connect(Connect(fresh("client"), will=Will(topic, b"gone")))
    client.send_frame(TEXT, client.encode(PingReq()))
    packets = client.end()
    assert not any(isinstance(each, PingResp) for each in packets)
    assert watcher.take().payload == b"gone"


def test_mqtt_6_0_0_1_so_it_does_at_first(opened: Open) -> None:
    client = opened()
    client.send_frame(TEXT, client.encode(Connect(fresh("client"))))
    assert client.end() == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_mqtt_6_0_0_2_frames_need_not_end_where_packets_do(opened: Open, size: int) -> None:
    client, topic = opened(), fresh()
    data = b"".join(
        client.encode(each)
        for each in (
            Connect(fresh("client")),
            Subscribe(1, (TopicFilter(topic),)),
            Publish(topic, b"x" * 200),
            PingReq(),
        )
    )
    for at in range(0, len(data), size):
        client.send_frame(BINARY, data[at : at + size])
    client.expect(ConnAck)
    assert client.message().payload == b"x" * 200
    client.wait_for(PingResp)


def test_mqtt_6_0_0_2_a_message_may_come_in_parts(client: WebSocketClient) -> None:
    data = client.encode(PingReq()) * 3
    client.send_frame(BINARY, data[:1], last=False)
    client.send_frame(CONTINUATION, data[1:4], last=False)
    client.send_frame(CONTINUATION, b"", last=False)
    client.send_frame(CONTINUATION, data[4:])
    for _ in range(3):
        client.expect(PingResp)


@pytest.mark.parametrize("offered", ["mqtt", "chat, mqtt", "mqtt, mqttv3.1"])
def test_mqtt_6_0_0_3_and_6_0_0_4_the_server_chooses_mqtt(opened: Open, offered: str) -> None:
    client = opened(offered)
    assert (client.status, client.headers["sec-websocket-protocol"]) == (101, "mqtt")
    client.connect(Connect(fresh("client")))


def test_mqtt_6_0_0_4_the_server_chooses_mqtt_wherever_it_stands(opened: Open) -> None:
    assert opened("mqttv3.1, mqtt").headers["sec-websocket-protocol"] == "mqtt"


def test_the_older_name_is_understood(opened: Open) -> None:
    client = opened("mqttv3.1", 3)
    assert client.headers["sec-websocket-protocol"] == "mqttv3.1"
    client.connect(Connect(fresh("client"), 3))


def test_who_offers_only_other_protocols_is_refused(opened: Open) -> None:
    assert opened("chat").status == 400


def test_a_ping_of_the_web_socket_is_answered(client: WebSocketClient) -> None:
    client.send_frame(PING, b"there?")
    client.send(PingReq())
    client.expect(PingResp)
    assert (PONG, 6) in client.frames


def test_a_web_socket_that_is_closed_leaves_a_will(broker: RunningBroker, opened: Open) -> None:
    watcher, topic = broker.client(), fresh()
    watcher.subscribe(topic)
    client = opened()
    client.connect(Connect(fresh("client"), will=Will(topic, b"gone")))
    client.send_frame(CLOSE, b"\x03\xe8")
    assert client.end() == []
    assert watcher.take().payload == b"gone"


def test_a_broken_packet_ends_the_web_socket(client: WebSocketClient) -> None:
    client.send_hex("00 00")
    (last,) = client.end()
    assert isinstance(last, Disconnect)
    assert client.frames[-1][0] == CLOSE


def test_both_kinds_of_clients_hear_each_other(
    broker: RunningBroker, client: WebSocketClient
) -> None:
    topic, other = fresh(), broker.client()
    for each in (client, other):
        each.subscribe(topic)
    client.publish(topic, b"web", 1)
    other.publish(topic, b"tcp", 2)
    for each in (client, other):
        assert [each.take().payload for _ in range(2)] == [b"web", b"tcp"]
