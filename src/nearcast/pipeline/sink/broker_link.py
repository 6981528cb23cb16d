"""A blocking connection to a broker from a Spark task or driver, with retries.

Sent messages are on the broker's disk when `flush` returns. A lost connection is made again, with
the address that the broker's directory has then, and unacknowledged messages are sent again:
staging and releasing are idempotent. A link is used by one task at a time, and kept open in its
process for later ones.
"""

import contextlib
import os
import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from random import Random

from nearcast.client.api.options import ClientOptions
from nearcast.client.errors import QueueFullError, RejectedError
from nearcast.client.link.backoff import Backoff
from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import (
    Acknowledged,
    Connected,
    ConnectRefused,
    Disconnected,
    Happened,
    ProtocolBroken,
)
from nearcast.pipeline.errors import LinkError, LinkRefusedError
from nearcast.pipeline.sink.broker_address import BrokerAccess, BrokerAddress, entrance_of, trusting
from nearcast.wire.handover import PUBLISHER
from nearcast.wire.mqtt import NO_PROPERTIES, ReasonCode

READ_BYTES = 1 << 16
ANSWER_WITHIN_S = 10.0
HEAD_BYTES = 1_024
"""The most bytes of a packet besides its payload."""
LARGEST_PACKET = 1 << 20
UNSENT_BYTES = 4 << 20
"""The most payload bytes in flight."""
AGAIN = Backoff(0.05, 2.0)
BUSY = frozenset((ReasonCode.QUOTA_EXCEEDED, ReasonCode.SERVER_BUSY))
"""Temporary refusals."""
REASONS_TO_WAIT = frozenset(
    (
        ReasonCode.SERVER_BUSY, ReasonCode.SERVER_UNAVAILABLE, ReasonCode.SERVER_SHUTTING_DOWN,
        ReasonCode.CONNECTION_RATE_EXCEEDED, ReasonCode.QUOTA_EXCEEDED,
    )
)  # fmt: skip


