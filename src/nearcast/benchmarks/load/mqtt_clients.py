"""Many MQTT connections from one process: opened, subscribed and closed in groups.

A group is no larger than the accept queue of a server, so that the operating system does not have
to retry a connection a second later.
"""

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load import mqtt_frames
from nearcast.wire.mqtt import MQTT_5, ConnAck, Decoder, Packet, Sender, SubAck

GROUP = 50
ANSWER_WITHIN_S = 30.0
CLOSED_WITHIN_S = 30.0
_NO_MAXIMUM = 65_535
_Item = TypeVar("_Item")


class Client:
    """One connection, with a timeout for reads and writes."""

    __slots__ = ("receive_maximum", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.receive_maximum = _NO_MAXIMUM

    def read_packet(self) -> tuple[Packet, int]:
        """Return the next packet and its size in bytes; raise if more than one packet arrived."""
        data = b""
        while len(data) < 2 or len(data) < _length(data):
            try:
                more = self.socket.recv(1 << 16)
            except TimeoutError:
                raise BenchmarkError(f"no answer within {ANSWER_WITHIN_S:.0f} s") from None
            if not more:
                raise BenchmarkError("the broker closed a connection")
            data += more
        packets = Decoder(sender=Sender.SERVER, version=MQTT_5).feed(data)
        if len(packets) != 1:
            raise BenchmarkError(f"one packet was expected, and {len(packets)} came: {packets}")
        return packets[0], len(data)


def open_clients(port: int, names: Sequence[str], known: list[Client]) -> list[Client]:
    """Connect a client with its own session for each name; append all to `known`, for closing."""
    clients: list[Client] = []
    for group in _groups(names):
        fresh = []
        for _ in group:
            fresh.append(Client(port))
            known.append(fresh[-1])
        clients += fresh
        for client, name in zip(fresh, group, strict=True):
            client.socket.sendall(mqtt_frames.connect(name))
        for client in fresh:
            answer, _ = client.read_packet()
            if not isinstance(answer, ConnAck) or answer.reason_code.failed:
                raise BenchmarkError(f"a CONNECT was answered by {answer}")
            client.receive_maximum = answer.properties.receive_maximum or _NO_MAXIMUM
    return clients


def subscribe_clients(clients: Sequence[Client], topics: Sequence[str]) -> None:
    """Subscribe each client to its topic, QoS 0."""
    for group in _groups(list(zip(clients, topics, strict=True))):
        for client, topic in group:
            client.socket.sendall(mqtt_frames.subscribe(topic))
        for client, _ in group:
            answer, _ = client.read_packet()
            if not isinstance(answer, SubAck) or answer.reason_codes[0].failed:
                raise BenchmarkError(f"a SUBSCRIBE was answered by {answer}")


def close_clients(clients: Sequence[Client]) -> None:
    """Send DISCONNECT, and wait until the broker has closed all connections or a timeout ends."""
    deadline = time.monotonic() + CLOSED_WITHIN_S
    for client in clients:
        with contextlib.suppress(OSError):
            client.socket.settimeout(max(0.001, deadline - time.monotonic()))
            client.socket.sendall(mqtt_frames.GOODBYE)
    for client in clients:
        with contextlib.suppress(OSError):
            client.socket.settimeout(max(0.001, deadline - time.monotonic()))
            while client.socket.recv(1 << 16):
                pass
        client.socket.close()


def _length(data: bytes) -> int:
    """Size of the packet at the start of the data; more than the data if its length is cut off."""
    length = shift = 0
    for at in range(1, min(5, len(data))):
        length |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return at + 1 + length
        shift += 7
    return len(data) + 1


def _groups(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    return (items[at : at + GROUP] for at in range(0, len(items), GROUP))
