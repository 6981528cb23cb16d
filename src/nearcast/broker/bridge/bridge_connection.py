"""A crossing: packets between this broker and another, during one connection.

To either side the bridge is a client. A message keeps its packet identifier on the way, and is
acknowledged to one side when the other has acknowledged it. So a crossing stores no messages: those
in flight when it ends are sent again by the side that has them on disk, and QoS 2 messages arrive
once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nearcast.broker.bridge.bridge_terms import (
    AS_BRIDGE,
    SUBSCRIBING,
    BridgeCounters,
    BridgeTerms,
    opening,
)
from nearcast.broker.net.local_link import LocalLink
from nearcast.broker.sessions.session_lifecycle import FOREVER
from nearcast.client.errors import RejectedError
from nearcast.client.link.transports import Transport
from nearcast.core.model.event import Event
from nearcast.core.model.subject import subject_matches
from nearcast.logs import log_event
from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    ProtocolError,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    Sender,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    encode,
    success,
)
from nearcast.wire.mqtt.errors import forbidden

if TYPE_CHECKING:
    from nearcast.broker.server import Server

KEEP_ALIVE_S = 30
ANSWER_WITHIN_S = 10.0
MOST_HELD = 0xFFFF
_OLD_REFUSAL = bytes((0x20, 2, 0, 1))
"""How a server that supports only MQTT 3 refuses the version."""

log = logging.getLogger("nearcast.broker")


class BridgeConnection:
    """One connection to the other broker, and one to this one."""

    def __init__(
        self,
        server: "Server",
        terms: BridgeTerms,
        tally: BridgeCounters,
        *,
        version: int,
        fresh: bool,
        exchange: bool,
        met: Callable[[], None],
    ) -> None:
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it ended; `RejectedError` if the other broker refused it."""
        self.exchanged = False
        """Whether both sides have sent their retained messages."""
        self.cleared = False
        """Whether the other broker has ended its session, as a fresh bridge requires."""
        self.version = version
        self.sends = version == MQTT_5 or not terms.echoes
        """MQTT 3 has no No Local: messages that would be returned are not sent."""
        self._server = server
        self._terms = terms
        self._tally = tally
        self._fresh = fresh
        """Only end a session that the other broker may have from an earlier installation."""
        self._exchange = exchange
        self._on_met = met
        self._loop = asyncio.get_running_loop()
        self._transport: Transport | None = None
        self._local: LocalLink | None = None
        self._theirs = Decoder(
            server.settings.limits.packet_bytes, sender=Sender.SERVER, version=version
        )
        self._ours = Decoder(sender=Sender.SERVER, version=MQTT_5)
        self._limits = NO_PROPERTIES
        self._keep_alive_s = KEEP_ALIVE_S
        self._timer: asyncio.TimerHandle | None = None
        self._silent = False
        """Nothing was received since the last ping."""
        self._reading = True
        self._held: deque[Publish] = deque()
        """Messages above the receive maximum, from a broker that does not know the limit."""
        self._forgotten: set[int] = set()
        """QoS 2 messages that the other broker will not release."""
        self._known: set[str] = set()
        """Retained subjects from the other broker that were already known here."""

    def begin(self, transport: Transport) -> None:
        """Send CONNECT over the open transport."""
        terms, properties = self._terms, NO_PROPERTIES
        self._transport = transport
        if self.version == MQTT_5:
            limits = self._server.settings.limits
            properties = Properties(
                session_expiry_interval=None if self._fresh else FOREVER,
                receive_maximum=limits.receive_maximum,
                maximum_packet_size=limits.packet_bytes,
                user_properties=AS_BRIDGE,
            )
        hello = Connect(
            terms.client_id, self.version, self._fresh, KEEP_ALIVE_S,
            username=terms.username, password=terms.password, properties=properties,
        )  # fmt: skip
        transport.write(encode(hello, self.version))
        self._timer = self._loop.call_later(ANSWER_WITHIN_S, self._tick)

    def leave(self) -> None:
        """Disconnect from both sides; the other broker queues further messages."""
        if self._transport is not None:
            self._transport.write(encode(Disconnect(), self.version))
            self._transport.close()
        self._close_local()

    def end(self, why: str | Exception) -> None:
        """Abort the connection, and set the reason."""
        if self.gone.done():
            return
        if isinstance(why, Exception):
            self.gone.set_exception(why)
        else:
            self.gone.set_result(why)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        self._close_local()

    # Events of the transport to the other broker

    def received(self, data: bytes) -> None:
        """Process bytes from the other broker."""
        if self.gone.done():
            return
        self._silent = False
        fault = None
        try:
            packets = self._theirs.feed(data)
        except ProtocolError as error:
            packets, fault = error.packets, error
        try:
            if self._local is None and data == _OLD_REFUSAL:
                packets, fault = [ConnAck(False, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)], None
            self._take(packets)
        except ProtocolError as error:
            fault = fault or error
        if fault is not None:
            self.end(f"it broke the protocol: {fault}")

    def lost(self, why: str) -> None:
        """Handle the loss of the transport."""
        self._transport = None
        self.end(why)

    def pause_writing(self) -> None:
        """Stop sending while the other broker does not read."""
        if self._local is not None:
            self._local.pause_writing()

    def resume_writing(self) -> None:
        """Resume sending."""
        if self._local is not None:
            self._local.resume_writing()

    # Events of the link to this broker

    def receive(self, data: bytes) -> None:
        """Process bytes from this broker."""
        out: list[bytes] = []
        back: list[Packet] = []
        for packet in self._ours.feed(data):
            self._outward(packet, out, back)
        if out and self._transport is not None:
            self._transport.write(b"".join(out))
        if back and self._local is not None:
            self._local.send(back)
        if self._held:
            self._loop.call_soon(self._let_in, [])

    def let_go(self) -> None:
        """Handle the end of the link to this broker."""
        if self._local is not None:
            self._local = None
            self.end("this broker ended it")

    def wait(self, wanted: bool) -> None:
        """Pause or resume reading from the other broker."""
        if self._transport is not None and wanted == self._reading:
            self._reading = not wanted
            self._silent = False
            if wanted:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # From there to here

    def _take(self, packets: list[Packet]) -> None:
        inward: list[Packet] = []
        for packet in packets:
            match packet:
                case ConnAck():
                    self._meet(packet)
                case _ if self._local is None:
                    raise forbidden("the first packet is a CONNACK", type(packet).__name__)
                case Publish():
                    self._inward(packet, inward)
                case PubAck() | PubRec() | PubComp() | PubRel():
                    self._note_refusal(packet, "the other broker refused a message")
                    inward.append(packet)
                case SubAck():
                    self._check_granted(packet)
                case PingResp():
                    # The retained messages at the time of the subscription came before this.
                    self.exchanged = True
                case Disconnect():
                    text = packet.properties.reason_string or ""
                    self.end(RejectedError(packet.reason_code, text))
                case UnsubAck():
                    pass
                case _:
                    raise forbidden("it was not asked for", type(packet).__name__)
            if self.gone.done():
                return
        self._let_in(inward)

    def _meet(self, packet: ConnAck) -> None:
        """Subscribe on both sides, and continue where the last crossing ended."""
        properties = packet.properties
        if packet.reason_code.failed:
            self.end(RejectedError(packet.reason_code, properties.reason_string or ""))
            return
        if self._local is not None:
            raise forbidden("there was one already", "CONNACK")
        if self._fresh:
            self.cleared = True
            self.leave()
            return
        self._limits = properties
        if properties.server_keep_alive is not None:
            self._keep_alive_s = properties.server_keep_alive
        new = not packet.session_present
        self._exchange = self._exchange or new
        self.exchanged = not self._exchange
        self._local = LocalLink(self._server, self._terms.node, self)
        self._local.send(self._greeting(new))
        # With MQTT 5 only new messages come, and none that the bridge sent itself.
        five = self.version == MQTT_5
        handling = 0 if self._exchange else 1
        filters = tuple(
            TopicFilter(each, self._terms.qos, five, five, handling if five else 0)
            for each in self._terms.incoming
        )
        assert self._transport is not None
        if filters:
            self._transport.write(encode(Subscribe(SUBSCRIBING, filters), self.version))
        self._transport.write(encode(PingReq(), self.version))
        self._set_timer()
        self._on_met()

    def _greeting(self, new: bool) -> list[Packet]:
        """Packets for this broker after CONNACK; `new`: the other broker has no session."""
        limits, terms = self._limits, self._terms
        packets = opening(
            self._server, terms.node, terms.outgoing if self.sends else (),
            min(terms.qos, 2 if limits.maximum_qos is None else limits.maximum_qos),
            retain_handling=0 if self._exchange else 1,
            properties=Properties(
                session_expiry_interval=FOREVER,
                receive_maximum=limits.receive_maximum,
                maximum_packet_size=limits.maximum_packet_size,
            ),
        )  # fmt: skip
        session = self._server.hub.sessions.get(terms.node)
        if new and session is not None and session.received:
            # Its packet ids start again: its next messages are not repeats of earlier ones.
            self._forgotten = set(session.received)
            packets += [PubRel(packet_id) for packet_id in self._forgotten]
        return packets

    def _inward(self, packet: Publish, inward: list[Packet]) -> None:
        if not self._wants(packet):
            self._tally.ignored_total += 1
            if packet.qos and self._transport is not None:
                kind = PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC
                self._transport.write(success(kind, packet.packet_id))
            return
        self._tally.in_total += 1
        if not packet.qos:
            inward.append(packet)
            return
        if len(self._held) >= MOST_HELD:
            raise forbidden("more messages than there are packet identifiers", "PUBLISH")
        self._held.append(packet)

    def _let_in(self, inward: list[Packet]) -> None:
        """Forward packets to this broker, of QoS 1 and 2 up to its receive maximum."""
        if self._local is None:
            return
        most = self._server.settings.limits.receive_maximum
        room = most - self._local.connection.inbound
        while self._held and room > 0:
            inward.append(self._held.popleft())
            room -= 1
        if inward:
            self._local.send(inward)

    def _wants(self, packet: Publish) -> bool:
        """Whether a message matches a subscription and is not already known."""
        packet.validate(Sender.SERVER)
        if not any(subject_matches(each, packet.topic) for each in self._terms.incoming):
            return False
        # MQTT 3 sets the flag only for messages that were retained before.
        may_be_known = self._exchange or self.version != MQTT_5
        if not (may_be_known and packet.retain and packet.payload) or packet.topic in self._known:
            return True
        state = self._server.hub.state
        key = state.engine.live_key(Event("", packet.topic, "", 0.0, retain=True))
        known = state.engine.live.get(key)
        if known is None:
            return True
        # Each side sends its retained messages. If both have one, this broker's is kept.
        is_ours = known.origin != self._terms.node and self.sends and not self.exchanged
        if not is_ours and known.payload != packet.payload:
            return True
        self._known.add(packet.topic)
        return False

    def _check_granted(self, packet: SubAck) -> None:
        for wanted, code in zip(self._terms.incoming, packet.reason_codes, strict=False):
            if code.failed:
                log_event(
                    log, logging.ERROR, "the other broker refuses a subscription",
                    client=self._terms.node, filter=wanted, why=code.text,
                )  # fmt: skip

    # From here to there

    def _outward(self, packet: Packet, out: list[bytes], back: list[Packet]) -> None:
        match packet:
            case Publish():
                if self._can_send(packet):
                    self._tally.out_total += 1
                    if packet.retain and self._limits.retain_available is False:
                        packet = replace(packet, retain=False)
                    out.append(encode(packet, self.version))
                else:
                    self._tally.refused_total += 1
                    back += _declined(packet)
            case PubAck() | PubRec():
                self._note_refusal(packet, "a message from the other broker was refused")
                kind = PacketType.PUBACK if isinstance(packet, PubAck) else PacketType.PUBREC
                out.append(success(kind, packet.packet_id))
            case PubRel():
                out.append(success(PacketType.PUBREL, packet.packet_id))
            case PubComp():
                if packet.packet_id in self._forgotten:
                    self._forgotten.remove(packet.packet_id)
                else:
                    out.append(success(PacketType.PUBCOMP, packet.packet_id))
            case ConnAck() if packet.reason_code.failed:
                self.end(f"this broker refused it: {packet.properties.reason_string}")
            case _:
                pass

    def _can_send(self, packet: Publish) -> bool:
        most = 2 if self._limits.maximum_qos is None else self._limits.maximum_qos
        return self.sends and packet.qos <= most

    def _note_refusal(self, packet: PubAck | PubRec | PubRel | PubComp, event: str) -> None:
        if packet.reason_code.failed and not isinstance(packet, PubComp | PubRel):
            self._tally.refused_total += 1
            why = packet.properties.reason_string or packet.reason_code.text
            log_event(log, logging.WARNING, event, client=self._terms.node, why=why)

    # Time

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._keep_alive_s:
            self._timer = self._loop.call_later(self._keep_alive_s / 2, self._tick)

    def _tick(self) -> None:
        if self._local is None:
            self.end(f"it did not answer within {ANSWER_WITHIN_S:g} s")
            return
        if self._silent and self._reading:
            self.end(f"it was silent for {self._keep_alive_s / 2:g} s")
            return
        self._silent = True
        if self._transport is not None:
            self._transport.write(encode(PingReq(), self.version))
        self._set_timer()

    def _close_local(self) -> None:
        if self._local is not None:
            local, self._local = self._local, None
            local.close()


def _declined(packet: Publish) -> list[Packet]:
    """Packets that end a message that cannot be sent."""
    if not packet.qos:
        return []
    if packet.qos == 1:
        return [PubAck(packet.packet_id)]
    return [PubRec(packet.packet_id, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR)]
