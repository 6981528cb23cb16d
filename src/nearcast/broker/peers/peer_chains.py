"""Chains of peers at the broker: what can go along chains does, once per chain.

Within a tick, messages of QoS 0 that are the same for several peers are collected and leave
together: one push to the first of each chain. Whoever does not confirm in time gets the message
directly. While a chain of a topic is open, later messages of that topic go directly, so that what
is passed on stays in order.
"""

import hmac
from collections.abc import Callable, Sequence
from math import inf

import msgspec
import numpy as np
from msgspec import Struct

from nearcast.broker.config.settings import PropagationSection
from nearcast.broker.ingest.random_ids import RandomBytes
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.peers.broker_key import BrokerKey
from nearcast.broker.sessions.session import Session
from nearcast.core.model.geometry.position import Position
from nearcast.core.propagation.chains.chain_ledger import ChainLedger, LedgerSettings
from nearcast.core.propagation.chains.chain_message import ChainMessage
from nearcast.core.propagation.chains.chain_plan import Peers, plan_chains
from nearcast.wire.chain_frames import MOST_RECIPIENTS, encode_chain
from nearcast.wire.mqtt import Publish, ReasonCode, plain_publish, topic_field
from nearcast.wire.peer_frames import (
    CHAIN_TOPIC,
    HINT_BYTES,
    KEY_BYTES,
    NONCE_BYTES,
    PEER_TOPIC,
    PeerNews,
    host_and_port,
    parse_peer_address,
    token_hint,
)

_UNSIGNED = bytes(64)
_MOST_CONFIRMED = 10_000
_MOST_OFFERS = 1_000
_CHAIN, _PEER = topic_field(CHAIN_TOPIC), topic_field(PEER_TOPIC)
_NUMBERS = msgspec.json.Decoder(list[int])


class PeerOffer(Struct, frozen=True):
    """An address that a client offered, to be proved."""

    connection: Connection
    address: bytes
    token: bytes

    def nonce(self, random: bytes) -> bytes:
        """Return what to challenge with."""
        return token_hint(self.token) + random[HINT_BYTES:]

    def is_proved(self, nonce: bytes, key: bytes, proof: bytes) -> bool:
        """Return whether an answer to a challenge is of the client of this connection."""
        return hmac.compare_digest(proof, hmac.digest(self.token, nonce + key, "sha256"))


class _Collected(Struct):
    topic: str
    connections: list[Connection]


