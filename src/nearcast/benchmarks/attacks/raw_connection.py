"""Connections of an attacker: raw MQTT 5 on many sockets, driven by one loop.

A connection has bytes to send and counts what comes. `drive` sends and reads on all of them until a
condition holds, so that neither side waits for the other with full buffers. A connection that the
broker closes is a result, not an error.
"""

import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.wire.mqtt import (
    MQTT_5,
    Acknowledgement,
    ConnAck,
    Connect,
    Decoder,
    Packet,
    ProtocolError,
    Sender,
    SubAck,
    UnsubAck,
    encode,
)

HONEST_ADDRESS = "127.0.0.1"
WAIT_S = 30.0
STEP_S = 0.1
READ_BYTES = 1 << 18
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
BIND_ADDRESS_NO_PORT = 24
"""`IP_BIND_ADDRESS_NO_PORT` of Linux: ports are shared between connections to different ports."""


class RawConnection:
    """One socket, from an address of the loopback network that the attacker has to itself."""

    def __init__(self, port: int, source: str, *, decodes: bool = True) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(WAIT_S)
        self.socket.setsockopt(socket.IPPROTO_IP, BIND_ADDRESS_NO_PORT, 1)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.decodes = decodes
        """False to count bytes only."""
        self.reads = True
        """False for a client that never reads."""
        self.closed = False
        self.lost = False
        """True if the broker closed it."""
        self.received_bytes = 0
        self.on_packet: Callable[[Packet], None] | None = None
        """Called with every packet that comes."""
        self.counts: Counter[type[Packet]] = Counter()
        self.refused = 0
        """Reason codes that say no, of all answers."""
        self._decoder = Decoder(sender=Sender.SERVER, version=MQTT_5)
        self._unsent: deque[memoryview] = deque()

    @property
    def has_unsent(self) -> bool:
        """True if bytes wait for the socket."""
        return bool(self._unsent)

    def send(self, *data: bytes) -> None:
        """Add bytes to what is to be sent."""
        self._unsent.extend(memoryview(part) for part in data)

    def write(self) -> None:
        """Send as much as the socket takes."""
        try:
            while self._unsent:
                part = self._unsent[0]
                sent = self.socket.send(part)
                if sent == len(part):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = part[sent:]
        except BlockingIOError:
            return
        except OSError:
            self._lose()

    def read(self) -> None:
        """Read once, and count the packets."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self.received_bytes += len(data)
        if not self.decodes:
            return
        try:
            packets = self._decoder.feed(data)
        except ProtocolError as error:
            raise BenchmarkError(f"the broker sent what is no MQTT: {error}") from error
        for packet in packets:
            self.counts[type(packet)] += 1
            if isinstance(packet, SubAck | UnsubAck):
                self.refused += sum(code.failed for code in packet.reason_codes)
            elif isinstance(packet, Acknowledgement | ConnAck):
                self.refused += packet.reason_code.failed
            if self.on_packet is not None:
                self.on_packet(packet)

    def close(self) -> None:
        """Close the socket; nothing more is sent."""
        self.closed = True
        self._unsent.clear()
        self.socket.close()

    def _lose(self) -> None:
        self.lost = True
        self.close()


def connected(port: int, connect: Connect, source: str = HONEST_ADDRESS) -> RawConnection:
    """Open a connection that must be let in; raise BenchmarkError if it is not."""
    connection = RawConnection(port, source)
    connection.send(encode(connect))
    if not drive([connection], lambda: connection.counts[ConnAck] == 1) or connection.refused:
        raise BenchmarkError(f"{connect.client_id} was not let in")
    return connection


def drive(
    connections: Sequence[RawConnection],
    done: Callable[[], bool],
    within_s: float = WAIT_S,
    step_s: float = STEP_S,
) -> bool:
    """Send and read until `done`, or all connections are closed, or time is up; return `done()`.

    `done` is asked at least once in every `step_s`.
    """
    deadline = time.monotonic() + within_s
    with selectors.DefaultSelector() as selector:
        interest: dict[RawConnection, int] = {}
        for connection in connections:
            _watch(selector, interest, connection)
        while not done() and interest and (left := deadline - time.monotonic()) > 0.0:
            for connection in connections:
                # `done` may have more to send.
                if connection.has_unsent and not interest.get(connection, 0) & _WRITE:
                    _watch(selector, interest, connection)
            for key, mask in selector.select(min(left, step_s)):
                connection = key.data
                if mask & _WRITE:
                    connection.write()
                if mask & _READ and not connection.closed:
                    connection.read()
                _watch(selector, interest, connection, key.fd)
    return done()


def _watch(
    selector: selectors.BaseSelector,
    interest: dict[RawConnection, int],
    connection: RawConnection,
    descriptor: int = -1,
) -> None:
    """Register a connection for what it waits for; a closed one is forgotten."""
    before = interest.get(connection, 0)
    wanted = 0
    if not connection.closed:
        wanted |= _READ if connection.reads else 0
        wanted |= _WRITE if connection.has_unsent else 0
    if wanted == before:
        return
    if not before:
        selector.register(connection.socket, wanted, connection)
    elif not wanted:
        selector.unregister(descriptor if connection.closed else connection.socket)
    else:
        selector.modify(connection.socket, wanted, connection)
    interest[connection] = wanted
    if not wanted:
        del interest[connection]


def total(connections: Iterable[RawConnection], kind: type[Packet]) -> int:
    """How many packets of a kind came on all connections."""
    return sum(connection.counts[kind] for connection in connections)
