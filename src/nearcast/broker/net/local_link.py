"""A link inside the broker: a part of it that acts as a client, without a socket.

It is not authenticated and has all permissions, so only broker code can create one: a trusted
connection never comes from a listener. No client may connect as its node. Its packets wait for
ticks and for the disk like those of any client.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from nearcast.broker.auth import Admitted, Identity, Peer
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.links import Hold, Link
from nearcast.core.propagation.link_pace import LinkPace
from nearcast.wire.mqtt import Packet

if TYPE_CHECKING:
    from nearcast.broker.server import Server

HERE = Peer("", True)


class Participant(Protocol):
    """The part of the broker at the other end of a link."""

    def receive(self, data: bytes) -> None:
        """Process data that the broker wrote."""

    def let_go(self) -> None:
        """Called once when the link has ended; nothing follows."""

    def wait(self, wanted: bool) -> None:
        """Stop sending while too much waits for the disk, or resume."""


class LocalLink(Link):
    """A connection of a broker part."""

    __slots__ = ("participant",)

    def __init__(self, server: "Server", client_id: str, participant: Participant) -> None:
        super().__init__(server)
        self.participant = participant
        self.transport = _Inside(self)
        trusted = Admitted(Identity(superuser=True), client_id, HERE)
        self.connection = Connection(self, HERE, server.now(), trusted)

    def send(self, packets: Sequence[Packet]) -> None:
        """Send packets to the broker, the CONNECT first."""
        server, connection = self.server, self.connection
        if connection.closing:
            return
        server.hub.receive(connection, packets, server.begin())
        if connection.must_wait:
            self.hold(Hold.TURN)
        server.soon()
        if server.is_full:
            server.pause(self)

    def write(self, data: bytes) -> None:
        """Pass data of the broker to the participant."""
        # A keep-alive could only have been set by the broker.
        self.connection.keep_alive_s = 0.0
        self.participant.receive(data)

    def write_paced(self, data: bytes, pace: LinkPace) -> None:
        """Pass data on: there is no network to be the bottleneck."""
        self.write(data)

    def release_pace(self) -> None:
        """Nothing is paced."""

    def end(self, spoke: bool) -> None:
        """Close at once: there is no network that could lose data."""
        self.close()

    def close(self) -> None:
        """Close, from either side."""
        assert self.transport is not None
        self.transport.close()


class _Inside(asyncio.Transport):
    """The transport interface that a server needs, without a network."""

    def __init__(self, link: LocalLink) -> None:
        super().__init__()
        self._link = link
        self._closed = False

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._link.server.left(self._link)
            self._link.participant.let_go()

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._link.participant.wait(True)

    def resume_reading(self) -> None:
        self._link.participant.wait(False)

    def get_write_buffer_size(self) -> int:
        return 0


def reserve(server: "Server", node: str) -> None:
    """Reserve a node name, so that no client can connect as it."""
    server.hub.connect_handler.own_nodes.add(node)
