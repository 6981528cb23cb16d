"""Links: a client's socket or WebSocket, between the event loop and the server.

A link passes received bytes on and takes bytes to write. Output to a client that does not read is
bounded: beyond `unsent_bytes` messages stay in its session's queue, at a few times that much
reading from it stops, and a client that reads nothing for `stalled_s` is disconnected.

A link closed by the broker lingers: a socket that is closed while its client still writes is reset,
and the client loses unread data, including the reason. So the sending side is shut down first, and
input is discarded until the client closes, for `LINGER_S` or `LINGER_BYTES` at most.

A paced link has no buffer of its own: it blocks as soon as the system does not take everything, and
the system takes little. The transport of TLS has buffers that are out of reach; there the kernel is
asked, every `POLL_S`, whether it would take more.
"""

import asyncio
import select
from contextlib import suppress
from enum import IntFlag, auto
from functools import lru_cache
from typing import TYPE_CHECKING

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from nearcast.broker.auth import Peer
from nearcast.broker.awareness.link_estimator import LinkFigures
from nearcast.broker.awareness.link_meter import LinkMeter
from nearcast.broker.net.connection import Connection
from nearcast.core.propagation.link_pace import LinkPace

if TYPE_CHECKING:
    from nearcast.broker.server import Server

LINGER_S = 2.0
LINGER_BYTES = 1 << 20
QUIET_S = 0.2
"""A stopping broker does not wait for a client that wrote nothing for this long."""
POLL_S = 0.02
DEAF_AT = 2
"""At this multiple of `unsent_bytes` reading from a client that does not read stops."""

_HANGING_UP = getattr(select, "POLLRDHUP", 0)
"""Errors are always reported; without this flag only resets are detected."""


class Hold(IntFlag):
    """Reasons to pause reading from a client; several may apply at once."""

    KNOCK = auto()
    """Too many connections came from its address."""
    DOORS = auto()
    """Its password is being checked."""
    DISK = auto()
    """Too much waits for the disk."""
    TURN = auto()
    """Its input waits for its turn, or it exceeds the limit of its rate."""
    DEAF = auto()
    """It does not read its answers."""
    MEMORY = auto()
    """The broker is short of memory, and much is queued for its user."""


