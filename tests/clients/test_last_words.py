"""A client that is still writing when the broker ends its connection sees why."""

import os
import socket
import ssl
from pathlib import Path
from typing import Never, Self

import pytest

from nearcast.wire.mqtt import (
    MQTT_5,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Properties,
    Publish,
    ReasonCode,
    Sender,
    encode,
)
from tests.support.broker_process import BrokerProcess

WAIT_S = 30.0
CHUNK = encode(Publish("noise", bytes(1_000)), MQTT_5) * 8
CHUNKS = 80
"""Altogether more than a socket buffers, and less than the broker discards."""
LISTENERS = ("mqtt", "mqtts", "ws", "wss")


class Talker:
    """A socket on which bytes of MQTT are written and read, whatever is round them."""

    def __init__(self, broker: BrokerProcess, listener: str, certificate: Path) -> None:
        plain = socket.create_connection(("127.0.0.1", broker.ports[listener]), WAIT_S)
        self.socket: socket.socket = plain
        if listener in ("mqtts", "wss"):
            context = ssl.create_default_context(cafile=str(certificate))
            self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self._is_web = listener.startswith("ws")
        self._buffer = b""
        self._decoder = Decoder(sender=Sender.SERVER, version=MQTT_5)
        if self._is_web:
            self._upgrade(broker.ports[listener])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Write bytes, in one frame on a WebSocket."""
        if self._is_web:
            # A mask of zeros leaves the bytes as they are.
            short = len(data) < 126
            size = b"" if short else len(data).to_bytes(2, "big")
            data = bytes([0x82, 0x80 | (len(data) if short else 126)]) + size + bytes(4) + data
        self.socket.sendall(data)

    def write_on(self) -> Never:
        """Write until that is no longer possible."""
        while True:
            self.write(CHUNK)

    def read_to_the_end(self) -> list[Packet]:
        """All packets until the broker closes."""
        while data := self.socket.recv(1 << 16):
            self._buffer += data
        return self._decoder.feed(self._payload())

    def read_packet(self) -> Packet:
        """The first packet."""
        while not (packets := self._decoder.feed(self._payload())):
            data = self.socket.recv(1 << 16)
            assert data, "the broker closed"
            self._buffer += data
        return packets[0]

    def _payload(self) -> bytes:
        data, self._buffer = self._buffer, b""
        if not self._is_web:
            return data
        payload = b""
        while len(data) >= 2:
            size = data[1] & 0x7F
            head = 4 if size == 126 else 2
            if size == 126:
                size = int.from_bytes(data[2:4], "big")
            if len(data) < head + size:
                break
            if data[0] & 0x0F == 2:
                payload += data[head : head + size]
            data = data[head + size :]
        self._buffer = data
        return payload

    def _upgrade(self, port: int) -> None:
        key = "MDEyMzQ1Njc4OWFiY2RlZg=="
        self.socket.sendall(
            f"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: mqtt\r\n\r\n".encode()
        )
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.socket.recv(1)
        assert answer.startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_client_that_goes_on_writing_sees_why_it_was_disconnected(
    broker: BrokerProcess, certificate: Path, listener: str
) -> None:
    with Talker(broker, listener, certificate) as talker:
        name = f"ann~{listener}-{os.getpid()}"
        talker.write(encode(Connect(name, MQTT_5, username="ann", password=b"secret"), MQTT_5))
        assert isinstance(talker.read_packet(), ConnAck)
        # A packet of a kind that there is not.
        talker.write(bytes([0x00, 0x00]))
        for _ in range(CHUNKS):
            talker.write(CHUNK)
        *_, last = talker.read_to_the_end()
        assert isinstance(last, Disconnect)
        assert last.reason_code is ReasonCode.MALFORMED_PACKET
        assert last.properties.reason_string


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_client_that_goes_on_writing_sees_why_it_may_not_come_in(
    broker: BrokerProcess, certificate: Path, listener: str
) -> None:
    with Talker(broker, listener, certificate) as talker:
        method = Properties(authentication_method="magic")
        talker.write(encode(Connect("ann", MQTT_5, properties=method), MQTT_5))
        for _ in range(CHUNKS):
            talker.write(CHUNK)
        (answer,) = talker.read_to_the_end()
        assert isinstance(answer, ConnAck)
        assert answer.reason_code is ReasonCode.BAD_AUTHENTICATION_METHOD
        assert answer.properties.reason_string


@pytest.mark.parametrize("listener", LISTENERS)
def test_what_is_discarded_has_a_bound(
    broker: BrokerProcess, certificate: Path, listener: str
) -> None:
    with Talker(broker, listener, certificate) as talker:
        talker.write(bytes([0x00, 0x00]))
        with pytest.raises((ConnectionError, ssl.SSLError)):
            talker.write_on()
