"""A plain server for one client, in memory: it keeps the rules of MQTT and checks the client's.

What it got and what it has to say is in lists; nothing is clever. A link carries bytes both ways,
as many as it is told to, and loses what it holds when it is cut.
"""

from collections import deque

from nearcast.client.protocol.protocol import ClientProtocol
from nearcast.client.protocol.protocol_events import Happened
from nearcast.wire.mqtt import (
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Sender,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    encode,
)


class ReferenceServer:
    """One session: what the client published, and what is to be published to it."""

    def __init__(
        self, version: int = 5, receive_maximum: int = 65_535, delivers_on_release: bool = False
    ) -> None:
        self.version = version
        self.receive_maximum = receive_maximum
        self.delivers_on_release = delivers_on_release
        self.connack = Properties(receive_maximum=receive_maximum) if version == 5 else Properties()
        self.got: list[Publish] = []
        self.seen: list[Packet] = []
        self.filters: dict[str, int] = {}
        self.remembers = False
        self.refuses: ReasonCode | None = None
        self.answers = True
        self._held: dict[int, Publish] = {}
        self._to_send: deque[Publish] = deque()
        self._sent: dict[int, Publish | PubRel] = {}
        self._next_id = 0
        self._connected = False
        # Messages of this session, and whether it began with this connection.
        self._known: set[tuple[int, bytes]] = set()
        self._fresh = True
        self.out = b""

    def begin(self) -> None:
        self._decoder = Decoder(sender=Sender.CLIENT)
        self._connected = False
        self._unanswered: set[int] = set()
        self.out = b""

    def forget(self) -> None:
        """Lose the session, as a server does that keeps none; its messages come anew."""
        self.remembers = False
        self.filters.clear()
        self._held.clear()
        self._known.clear()
        again = [packet for packet in self._sent.values() if isinstance(packet, Publish)]
        self._to_send.extendleft(reversed(again))
        self._sent.clear()

    def publish(self, packet: Publish) -> None:
        self._to_send.append(packet)
        self._send()

    def say(self, packet: Packet) -> None:
        self.out += encode(packet, self.version)

    def receive(self, data: bytes) -> None:
        for packet in self._decoder.feed(data):
            self.seen.append(packet)
            if self.answers:
                self._handle(packet)

    def _handle(self, packet: Packet) -> None:
        assert self._connected or isinstance(packet, Connect)
        match packet:
            case Connect():
                self._connect(packet)
            case Publish():
                self._published(packet)
            case PubRel():
                self._unanswered.discard(packet.packet_id)
                held = self._held.pop(packet.packet_id, None)
                if held is not None and self.delivers_on_release:
                    self.got.append(held)
                self.say(PubComp(packet.packet_id))
            case PubAck() | PubComp():
                del self._sent[packet.packet_id]
                self._send()
            case PubRec():
                # A dictionary keeps the place of a key: moved, as it is answered now.
                self._sent.pop(packet.packet_id)
                self._sent[packet.packet_id] = PubRel(packet.packet_id)
                self.say(PubRel(packet.packet_id))
            case Subscribe():
                self.filters.update((wanted.filter, wanted.qos) for wanted in packet.filters)
                codes = tuple(ReasonCode(wanted.qos) for wanted in packet.filters)
                self.say(SubAck(packet.packet_id, codes))
            case Unsubscribe():
                codes = tuple(
                    ReasonCode.NO_SUBSCRIPTION_EXISTED
                    if self.filters.pop(name, None) is None
                    else ReasonCode.SUCCESS
                    for name in packet.filters
                )
                self.say(UnsubAck(packet.packet_id, codes))
            case PingReq():
                self.say(PingResp())
            case _:
                assert isinstance(packet, Disconnect)

    def _connect(self, packet: Connect) -> None:
        if self.refuses is not None:
            self.say(ConnAck(reason_code=self.refuses))
            return
        self._connected = True
        if packet.clean_start:
            self.forget()
        self._fresh = not self.remembers
        self.say(ConnAck(self.remembers, ReasonCode.SUCCESS, self.connack))
        lasting = packet.properties.session_expiry_interval if self.version == 5 else None
        self.remembers = bool(lasting) if self.version == 5 else not packet.clean_start
        for sent in self._sent.values():
            self.say(_again(sent))
        self._send()

    def _published(self, packet: Publish) -> None:
        if not packet.qos:
            self.got.append(packet)
            return
        assert packet.dup or (packet.packet_id, packet.payload) not in self._known, "DUP is missing"
        assert not (packet.dup and self._fresh), "DUP is set on a new message"
        self._known.add((packet.packet_id, packet.payload))
        self._unanswered.add(packet.packet_id)
        assert len(self._unanswered) <= self.receive_maximum, "more than the Receive Maximum"
        if packet.qos == 1:
            self.got.append(packet)
            self._unanswered.discard(packet.packet_id)
            self.say(PubAck(packet.packet_id))
            return
        if packet.packet_id not in self._held:
            self._held[packet.packet_id] = packet
            if not self.delivers_on_release:
                self.got.append(packet)
        self.say(PubRec(packet.packet_id))

    def _send(self) -> None:
        while self._connected and self._to_send:
            packet = self._to_send[0]
            if packet.qos:
                if len(self._sent) == 3:
                    return
                packet = self._numbered(packet)
            self._to_send.popleft()
            self.say(packet)

    def _numbered(self, packet: Publish) -> Publish:
        self._next_id = self._next_id % 5 + 1
        while self._next_id in self._sent:
            self._next_id = self._next_id % 5 + 1
        numbered = Publish(
            packet.topic, packet.payload, packet.qos, packet.retain, False, self._next_id
        )
        self._sent[self._next_id] = numbered
        return numbered


def _again(packet: Publish | PubRel) -> Publish | PubRel:
    if isinstance(packet, PubRel):
        return packet
    return Publish(packet.topic, packet.payload, packet.qos, packet.retain, True, packet.packet_id)


class Link:
    """A transport between a client and a server, by hand."""

    def __init__(self, client: ClientProtocol, server: ReferenceServer) -> None:
        self.client = client
        self.server = server
        self.happened: list[Happened] = []
        self.up = False
        self._to_server = b""
        self._to_client = b""

    def connect(self, now: float = 0.0) -> None:
        if not self.up:
            self.up = True
            self.server.begin()
            self.client.connected_transport(now)

    def cut(self, now: float = 0.0) -> None:
        if self.up:
            self.up = False
            self._to_server = self._to_client = b""
            self.client.disconnected_transport(now)
            self.server.begin()

    def carry(self, forth: int, back: int, now: float = 0.0) -> bool:
        """Carry at most so many bytes; return whether there was anything to carry."""
        if not self.up:
            return False
        self._to_server += self.client.take()
        data, self._to_server = self._to_server[:forth], self._to_server[forth:]
        if data:
            self.server.receive(data)
        self._to_client += self.server.out
        self.server.out = b""
        came, self._to_client = self._to_client[:back], self._to_client[back:]
        if came:
            self.happened += self.client.receive(came, now)
        self.client.validate_state()
        if self.client.should_close:
            self.server.receive(self._to_server + self.client.take())
            self.cut(now)
        return bool(data or came)

    def settle(self, now: float = 0.0) -> None:
        """Carry until all has been said."""
        while self.carry(1 << 20, 1 << 20, now):
            pass
