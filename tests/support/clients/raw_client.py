"""A client that does nothing by itself: every packet, or any bytes, are sent by the test.

What the server sends is decoded strictly, so a packet that it may not send fails the test that
receives it, and so does one that is larger than the client said it takes.
"""

import socket
from collections import deque
from itertools import count
from typing import TypeVar

from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    encode,
)

WAIT_S = 10.0
_numbers = count(1)

Kind = TypeVar("Kind", bound=Packet)


def fresh(word: str = "topic") -> str:
    """A name that no other test uses."""
    return f"{word}{next(_numbers)}"


class ClosedError(Exception):
    """The server has closed the connection."""


class RawClient:
    """One connection."""

    def __init__(self, port: int, version: int = MQTT_5) -> None:
        self.version = version
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = Decoder(sender=Sender.SERVER, version=version)
        self.raw = b""
        """All bytes that came."""
        self.client_id = ""
        self.connack = ConnAck()
        self._came: deque[Packet] = deque()
        self._last_id = 0

    # Bytes and packets

    def send(self, *packets: Packet | bytes) -> None:
        """Send packets, or bytes as they are, in one piece."""
        parts = [each if isinstance(each, bytes) else self.encode(each) for each in packets]
        self._write(b"".join(parts))

    def send_hex(self, text: str) -> None:
        """Send bytes given as hexadecimal digits."""
        self._write(bytes.fromhex(text))

    def encode(self, packet: Packet) -> bytes:
        return encode(packet, self.version)

    def receive(self) -> Packet:
        """The next packet, in the order of arrival; `ClosedError` at the end."""
        while not self._came:
            try:
                data = self._read()
            except ConnectionResetError:
                data = b""
            if not data:
                raise ClosedError
            self.raw += data
            for packet in self.decoder.feed(data):
                if isinstance(packet, Publish):
                    packet.validate(Sender.SERVER)
                self._came.append(packet)
        return self._came.popleft()

    def expect(self, kind: type[Kind]) -> Kind:
        """The next packet, which is of this kind."""
        packet = self.receive()
        assert isinstance(packet, kind), packet
        return packet

    def wait_for(self, kind: type[Kind]) -> Kind:
        """The next packet of this kind; others that come before it are kept for later."""
        passed: list[Packet] = []
        while True:
            packet = self.receive()
            if isinstance(packet, kind):
                self._came.extendleft(reversed(passed))
                return packet
            passed.append(packet)

    def rest(self) -> list[Packet]:
        """All that the server has for this client now: it answers in order.

        Twice, because what an acknowledgement sets free may follow the first answer.
        """
        packets: list[Packet] = []
        for _ in range(2):
            self.send(PingReq())
            while not isinstance(packet := self.receive(), PingResp):
                packets.append(packet)
        return packets

    def end_reason(self, text: str = "") -> ReasonCode:
        """Send bytes, if any, and return why the server closed the connection."""
        self.send_hex(text)
        last = self.end()[-1]
        assert isinstance(last, Disconnect)
        return last.reason_code

    def payloads(self) -> list[bytes]:
        """Return the payloads of all messages that have come."""
        return [each.payload for each in self.rest() if isinstance(each, Publish)]

    def end(self) -> list[Packet]:
        """All that comes until the server closes the connection."""
        packets: list[Packet] = []
        try:
            while True:
                packets.append(self.receive())
        except ClosedError:
            return packets

    def close(self) -> None:
        """Go without a word."""
        self.socket.close()

    # Conversations

    def connect(self, packet: Connect) -> ConnAck:
        """Send a CONNECT and return the answer."""
        self.client_id = packet.client_id
        if packet.properties.maximum_packet_size:
            self.decoder.max_packet_size = packet.properties.maximum_packet_size
        self.send(packet)
        self.connack = self.expect(ConnAck)
        return self.connack

    def subscribe(
        self, *filters: str | TopicFilter, qos: int = 2, properties: Properties = NO_PROPERTIES
    ) -> tuple[ReasonCode, ...]:
        """Subscribe, and return the reason codes."""
        wanted = tuple(
            TopicFilter(each, qos) if isinstance(each, str) else each for each in filters
        )
        packet_id = self.next_id()
        self.send(Subscribe(packet_id, wanted, properties))
        answer = self.wait_for(SubAck)
        assert answer.packet_id == packet_id
        return answer.reason_codes

    def unsubscribe(self, *filters: str) -> tuple[ReasonCode, ...]:
        """Unsubscribe, and return the reason codes."""
        packet_id = self.next_id()
        self.send(Unsubscribe(packet_id, filters))
        answer = self.wait_for(UnsubAck)
        assert answer.packet_id == packet_id
        return answer.reason_codes

    def publish(
        self,
        topic: str,
        payload: bytes = b"x",
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> ReasonCode:
        """Publish, see the message through, and return what the server says of it."""
        packet_id = self.next_id() if qos else 0
        packet = Publish(topic, payload, qos, retain, packet_id=packet_id)
        self.send(packet if properties is NO_PROPERTIES else packet.with_(properties))
        if qos == 0:
            self.send(PingReq())
            self.wait_for(PingResp)
            return ReasonCode.SUCCESS
        if qos == 1:
            answer = self.wait_for(PubAck)
            assert answer.packet_id == packet_id
            return answer.reason_code
        received = self.wait_for(PubRec)
        assert received.packet_id == packet_id
        if not received.reason_code.failed:
            self.send(PubRel(packet_id))
            assert self.wait_for(PubComp).packet_id == packet_id
        return received.reason_code

    def message(self) -> Publish:
        """The next message, not acknowledged."""
        return self.wait_for(Publish)

    def take(self) -> Publish:
        """The next message, acknowledged as its QoS demands."""
        message = self.message()
        self.acknowledge(message)
        return message

    def acknowledge(self, message: Publish) -> None:
        """See a message through."""
        if message.qos == 1:
            self.send(PubAck(message.packet_id))
        elif message.qos == 2:
            self.send(PubRec(message.packet_id))
            assert self.wait_for(PubRel).packet_id == message.packet_id
            self.send(PubComp(message.packet_id))

    def next_id(self) -> int:
        """A packet identifier that is free."""
        self._last_id += 1
        return self._last_id

    # A WebSocket puts frames round these.

    def _write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _read(self) -> bytes:
        return self.socket.recv(1 << 16)
