"""A client's side of a session: what outlives a connection, and the exchange of messages.

It handles every packet from the server after the CONNACK. The acknowledgement of a message is
written in the same step in which the message is passed on.
"""

from collections.abc import Callable, Iterator
from typing import Any

from nearcast.client.api.options import ClientOptions
from nearcast.client.api.standing_messages import StandingMessages
from nearcast.client.protocol import protocol_events as happened
from nearcast.client.protocol.inbox import Inbox
from nearcast.client.protocol.outbox import ClientOutbox, ServerLimits
from nearcast.client.protocol.outgoing import Item, OutgoingMessage, OutgoingRequest
from nearcast.client.protocol.payload_decoder import PayloadDecoder
from nearcast.client.protocol.protocol_events import Happened
from nearcast.client.protocol.subscriptions import ClientSubscriptions
from nearcast.wire.mqtt import (
    MQTT_3_1,
    MQTT_5,
    Packet,
    PacketType,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    encode,
    success,
)
from nearcast.wire.mqtt.errors import forbidden

ANNOUNCED = "the server said so when the client connected"

NOTHING = b""


class ClientSession:
    """Messages in both directions and subscriptions of one client, over all its connections."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._version = options.version
        self.outbox = ClientOutbox(
            options.version,
            options.queued_messages,
            options.queued_bytes,
            options.first_packet_id,
        )
        five = options.version == MQTT_5
        self.inbox = Inbox(
            options.version,
            options.receive_maximum if five else 0xFFFF,
            options.topic_alias_maximum,
        )
        self._decoder = PayloadDecoder() if five and options.accepts_encoded else None
        self.subscriptions = ClientSubscriptions(options.version)
        self.standing = StandingMessages()

    def lost(self) -> None:
        """Handle a lost transport."""
        self.outbox.lost()
        self.inbox.lost()
        if self._decoder is not None:
            self._decoder.lost()

    def take_up(self, present: bool, clean_start: bool) -> bytes:
        """Resume the session or start a new one; return the first packets."""
        if not self._options.resubscribe and not present:
            self.subscriptions.forget()
            self.standing.forget()
        if present:
            return self.outbox.resume()
        renewals: list[Item] = [*self.standing.renewals(), *self.subscriptions.renewals()]
        if self._version == MQTT_3_1 and not clean_start:
            # Such a server does not report whether it has the session; this is harmless if it does.
            resumed = self.outbox.resume()
            self.outbox.renew(renewals)
            return resumed
        self.outbox.begin_anew(renewals)
        self.inbox.begin_anew()
        return NOTHING

    def write(self, limits: ServerLimits, found: list[Happened]) -> Iterator[bytes]:
        """Yield packets that may be sent now; items that this server refuses become events."""
        for what in self.outbox.write(limits):
            if isinstance(what, bytes):
                yield what
            else:
                found.append(self._not_sent(*what))

    def handle(self, packet: Packet, found: list[Happened]) -> bytes:
        """Handle a packet, and return the answer.

        Raises `ProtocolError` for a packet that the server must not send.
        """
        handle = _HANDLERS.get(type(packet))
        if handle is None:
            raise forbidden("it was not asked for", type(packet).__name__.upper())
        return handle(self, packet, found)

    def opened(self, message: Publish) -> Publish | None:
        """Return a message with its payload decoded; None if it was for the decoder."""
        return message if self._decoder is None else self._decoder.decoded(message)

    def validate_state(self, limits: ServerLimits | None) -> None:
        """Assert the invariants; `limits` is None while there is no transport."""
        self.outbox.validate_state(limits)
        self.inbox.validate_state(limits is not None)

    def _not_sent(self, item: Item, reason: ReasonCode) -> Happened:
        if isinstance(item, OutgoingMessage):
            return self._acknowledged(item, reason, ANNOUNCED)
        return self._answer(item, (reason,) * len(item.packet.filters), ANNOUNCED)

    def _message(self, packet: Publish, found: list[Happened]) -> bytes:
        message = self.inbox.accept(packet)
        if message is not None:
            message = self.opened(message)
        if message is not None:
            found.append(happened.MessageReceived(message))
        if not packet.qos:
            return NOTHING
        kind = PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC
        return success(kind, packet.packet_id)

    def _pubrel(self, packet: PubRel, found: list[Happened]) -> bytes:
        known = self.inbox.release(packet.packet_id)
        code = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        return encode(PubComp(packet.packet_id, code), self._version)

    def _puback(self, packet: PubAck, found: list[Happened]) -> bytes:
        item = self.outbox.sent(packet.packet_id) or self.outbox.released(packet.packet_id)
        if item is None:
            return NOTHING
        if item.qos != 1:
            raise forbidden(f"message {packet.packet_id} is of QoS 2", "PUBACK")
        self.outbox.done(item)
        text = packet.properties.reason_string or ""
        found.append(self._acknowledged(item, packet.reason_code, text))
        return NOTHING

    def _pubrec(self, packet: PubRec, found: list[Happened]) -> bytes:
        item = self.outbox.sent(packet.packet_id)
        failed = packet.reason_code.failed
        if item is None:
            known = self.outbox.released(packet.packet_id) is not None
            if failed and not known:
                return NOTHING
            code = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
            return encode(PubRel(packet.packet_id, code), self._version)
        if item.qos != 2:
            raise forbidden(f"message {packet.packet_id} is of QoS 1", "PUBREC")
        if failed:
            self.outbox.done(item)
            text = packet.properties.reason_string or ""
            found.append(self._acknowledged(item, packet.reason_code, text))
            return NOTHING
        self.outbox.release(item, packet.reason_code)
        return success(PacketType.PUBREL, packet.packet_id)

    def _pubcomp(self, packet: PubComp, found: list[Happened]) -> bytes:
        if self.outbox.sent(packet.packet_id) is not None:
            raise forbidden(f"message {packet.packet_id} was not released", "PUBCOMP")
        item = self.outbox.released(packet.packet_id)
        if item is not None:
            # A server that has forgotten the identifier still has the message.
            self.outbox.done(item)
            text = packet.properties.reason_string or ""
            found.append(self._acknowledged(item, item.reason_code, text))
        return NOTHING

    def _acknowledged(self, item: OutgoingMessage, code: ReasonCode, text: str) -> Happened:
        """Apply the end of a message, and return the event."""
        if item.standing:
            self.standing.answered(item, code)
        if item.token:
            return happened.Acknowledged(item.token, code, text)
        return happened.Restated(item.frame.topic, code, text)

    def _answered(self, packet: SubAck | UnsubAck, found: list[Happened]) -> bytes:
        request = self.outbox.answered(packet.packet_id)
        if request is None:
            return NOTHING
        sent, codes = request.packet, packet.reason_codes
        name = type(packet).__name__.upper()
        if isinstance(sent, Subscribe) != isinstance(packet, SubAck):
            raise forbidden(f"{packet.packet_id} asked for something else", name)
        has_codes = isinstance(packet, SubAck) or self._version == MQTT_5
        if has_codes and len(codes) != len(sent.filters):
            raise forbidden(f"{len(codes)} codes for {len(sent.filters)} filters", name)
        found.append(self._answer(request, codes, packet.properties.reason_string or ""))
        return NOTHING

    def _answer(
        self, request: OutgoingRequest, codes: tuple[ReasonCode, ...], text: str
    ) -> Happened:
        """Apply the answer to a request, and return the event."""
        packet = request.packet
        if isinstance(packet, Unsubscribe):
            self.subscriptions.ended(packet, codes)
            return happened.UnsubscribeAcknowledged(request.token, codes, text)
        if request.token:
            self.subscriptions.answered(packet, codes)
            return happened.SubscribeAcknowledged(request.token, codes, text)
        self.subscriptions.renewed(packet, codes)
        return happened.Resubscribed(tuple(w.filter for w in packet.filters), codes, text)


# Each takes packets of its own type, which the type of a table cannot express.
_HANDLERS: dict[type, Callable[[ClientSession, Any, list[Happened]], bytes]] = {
    Publish: ClientSession._message,
    PubAck: ClientSession._puback,
    PubRec: ClientSession._pubrec,
    PubRel: ClientSession._pubrel,
    PubComp: ClientSession._pubcomp,
    SubAck: ClientSession._answered,
    UnsubAck: ClientSession._answered,
}
