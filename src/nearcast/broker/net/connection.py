"""A network connection as the hub has it: its state and its output.

No I/O: the host (a socket, a WebSocket, a simulated link) is opaque here. Slots, because there are
tens of thousands of these and most are idle.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nearcast.broker.auth import Admitted, Peer
from nearcast.broker.auth.admission import SOMEBODY
from nearcast.broker.auth.permissions import ANYTHING, Permissions
from nearcast.wire.mqtt import (
    MQTT_5,
    Decoder,
    Packet,
    ProtocolError,
    PublishFrame,
    Will,
    topic_alias,
)

if TYPE_CHECKING:
    from nearcast.broker.delivery.payload_encoder import PayloadEncoder
    from nearcast.broker.ingest.filters_request import FiltersRequest
    from nearcast.broker.peers.peer_chains import PeerChains
    from nearcast.broker.scheduling.cost_account import Flow
    from nearcast.broker.sessions.session import Session

NO_HOST = object()
_NO_DICTIONARIES: frozenset[int] = frozenset()
"""One for all: each empty set would be 216 bytes."""


class Connection:
    """One connection, from CONNECT to its end."""

    __slots__ = (
        "acknowledgements", "admitted", "alias_most", "aliases_in", "aliases_out", "backlog",
        "blocked", "chain_address", "chains", "closing", "decoder", "dictionaries", "encoder",
        "explains", "failure", "farewell", "flow", "has_left",
        "heard_at", "host", "inbound", "is_bridge", "is_undecided", "keep_alive_s",
        "largest_packet", "out", "peer", "permissions", "request", "session", "since", "touched",
        "trusted", "version", "waits", "will",
    )  # fmt: skip

    def __init__(
        self,
        host: object = NO_HOST,
        peer: Peer = SOMEBODY,
        since: float = 0.0,
        trusted: Admitted | None = None,
    ) -> None:
        self.host = host
        self.peer = peer
        self.since = since
        self.session: Session | None = None
        self.version = 0
        self.keep_alive_s = 0.0
        self.heard_at = since
        self.will: Will | None = None
        self.trusted = trusted
        """The identity of a link inside the broker, which is not authenticated."""
        self.admitted: Admitted | None = None
        self.permissions: Permissions = ANYTHING
        self.out: list[bytes] = []
        """Data to write, in order."""
        self.farewell = b""
        """The last packet to write: a DISCONNECT."""
        self.acknowledgements = 0
        """How many acknowledgements are in `out`."""
        self.inbound = 0
        """Messages of QoS 1 and 2 from the client whose handshake is not complete."""
        self.touched = False
        self.closing = False
        self.blocked = False
        """The client does not read: messages stay in the queue."""
        self.waits = False
        """An answer to this client is pending in this tick."""
        self.largest_packet = 0
        self.alias_most = 0
        self.aliases_in: dict[int, str] | None = None
        self.aliases_out: dict[str, int] | None = None
        self.encoder: PayloadEncoder | None = None
        """Encodes payloads in what the client accepts; None: nothing but plain payloads."""
        self.dictionaries = _NO_DICTIONARIES
        """The ids of the dictionaries that the client was told."""
        self.chains: PeerChains | None = None
        """Takes what may go along chains of peers; None: the client is no peer."""
        self.chain_address = b""
        """The proved address of a peer."""
        self.explains = True
        """The client wants reason strings."""
        self.flow: Flow | None = None
        """Its share of the broker's work, from the first bytes on."""
        self.decoder: Decoder | None = None
        """Bytes that were received and not read yet are in it."""
        self.backlog: list[Packet] | tuple[()] = ()
        """Packets that were read and wait to be processed."""
        self.request: FiltersRequest | None = None
        """The request that the first packet of the backlog goes on with."""
        self.failure: ProtocolError | None = None
        """The error in its bytes after the packets of the backlog."""
        self.is_bridge = False
        """It speaks for the clients of another broker."""
        self.is_undecided = False
        """Its CONNECT is not decided: everything after it waits."""
        self.has_left = False
        """The client is gone; its input that waits is processed first."""

    @property
    def must_wait(self) -> bool:
        """Whether it is not read until its input has had its turn, or by the limit of its rate."""
        flow = self.flow
        return flow is not None and (flow.is_waiting or flow.paced_until > 0.0)

    @property
    def has_input(self) -> bool:
        """Whether received input waits to be processed."""
        return bool(self.backlog or (self.decoder is not None and self.decoder.unread))

    def keep(self, packets: Sequence[Packet]) -> None:
        """Let packets wait behind those that wait already."""
        if isinstance(self.backlog, list):
            self.backlog += packets
        else:
            self.backlog = list(packets)

    def close(self) -> None:
        """End the output after `out` and `farewell`."""
        self.closing = True
        if self.session is not None:
            self.session.update_direct_connection()

    def block(self, blocked: bool) -> None:
        """Set whether the client does not read."""
        self.blocked = blocked
        if self.session is not None:
            self.session.update_direct_connection()

    def alias(self, frame: PublishFrame) -> tuple[bytes, bool]:
        """The topic alias property for a frame, and whether the client already knows the alias."""
        if not self.alias_most or self.version != MQTT_5:
            return b"", False
        if self.aliases_out is None:
            self.aliases_out = {}
        known = self.aliases_out.get(frame.topic)
        if known is not None:
            return topic_alias(known), True
        number = len(self.aliases_out) + 1
        if number > self.alias_most:
            return b"", False
        self.aliases_out[frame.topic] = number
        return topic_alias(number), False

    def forget_alias(self, topic: str) -> None:
        """Drop the alias of a packet that was not sent."""
        if self.aliases_out is not None:
            del self.aliases_out[topic]

    def take(self) -> bytes:
        """Return all data to write as one piece, and clear it."""
        out = self.out
        if self.farewell:
            out.append(self.farewell)
            self.farewell = b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data
