"""What a node does as a peer: takes messages of chains, passes them on, and confirms them."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from nearcast.client.peers.peer_identity import PeerIdentity
from nearcast.client.peers.peer_port import PeerPort
from nearcast.core.propagation.chains.chain_member import ChainMember
from nearcast.logs import log_event
from nearcast.wire.chain_frames import decode_chain
from nearcast.wire.encoding.errors import DecodingError
from nearcast.wire.mqtt import MQTT_5, Decoder, ProtocolError, Publish, Sender
from nearcast.wire.peer_frames import PEER_TOPIC, read_news

CONFIRM_AFTER_S = 0.1
"""Confirmations of that time leave as one."""
MOST_WAITING = 1_000
"""Messages that wait to be passed on; beyond, the broker sends them itself."""

log = logging.getLogger("nearcast.client")


class ChainRelay:
    """A node as a member of chains, over all its connections to a broker."""

    def __init__(
        self,
        address: bytes,
        deliver: Callable[[Publish], None],
        confirm: Callable[[bytes], None],
    ) -> None:
        """`deliver` takes messages, `confirm` sends numbers to the broker."""
        self._address = address
        self._deliver = deliver
        self._confirm = confirm
        self._identity = PeerIdentity()
        self._member: ChainMember | None = None
        self.port = PeerPort(address, self._identity, self._passed_on)
        self._sending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.refused = 0
        """Messages that were forged, repeated or for others."""

    @property
    def is_peer(self) -> bool:
        """Whether the broker has proved its address."""
        return self._member is not None

    async def open(self) -> None:
        """Listen."""
        await self.port.open()

    async def close(self) -> None:
        """Take and pass on nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._sending:
            task.cancel()
        await self.port.close()

    def lost(self) -> None:
        """Be no peer until the broker says so again: the connection is lost."""
        self._identity.forget()
        self._member = None

    def from_broker(self, message: Publish) -> None:
        """Take what the broker sent to a peer: news, or a chain message."""
        try:
            if message.topic != PEER_TOPIC:
                self._take(message.payload, from_broker=True)
                return
            news = read_news(message.payload)
            self._identity.take(news)
        except DecodingError as error:
            log_event(log, logging.WARNING, "unknown message to a peer", why=str(error))
            return
        if news.refused:
            log_event(log, logging.WARNING, "messages are not passed on here", why=news.refused)
        if self._identity.credential is not None:
            verify = self._identity.is_of_broker
            self._member = ChainMember(verify, news.first_number, self._address)

    def _passed_on(self, data: bytes) -> None:
        self._take(data, from_broker=False)

    def _take(self, data: bytes, *, from_broker: bool) -> None:
        member, message = self._member, decode_chain(data)
        if from_broker and not message.members:
            if member is None or member.receive_directly(message.number):
                self._open(message.content)
            self._confirm_soon()
            return
        if member is None:
            raise DecodingError("this is no peer")
        reception = member.receive(message)
        if reception.refused:
            self.refused += 1
            return
        for address in reception.next_members:
            self._send(address, data)
        if reception.content is not None:
            self._open(reception.content)
        self._confirm_soon()

    def _send(self, address: bytes, data: bytes) -> None:
        if len(self._sending) < MOST_WAITING:
            task = asyncio.get_running_loop().create_task(self.port.pass_on(address, data))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _open(self, content: bytes) -> None:
        """Deliver the message in a frame that the broker signed."""
        try:
            packets = Decoder(sender=Sender.SERVER, version=MQTT_5).feed(content)
        except ProtocolError as error:
            raise DecodingError(f"a chain holds no message: {error}") from None
        for packet in packets:
            if isinstance(packet, Publish):
                packet.validate(Sender.SERVER)
                self._deliver(packet)

    def _confirm_soon(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(CONFIRM_AFTER_S, self._confirm_now)

    def _confirm_now(self) -> None:
        self._timer = None
        numbers = () if self._member is None else self._member.confirmation()
        if numbers:
            self._confirm(msgspec.json.encode(numbers))