class PeerChains:
    """The peers of a broker, and the messages that they pass on."""

    def __init__(
        self,
        settings: PropagationSection,
        random_bytes: RandomBytes,
        position: Callable[[str], Position | None],
    ) -> None:
        """`position` tells where a node is."""
        self._settings = settings
        self._position = position
        self._random_bytes = random_bytes
        self._key = BrokerKey()
        self._ledger = ChainLedger[Connection](
            LedgerSettings(settings.confirm_within_s, settings.confirm_per_hop_s)
        )
        self._collected: dict[bytes, _Collected] = {}
        self._contents: dict[int, tuple[str, bytes]] = {}
        self._open_topics: dict[str, int] = {}
        self._number = 0
        self.offers: list[PeerOffer] = []
        """Addresses that the host is to prove."""
        self.pushes = self.chains = self.direct = self.sent_again = 0
        """Messages of peers: pushes in all, to the first of chains, directly, and directly after
        all."""
        self.is_used = False
        """Some client has offered an address; until then there is nothing to do here."""
        self.peers = 0
        """How many clients are peers."""
        self._told: list[Connection] = []

    # Becoming a peer

    def offer(self, connection: Connection, offered: str) -> None:
        """Note an address that a client offers; it is used when it is proved."""
        self.is_used = True
        try:
            address = self._checked(connection, offered)
        except ValueError as error:
            self._tell(connection, PeerNews(refused=str(error)))
            return
        token = self._random_bytes(NONCE_BYTES)
        self._tell(connection, PeerNews(token=token.hex()))
        self.offers.append(PeerOffer(connection, address, token))

    def _checked(self, connection: Connection, offered: str) -> bytes:
        """Return an address, or raise `ValueError` if it cannot be used."""
        if not self._settings.chains:
            raise ValueError("this broker builds no chains")
        if len(self.offers) >= _MOST_OFFERS:
            raise ValueError("too many clients offer addresses; connect again later")
        address = parse_peer_address(offered)
        host, _ = host_and_port(address)
        # A broker that asked anywhere would attack others on behalf of its clients.
        if host != connection.peer.address:
            raise ValueError(f"nc-p2p is at {connection.peer.address}, where the client is")
        return address

    def proved(self, offer: PeerOffer, key: bytes) -> None:
        """Let a client be a peer: it has answered the challenge at its address."""
        connection = offer.connection
        if connection.closing or connection.session is None or len(key) != KEY_BYTES:
            return
        credential = self._key.credential(offer.address, key).encode()
        news = PeerNews(
            broker_key=self._key.public.hex(), credential=credential.hex(),
            address=offer.address.hex(), first_number=self._number + 1,
        )  # fmt: skip
        self._tell(connection, news)
        connection.chain_address = offer.address
        connection.chains = self
        connection.session.update_direct_connection()
        self.peers += 1

    def refused(self, offer: PeerOffer, why: str) -> None:
        """Tell a client that its address was not proved."""
        if not offer.connection.closing:
            self._tell(offer.connection, PeerNews(refused=why))

    def leave(self, connection: Connection) -> None:
        """Expect nothing of a connection that is lost."""
        if connection.chains is self:
            connection.chains = None
            if connection.session is not None:
                connection.session.update_direct_connection()
            self.peers -= 1
            self._ledger.leave(connection)

    # Messages

    def collect(self, connection: Connection, topic: str, frame: bytes) -> None:
        """Take a message for a peer; it leaves with `flush`."""
        found = self._collected.get(frame)
        if found is None:
            found = self._collected[frame] = _Collected(topic, [])
        found.connections.append(connection)

    def flush(self, now: float) -> Sequence[Connection]:
        """Write what was collected and what is late; return the connections written to."""
        touched, self._told = self._told, []
        for frame, collected in self._collected.items():
            touched += self._send(frame, collected, now)
        self._collected.clear()
        for connection, number in self._ledger.due(now):
            if connection.closing or connection.session is None:
                continue
            topic_and_content = self._contents[number]
            message = ChainMessage(number, topic_and_content[1], (), 1, _UNSIGNED)
            self._push(connection, message)
            self.sent_again += 1
            touched.append(connection)
        self._forget_closed()
        return touched

    @property
    def has_work(self) -> bool:
        """Whether `flush` may have something to write."""
        return bool(self.peers or self._told or self._ledger.next_due() is not None)

    @property
    def open_messages(self) -> int:
        """How many messages somebody has not confirmed."""
        return len(self._contents)

    @property
    def next_due(self) -> float:
        """When `flush` is due without new messages; infinite if it is not."""
        due = self._ledger.next_due()
        return inf if due is None else due

    def statistics(self) -> dict[str, float]:
        """Return counters and gauges."""
        return {
            "peers": self.peers,
            "peer_pushes_total": self.pushes,
            "peer_chains_total": self.chains,
            "peer_sent_again_total": self.sent_again,
            "peer_unconfirmed": self._ledger.missing,
        }

    def confirm(
        self, connection: Connection, _session: Session, packet: Publish, now: float
    ) -> None:
        """Take a confirmation: the numbers of messages that a peer has."""
        try:
            numbers = _NUMBERS.decode(packet.payload)
        except (msgspec.MsgspecError, UnicodeError) as error:
            why = f"a confirmation is a list of numbers: {error}"
            raise RefusedError(ReasonCode.PAYLOAD_FORMAT_INVALID, why) from None
        self._ledger.confirm(connection, numbers[:_MOST_CONFIRMED])
        self._forget_closed()

    def _send(self, frame: bytes, collected: _Collected, now: float) -> list[Connection]:
        passing = [each for each in collected.connections if self._ledger.may_pass_on(each, now)]
        in_order = collected.topic not in self._open_topics
        if not in_order or len(passing) < 2 or not self._ledger.has_room(len(passing)):
            passing = []
        chosen = set(passing)
        touched = []
        for connection in collected.connections:
            if connection not in chosen:
                self._write_directly(connection, frame)
                touched.append(connection)
        if not passing:
            return touched
        self._number += 1
        for places in self._plan(passing):
            members = [passing[place] for place in places]
            touched.append(members[0])
            if len(members) == 1:
                self._write_directly(members[0], frame)
                continue
            addresses = [each.chain_address for each in members]
            degree = self._settings.degree
            self._ledger.begin(self._number, members, degree, now)
            self._contents[self._number] = (collected.topic, frame)
            self._open_topics[collected.topic] = self._number
            self._push(members[0], self._key.chain(self._number, frame, addresses, degree))
            self.chains += 1
        return touched

    def _plan(self, passing: list[Connection]) -> list[list[int]]:
        sessions = [each.session for each in passing]
        at = [None if each is None else self._position(each.node) for each in sessions]
        peers = Peers(
            np.array([np.nan if each is None else each.lat for each in at]),
            np.array([np.nan if each is None else each.lon for each in at]),
            np.array([self._ledger.is_weak(each) for each in passing]),
        )
        chains = plan_chains(peers, self._settings.percent)
        return [
            chain[first : first + MOST_RECIPIENTS].tolist()
            for chain in chains
            for first in range(0, len(chain), MOST_RECIPIENTS)
        ]

    def _push(self, connection: Connection, message: ChainMessage) -> None:
        connection.out.append(plain_publish(_CHAIN, b"", encode_chain(message), True))
        self.pushes += 1

    def _write_directly(self, connection: Connection, frame: bytes) -> None:
        connection.out.append(frame)
        self.pushes += 1
        self.direct += 1

    def _tell(self, connection: Connection, news: PeerNews) -> None:
        connection.out.append(plain_publish(_PEER, b"", msgspec.json.encode(news), True))
        self._told.append(connection)

    def _forget_closed(self) -> None:
        for number in [each for each in self._contents if not self._ledger.is_open(each)]:
            topic, _ = self._contents.pop(number)
            if self._open_topics.get(topic) == number:
                del self._open_topics[topic]
