"""Many clients in one process: raw sockets, epoll, and a parser that finds payloads.

All sides use the same client code, as light as possible in Python, so that the cost of clients is
mostly that of the received messages and their processing. It counts bytes in both directions, and
packets without an event.
"""

import select
import socket
import time
from collections.abc import Callable, Sequence

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.load.mqtt_clients import Client

STALLED_S = 30.0
MOST_EVENTS = 4_096
READ_BYTES = 1 << 18
_PUBLISH = 0x30

Parse = Callable[[bytes, list[bytes]], tuple[int, int]]
"""Appends the payloads in the data; returns the bytes consumed and the number of other packets."""


class Crowd:
    """Sockets of clients by number; the last may belong to a client that only sends PINGREQ."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        parse: Parse,
        heard: Callable[[int, list[bytes]], None],
    ) -> None:
        self._sockets = sockets
        self._parse = parse
        self._heard = heard
        """Callback with the number of a client and its received payloads."""
        self._rest: dict[int, bytes] = {}
        self.sent_bytes = self.got_bytes = 0
        self.arrived = self.answers = 0
        """Number of received events, and of other packets."""
        self._poll = select.epoll(len(sockets))
        self._numbers: dict[int, int] = {}
        for number, each in enumerate(sockets):
            each.setblocking(False)
            self._numbers[each.fileno()] = number
            self._poll.register(each.fileno(), select.EPOLLIN)

    def send(self, number: int, data: bytes) -> None:
        """Send data for a client; raise BenchmarkError if the socket buffer is full."""
        try:
            sent = self._sockets[number].send(data)
        except BlockingIOError:
            sent = 0
        if sent != len(data):
            raise BenchmarkError("a broker does not read what is sent to it")
        self.sent_bytes += sent

    def take(self, wait_s: float) -> bool:
        """Read from all ready sockets, waiting up to `wait_s`; return True if any was ready."""
        found = self._poll.poll(wait_s, MOST_EVENTS)
        numbers, sockets, rests = self._numbers, self._sockets, self._rest
        for descriptor, _ in found:
            number = numbers[descriptor]
            data = sockets[number].recv(READ_BYTES)
            if not data:
                raise BenchmarkError("a broker closed a connection")
            self.got_bytes += len(data)
            if rests and number in rests:
                data = rests.pop(number) + data
            payloads: list[bytes] = []
            used, answers = self._parse(data, payloads)
            if used != len(data):
                rests[number] = data[used:]
            self.answers += answers
            if payloads:
                self.arrived += len(payloads)
                self._heard(number, payloads)
        return bool(found)

    def take_until(self, arrived: int, answers: int) -> None:
        """Read until the total numbers of events and other packets are reached."""
        while self.arrived < arrived or self.answers < answers:
            if not self.take(STALLED_S):
                raise BenchmarkError(
                    f"{self.arrived:,} of {arrived:,} events and {self.answers:,} of "
                    f"{answers:,} answers came, and then nothing for {STALLED_S:.0f} s"
                )

    def take_for(self, seconds: float) -> None:
        """Read for a number of seconds."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0.0:
            self.take(left)

    def close(self) -> None:
        """Close the epoll object; the sockets stay open."""
        self._poll.close()


def sockets_of(clients: Sequence[Client]) -> list[socket.socket]:
    """The sockets of connected clients."""
    return [client.socket for client in clients]


def mqtt_payloads(data: bytes, payloads: list[bytes]) -> tuple[int, int]:
    """Parse the payloads of MQTT 5 PUBLISH packets with QoS 0 (see `Parse`)."""
    at, end, others = 0, len(data), 0
    while at + 2 <= end:
        head = data[at]
        length = data[at + 1]
        start = at + 2
        if length > 0x7F:
            if start >= end:
                break
            length += (data[start] << 7) - 0x80
            start += 1
            if data[start - 1] > 0x7F:
                raise BenchmarkError("a packet is longer than any that is expected")
        stop = start + length
        if stop > end:
            break
        at = stop
        if head != _PUBLISH:
            others += 1
            continue
        start += 2 + (data[start] << 8) + data[start + 1]
        properties = data[start]
        start += 1
        if properties > 0x7F:
            properties += (data[start] << 7) - 0x80
            start += 1
        payloads.append(data[start + properties : stop])
    return at, others


def publish_frame(topic_field: bytes, payload: bytes) -> bytes:
    """A PUBLISH of QoS 0 without properties."""
    length = len(topic_field) + 1 + len(payload)
    return b"".join((frame_head(0x30, length), topic_field, b"\0", payload))


def frame_head(kind: int, length: int) -> bytes:
    """The fixed header of a packet with `length` more bytes."""
    if length <= 0x7F:
        return bytes((kind, length))
    assert length <= 0x3FFF, "no packet here is that long"
    return bytes((kind, length & 0x7F | 0x80, length >> 7))


def text_field(text: str) -> bytes:
    """An MQTT string: UTF-8 with a length prefix."""
    data = text.encode()
    return len(data).to_bytes(2, "big") + data