class BrokerLink:
    """One connection to a broker, made again as often as needed."""

    def __init__(self, place: BrokerAddress, wait_s: float = 30.0) -> None:
        self.place = place
        self.wait_s = wait_s
        """How long a broker may be unreachable or busy before `LinkError` is raised."""
        self.connections = 0
        self._protocol: ClientProtocol | None = None
        self._socket: socket.socket | None = None
        self._waiting: dict[int, tuple[str, bytes]] = {}
        """Unacknowledged messages by token."""
        self._busy: list[tuple[str, bytes]] = []
        """Messages that the broker refused as busy; `flush` sends them again."""
        self._bytes = 0
        self._answer = ""
        """What the broker said with its last acknowledgement."""
        self._deadline = 0.0
        self._largest_packet = LARGEST_PACKET
        self._chance = Random(secrets.randbits(64))

    @property
    def largest_payload(self) -> int:
        """The largest payload that the broker accepts; connects if necessary."""
        self._begin()
        self._until_connected()
        return self._largest_packet - HEAD_BYTES

    def send(self, topic: str, payload: bytes) -> None:
        """Send a message with QoS 1; it may still be in flight when this returns."""
        if not self._waiting and not self._busy:
            self._begin()
        self._until_connected()
        self._publish(topic, payload)
        while self._bytes > UNSENT_BYTES:
            self._turn()

    def flush(self) -> None:
        """Return when the broker has stored all sent messages; raises `LinkError`."""
        tries = 0
        while self._waiting or self._busy:
            if not self._waiting:
                # The broker was busy: retry with growing pauses.
                self._rest(tries, "the broker has no room for more rows")
                tries += 1
                self._until_connected()
                again, self._busy = self._busy, []
                for topic, payload in again:
                    self._publish(topic, payload)
            self._until_connected()
            self._turn()

    def ask(self, topic: str, payload: bytes) -> str:
        """Send a question when all else is acknowledged, and return the answer."""
        self.flush()
        self._answer = ""
        self.send(topic, payload)
        self.flush()
        return self._answer

    def close(self) -> None:
        """Disconnect, and drop unacknowledged messages."""
        self._waiting.clear()
        self._busy.clear()
        self._bytes = 0
        protocol, sock = self._protocol, self._socket
        if protocol is not None and sock is not None:
            with contextlib.suppress(OSError):
                protocol.disconnect(ReasonCode.NORMAL_DISCONNECTION, time.monotonic())
                sock.sendall(protocol.take())
        self._lose()
        self._protocol = None

    def _begin(self) -> None:
        self._deadline = time.monotonic() + self.wait_s

    def _publish(self, topic: str, payload: bytes) -> None:
        assert self._protocol is not None
        try:
            now = time.monotonic()
            token = self._protocol.publish(topic, payload, 1, False, NO_PROPERTIES, now)
        except (RejectedError, QueueFullError) as error:
            raise LinkError(f"broker {self.place.broker} takes no such message: {error}") from None
        self._waiting[token] = (topic, payload)
        self._bytes += len(payload)
        self._write()

    # One turn: write pending data, read answers

    def _turn(self) -> None:
        """Wait a little for answers, and handle them."""
        if self._socket is None:
            self._until_connected()
            return
        now = time.monotonic()
        readable, _, _ = select.select([self._socket], [], [], min(1.0, self._left()))
        if readable:
            try:
                data = self._socket.recv(READ_BYTES)
            except (ssl.SSLWantReadError, BlockingIOError):
                return
            except OSError:
                data = b""
            if not data:
                self._lose()
                return
            assert self._protocol is not None
            self._take(self._protocol.receive(data, now))
            self._write()
        elif now > self._deadline:
            self._lose()
            raise LinkError(f"broker {self.place.broker} did not answer within {self.wait_s:g} s")

    def _take(self, found: list[Happened]) -> None:
        for happened in found:
            match happened:
                case Connected(_, properties):
                    self._largest_packet = properties.maximum_packet_size or LARGEST_PACKET
                case Acknowledged(token, reason, text):
                    message = self._waiting.pop(token, None)
                    if message is None:
                        continue
                    self._bytes -= len(message[1])
                    if reason in BUSY:
                        self._busy.append(message)
                    elif reason.failed:
                        self.close()
                        raise LinkRefusedError(
                            f"broker {self.place.broker} refused: {text or reason.name}"
                        )
                    else:
                        # The broker is alive: the timeout starts again for the next answer.
                        self._begin()
                        self._answer = text
                case ConnectRefused(reason, text) if reason not in REASONS_TO_WAIT:
                    self.close()
                    why = text or reason.name
                    raise LinkError(f"broker {self.place.broker} does not let us in: {why}")
                case ConnectRefused() | Disconnected() | ProtocolBroken():
                    self._lose()
                    return

    def _write(self) -> None:
        if self._socket is None or self._protocol is None:
            return
        data = self._protocol.take()
        try:
            self._socket.sendall(data)
        except OSError:
            self._lose()

    # Connecting

    def _until_connected(self) -> None:
        tries = 0
        while self._protocol is None or not self._protocol.online:
            why = self._connect()
            if why:
                self._rest(tries, why)
                tries += 1

    def _connect(self) -> str:
        """Connect once; return the reason of a failure, or an empty string."""
        self._lose()
        try:
            entrance = entrance_of(self.place)
            patience_s = min(ANSWER_WITHIN_S, max(self._left(), 0.1))
            sock = socket.create_connection((entrance.host, entrance.port), patience_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if entrance.secure:
                trust = trusting(entrance, self.place.ca_file)
                sock = trust.wrap_socket(sock, server_hostname=entrance.host)
        except OSError as error:
            return str(error)
        self._socket = sock
        if self._protocol is None:
            self._protocol = ClientProtocol(_options(entrance))
        protocol = self._protocol
        protocol.connected_transport(time.monotonic())
        try:
            sock.sendall(protocol.take())
            while self._socket is not None and not protocol.online:
                data = sock.recv(READ_BYTES)
                if not data:
                    break
                self._take(protocol.receive(data, time.monotonic()))
        except OSError as error:
            self._lose()
            return str(error)
        if self._socket is None or not protocol.online:
            self._lose()
            return "it closed the connection"
        sock.settimeout(ANSWER_WITHIN_S)
        self.connections += 1
        self._write()
        return ""

    def _lose(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            if self._protocol is not None:
                self._protocol.disconnected_transport(time.monotonic())

    def _rest(self, tries: int, why: str) -> None:
        """Wait before a retry; raises `LinkError` after the deadline."""
        left = self._left()
        if left <= 0.0:
            self.close()
            raise LinkError(f"broker {self.place.broker}, tried for {self.wait_s:g} s: {why}")
        time.sleep(min(left, AGAIN.delay_s(tries, self._chance)))

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


def _options(entrance: BrokerAccess) -> ClientOptions:
    name = f"{entrance.user or PUBLISHER}~{secrets.token_hex(8)}"
    return ClientOptions(
        client_id=name,
        keep_alive_s=0,
        username=entrance.user or None,
        password=entrance.password or None,
        queued_messages=100_000,
        queued_bytes=1 << 30,
    )


# The links of this process

MOST_IDLE = 64
_idle: list[tuple[int, BrokerLink]] = []
_lock = threading.Lock()


@contextlib.contextmanager
def borrowed(place: BrokerAddress, wait_s: float) -> Iterator[BrokerLink]:
    """Yield a link of this process to a broker, for exclusive use.

    It stays open for later use, unless an exception is raised.
    """
    link = _idle_link(place) or BrokerLink(place)
    link.wait_s = wait_s
    try:
        yield link
    except BaseException:
        link.close()
        raise
    with _lock:
        _idle.append((os.getpid(), link))
        surplus = _idle[:-MOST_IDLE]
        del _idle[:-MOST_IDLE]
    for _, each in surplus:
        each.close()


def close_idle() -> None:
    """Close all idle links."""
    with _lock:
        found = _idle[:]
        _idle.clear()
    for _, link in found:
        link.close()


def _idle_link(place: BrokerAddress) -> BrokerLink | None:
    # Workers are forked: links that their parent opened must not be used.
    own = os.getpid()
    with _lock:
        for at in range(len(_idle) - 1, -1, -1):
            process, link = _idle[at]
            if process == own and link.place == place:
                del _idle[at]
                return link
    return None