class Link:
    """The common part of TCP and WebSocket links."""

    __slots__ = (
        "_discarded", "_holds", "_lingers_until", "_polls",
        "blocked_since", "connection", "is_ending", "meter", "server", "transport", "unsent",
    )  # fmt: skip

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.transport: asyncio.Transport | None = None
        self.blocked_since: float | None = None
        self._holds = 0
        self.unsent = 0
        """Unsent bytes at the last check."""
        self.is_ending = False
        """Nothing more is written, and input is discarded."""
        self._lingers_until = 0.0
        self._discarded = 0
        self.meter: LinkMeter | None = None
        """Measures it while it is paced."""
        self._polls = False
        """It is blocked until the kernel would take more."""

    def open(self, transport: asyncio.Transport) -> None:
        """Set up the link on a new transport."""
        server = self.server
        self.transport = transport
        self._limit_buffer()
        self.connection = Connection(self, peer_of(transport), server.now())
        server.joined(self)

    def feed(self, data: bytes) -> None:
        """Process received bytes."""
        server, connection = self.server, self.connection
        if connection.closing:
            self._discard(len(data))
            return
        server.hub.take(connection, data, server.begin())
        flow = connection.flow
        if flow is not None and (flow.is_waiting or flow.paced_until):
            self.hold(Hold.TURN)
        server.note_input()
        if server.was_full:
            server.pause_if_much(self, len(data))
        if self.blocked_since is not None:
            self._stop_hearing()

    def end(self, spoke: bool) -> None:
        """Close after the client had time to read; `spoke`: a last packet was written.

        The broker treats the client as gone from now on.
        """
        if self.is_ending or self.transport is None:
            return
        self.is_ending = True
        if not self._end_writing() and not spoke:
            self._close()
            return
        if self._holds:
            self._holds = 0
            with suppress(RuntimeError):  # it is closing
                self.transport.resume_reading()
        self._lingers_until = self.server.now() + LINGER_S
        self.server.parted(self)
        self.server.later(QUIET_S, self._linger, self._discarded)

    def _end_writing(self) -> bool:
        """Shut down the sending side; False if the transport cannot."""
        assert self.transport is not None
        if not self.transport.can_write_eof():
            return False
        with suppress(OSError):  # the client is gone already
            self.transport.write_eof()
        return True

    def _linger(self, discarded: int) -> None:
        """Close the link if the client is done or the time is over."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        is_quiet = self.server.stopping and discarded == self._discarded and not self._unsent()
        if is_quiet or self.server.now() >= self._lingers_until:
            self._close()
        else:
            self.server.later(QUIET_S, self._linger, self._discarded)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > LINGER_BYTES and self.is_ending:
            self.abort()

    def _close(self) -> None:
        """Close after everything is written."""
        assert self.transport is not None
        if self.blocked_since is None:
            self.blocked_since = self.server.now()
        self.transport.close()

    def abort(self) -> None:
        """Close at once, discarding unsent data."""
        if self.transport is not None:
            self.transport.abort()

    def write(self, data: bytes) -> None:
        """Write bytes."""
        assert self.transport is not None
        self.transport.write(data)

    def write_paced(self, data: bytes, pace: LinkPace) -> None:
        """Write bytes so that as few as possible wait outside the session's queue."""
        meter, transport = self.meter, self.transport
        assert transport is not None
        if meter is None:
            meter = self.meter = LinkMeter(transport.get_extra_info("socket"))
            meter.is_asked = transport.get_extra_info("ssl_object") is not None
            if not meter.is_asked:
                transport.set_write_buffer_limits(high=0, low=0)
        meter.limit(pace.unsent_bytes)
        meter.written_bytes += len(data)
        self.write(data)
        if meter.is_asked and not self._polls and not meter.has_room:
            self._polls = True
            self.pause_writing()
            self.server.later(POLL_S, self._poll)

    def _poll(self) -> None:
        """Unblock a paced link over TLS once the kernel would take more."""
        meter, transport = self.meter, self.transport
        if transport is None or transport.is_closing():
            return
        if meter is None or (meter.has_room and not self._unsent()):
            self._polls = False
            self.resume_writing()
        else:
            self.server.later(POLL_S, self._poll)

    def release_pace(self) -> None:
        """Buffer as other links do."""
        self.meter = None
        if self.transport is not None and not self.transport.is_closing():
            self._limit_buffer()

    def _limit_buffer(self) -> None:
        assert self.transport is not None
        limit = self.server.settings.limits.unsent_bytes
        self.transport.set_write_buffer_limits(high=limit, low=limit // 4)

    def hold(self, reason: Hold) -> None:
        """Pause reading from the client."""
        if self.is_ending:
            return
        before, self._holds = self._holds, self._holds | reason
        if not before and self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def let(self, reason: Hold) -> None:
        """Resume reading from the client, unless another reason to pause remains."""
        before, self._holds = self._holds, self._holds & ~reason
        if before and not self._holds and self.transport is not None:
            # What it sent meanwhile was not heard.
            self.connection.heard_at = self.server.now()
            with suppress(RuntimeError):  # it is closing
                self.transport.resume_reading()

    def has_hung_up(self) -> bool:
        """Whether the client is gone; while reading is paused the loop does not notice."""
        if self.transport is None or self.transport.is_closing():
            return True
        found = self.transport.get_extra_info("socket")
        if found is None or found.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(found.fileno(), _HANGING_UP)
        return bool(poll.poll(0))

    def is_held(self, reason: Hold | None = None) -> bool:
        """Whether reading is paused, for this reason or for any."""
        return bool(self._holds if reason is None else self._holds & reason)

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        now = self.server.now()
        if self.meter is not None:
            self.meter.block(now)
        self.blocked_since = now
        self.unsent = self._unsent()
        self.server.hub.block(self.connection, True)

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        if self._polls:
            return
        if self.meter is not None:
            self.meter.unblock(self.server.now())
        self.blocked_since = None
        self.let(Hold.DEAF)
        self.server.hub.block(self.connection, False)
        self.server.soon()

    def stalled_s(self, now: float) -> float:
        """How long the client has read nothing while its write buffer is full."""
        if self.blocked_since is None:
            return 0.0
        unsent = self._unsent()
        if unsent < self.unsent:
            self.blocked_since = now
        self.unsent = unsent
        return now - self.blocked_since

    def _stop_hearing(self) -> None:
        """Stop reading from a client that reads no answers, as these cannot be queued."""
        if self._unsent() > DEAF_AT * self.server.settings.limits.unsent_bytes:
            self.hold(Hold.DEAF)

    @property
    def unsent_bytes(self) -> int:
        """The size of what was written and not sent yet."""
        return self._unsent()

    def _unsent(self) -> int:
        return 0 if self.transport is None else self.transport.get_write_buffer_size()


class SocketLinks:
    """The links of a server, as what classifies them sees them."""

    def figures(self, connection: Connection, now: float) -> LinkFigures | None:
        """The figures of a connection since the last call; None if nothing was measured."""
        link: Link = connection.host  # type: ignore[assignment]  # made by a link
        return None if link.meter is None else link.meter.figures(now, link.unsent_bytes)

    def acknowledged(self, connection: Connection, took_s: float) -> None:
        """Note how long an acknowledgement took."""
        link: Link = connection.host  # type: ignore[assignment]  # made by a link
        if link.meter is not None:
            link.meter.estimator.acknowledged(took_s)

    def release(self, connection: Connection) -> None:
        """Pace a connection no longer."""
        link: Link = connection.host  # type: ignore[assignment]  # made by a link
        link.release_pace()


class TcpLink(Link, asyncio.Protocol):
    """A client's socket, with or without TLS."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called on a new connection."""
        self.open(transport)  # type: ignore[arg-type]  # of a stream

    def data_received(self, data: bytes) -> None:
        """Called on received bytes."""
        self.feed(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Called when the connection is closed."""
        self.server.left(self)


class WebSocketLink(Link):
    """A client's WebSocket: MQTT packets in binary frames, split anywhere."""

    __slots__ = ("_code", "_socket")

    def join(self, socket: WSTransport) -> None:
        """Set up the link on a new WebSocket."""
        self._socket = socket
        self._code = WSCloseCode.OK
        self.open(socket.underlying_transport)

    def frame(self, frame: WSFrame) -> None:
        """Process a received frame."""
        kind = frame.msg_type
        if kind in (WSMsgType.BINARY, WSMsgType.CONTINUATION):
            self.feed(frame.get_payload_as_bytes())
        elif kind == WSMsgType.PING:
            # Only the last of several pings needs a pong, and a client that does not read gets
            # none.
            if self._unsent() <= self.server.settings.limits.unsent_bytes:
                self._socket.send_pong(frame.get_payload_as_bytes())
        elif kind == WSMsgType.CLOSE:
            # The client starts the close, or answers it: it has read everything.
            if not self.is_ending:
                self._socket.send_close(WSCloseCode.OK)
            self._socket.disconnect()
        elif kind == WSMsgType.TEXT and not self.connection.closing:
            # MQTT-6.0.0-1: anything but binary ends the connection.
            self._code = WSCloseCode.UNSUPPORTED_DATA
            self.connection.close()
            self.end(True)

    def write(self, data: bytes) -> None:
        """Write bytes as one frame."""
        self._socket.send(WSMsgType.BINARY, data)

    def _end_writing(self) -> bool:
        self._socket.send_close(self._code)
        super()._end_writing()
        # The client answers a close frame, also over TLS.
        return True


class WebSocketListener(WSListener):
    """Forwards callbacks of the WebSocket library to a link."""

    def __init__(self, link: WebSocketLink) -> None:
        self._link = link

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Called on a new connection."""
        self._link.join(transport)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Called on a received frame."""
        self._link.frame(frame)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """Called when the connection is closed."""
        self._link.server.left(self._link)

    def pause_writing(self) -> None:
        """Called when the client does not read."""
        self._link.pause_writing()

    def resume_writing(self) -> None:
        """Called when the client reads again."""
        self._link.resume_writing()


def peer_of(transport: asyncio.Transport) -> Peer:
    """Return the address and the certificate name of a transport's peer."""
    found = transport.get_extra_info("peername")
    address = str(found[0]) if found else ""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return _plain_peer(address)
    names = [
        str(value)
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    # With several names the owner is ambiguous.
    return Peer(address, is_loopback(address), names[0] if len(names) == 1 else "")


@lru_cache(1_024)
def _plain_peer(address: str) -> Peer:
    return Peer(address, is_loopback(address))


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback address of this machine."""
    return address.startswith("127.") or address in ("::1", "::ffff:127.0.0.1", "")
