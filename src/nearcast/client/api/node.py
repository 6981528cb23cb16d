"""A node in a program: connected to a broker, with a position, publishing and subscribing."""

import secrets
import ssl
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nearcast.client.api.commands import Commands
from nearcast.client.api.exchange import Exchange
from nearcast.client.api.node_follow import NodeFollow
from nearcast.client.api.node_messages import NodeMessages
from nearcast.client.api.node_scripts import NodeScripts
from nearcast.client.api.node_subscriptions import NodeSubscriptions
from nearcast.client.api.options import ClientOptions
from nearcast.client.api.statistics import NodeStatistics
from nearcast.client.errors import OptionsError
from nearcast.client.link.backoff import Backoff
from nearcast.client.link.connection_options import ConnectionOptions
from nearcast.client.receive.mailboxes import Mailboxes
from nearcast.client.receive.streams import StreamContext
from nearcast.wire.mqtt import MQTT_5, Will
from nearcast.wire.peer_frames import CHAIN_TOPIC, parse_peer_address

if TYPE_CHECKING:
    from nearcast.client.peers.chain_relay import ChainRelay

SESSION_EXPIRY_S = 300
RESERVED = ("me", "here")


class Node(NodeMessages, NodeFollow, NodeScripts, NodeSubscriptions):
    """A node and its session; `async with` connects it and closes it.

    After a loss it reconnects automatically: it keeps its session, sends unacknowledged messages
    again, and, if the broker has lost the session, renews its subscriptions and announcements
    before anything else. One object is for one event loop.
    """

    def __init__(
        self,
        url: str,
        options: ClientOptions,
        behaviour: ConnectionOptions,
        p2p: str | None = None,
    ) -> None:
        mailboxes = Mailboxes(options.version)
        self._exchange = Exchange(url, mailboxes, options, behaviour)
        self._relay = None if p2p is None else _relay(p2p, self._exchange)
        self._mailboxes = mailboxes
        context = StreamContext(
            self._exchange, mailboxes, Commands(self._exchange, mailboxes), set()
        )
        NodeMessages.__init__(self, context.commands, options.version)
        NodeFollow.__init__(self, context)
        NodeScripts.__init__(self, context, options.client_id.partition("~")[0])
        NodeSubscriptions.__init__(self, context)

    def __repr__(self) -> str:
        return f"<Node {self._exchange.client_id!r} at {self._exchange.address}>"

    @property
    def client_id(self) -> str:
        """The client id: the node, and `~` with its part if it has one."""
        return self._exchange.client_id

    @property
    def online(self) -> bool:
        """Whether the broker is connected now."""
        return self._exchange.online

    def statistics(self) -> NodeStatistics:
        """Return the sizes of the queues, and message counts."""
        return NodeStatistics(
            self._exchange.sending,
            len(self._mailboxes),
            self._mailboxes.bytes,
            self._mailboxes.received,
            self._mailboxes.repeats,
            self._exchange.connections,
        )

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect; raises `ConnectionLostError`, or `RejectedError` if the broker refuses.

        Only later losses are followed by new attempts.
        """
        if self._relay is not None:
            await self._relay.open()
        try:
            await self._exchange.open()
            await self._commands.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; the session ends too, unless it is to be resumed.

        Calls that wait raise `ConnectionLostError`, and streams end once they are read.
        """
        await self._exchange.close()
        if self._relay is not None:
            await self._relay.close()

    async def settled(self) -> None:
        """Wait until everything is sent and acknowledged, as far as its QoS requires."""
        await self._exchange.settled()


def connect(
    url: str = "mqtt://localhost",
    node: str | None = None,
    *,
    part: str | None = None,
    user: str | None = None,
    password: str | None = None,
    version: int = MQTT_5,
    session_expiry_s: int = SESSION_EXPIRY_S,
    resume: bool = False,
    keep_alive_s: int = 60,
    will: Will | None = None,
    tls: ssl.SSLContext | None = None,
    backoff: Backoff = Backoff(),  # noqa: B008  # frozen
    seed: int | None = None,
    p2p: str | None = None,
) -> Node:
    """Return a node that `async with` connects to a broker.

    `url` begins with mqtt://, mqtts://, ws:// or wss://. `node` is the name of the node; without
    one the broker chooses. A `part` has a session of its own and shares the node's context, so that
    several programs can be one node. `version` is that of MQTT: 5, or 4 for 3.1.1.

    The broker keeps the session for `session_expiry_s` after a connection is lost, and queues
    messages of QoS 1 and 2 meanwhile. With `resume` it also keeps it after a normal disconnection,
    and the next run of the program continues it: messages for subscriptions that were kept are
    delivered then. MQTT 3 keeps a session only with `resume`, for a time that the broker decides.

    `p2p` offers to pass messages on to other clients: the IPv4 address and port, `HOST:PORT`, at
    which they reach this one. It needs MQTT 5 and the extra `p2p`.

    Raises `AddressError` and `OptionsError` (both `ValueError`) for invalid arguments.
    """
    options = ClientOptions(
        client_id=_client_id(node, part),
        version=version,
        clean_start=not resume,
        session_expiry_s=session_expiry_s if version == MQTT_5 else 0,
        ends_session=not resume,
        keep_alive_s=keep_alive_s,
        username=user,
        password=None if password is None else password.encode(),
        will=will,
        accepts_encoded=version == MQTT_5,
        user_properties=() if p2p is None else (("nc-p2p", p2p),),
        # An older session of this id may have left unfinished messages under low packet ids.
        first_packet_id=secrets.randbelow(0xFFFF) + 1,
    )
    return Node(url, options, ConnectionOptions(backoff=backoff, seed=seed, tls=tls), p2p)


def _relay(p2p: str, exchange: Exchange) -> "ChainRelay":
    """Return the part of a node that passes messages on."""
    try:
        from nearcast.client.peers.chain_relay import ChainRelay
    except ImportError:
        raise OptionsError("p2p needs the package cryptography: install nearcast[p2p]") from None
    try:
        address = parse_peer_address(p2p)
    except ValueError as error:
        raise OptionsError(f"p2p: {error}") from None
    relay = ChainRelay(
        address,
        exchange.take_passed_on,
        lambda numbers: exchange.publish_if_online(CHAIN_TOPIC, numbers),
    )
    exchange.relay = relay
    return relay


def _client_id(node: str | None, part: str | None) -> str:
    if node is None:
        if part is not None:
            raise OptionsError("a part is a part of a node; give the node too")
        return ""
    if not node or "~" in node or node in RESERVED:
        raise OptionsError(
            f"{node!r} is no node; a name without ~ is, but not me or here (a part is part=...)"
        )
    return node if part is None else f"{node}~{part}"
