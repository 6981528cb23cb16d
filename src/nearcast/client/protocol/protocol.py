"""An MQTT client as a state machine: bytes and times in, bytes and events out.

It has no socket, no clock and no threads: its driver reports when a transport is up or lost, passes
in received bytes, writes the result of `take`, and calls `tick` when `next_timer` is due. The same
calls always give the same bytes. Messages may be published at any time; those that cannot be sent
yet are queued, within limits.
"""

from collections.abc import Iterable
from enum import Enum, auto

from nearcast.client.api.options import ClientOptions
from nearcast.client.api.statistics import Statistics
from nearcast.client.errors import RejectedError
from nearcast.client.protocol.handshake import connect_packet, limits_of
from nearcast.client.protocol.outbox import ServerLimits
from nearcast.client.protocol.outgoing import Item, outgoing, request
from nearcast.client.protocol.protocol_events import (
    Connected,
    ConnectRefused,
    Disconnected,
    Happened,
    ProtocolBroken,
)
from nearcast.client.protocol.session import ANNOUNCED, ClientSession
from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    ConnAck,
    Decoder,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Properties,
    ProtocolError,
    Publish,
    ReasonCode,
    Sender,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    encode,
    encode_within,
    parse_filter,
)
from nearcast.wire.mqtt.errors import forbidden
from nearcast.wire.mqtt.packet_types import LARGEST_PACKET

PING_AFTER = 0.8
"""The fraction of the keep-alive after which a silent client pings."""
HTTP = b"HTTP/"
NOT_MQTT = "this port speaks HTTP; give the broker's port for MQTT (1883), or ws:// for WebSocket"


class Phase(Enum):
    """The phase of a connection."""

    OFFLINE = auto()
    CONNECTING = auto()
    ONLINE = auto()
    ENDING = auto()
    """Close the transport after everything is written."""


class ClientProtocol:
    """One client and its session, over any number of transports, one at a time."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.client_id = options.client_id
        """The one in the options, or the one that the server assigned."""
        self._version = options.version
        self._phase = Phase.OFFLINE
        self._clean_start = options.clean_start
        self._limits = ServerLimits()
        self._session = ClientSession(options)
        self._decoder = self._new_decoder()
        self._out: list[bytes] = []
        self._unsent_bytes = 0
        self._tokens = 0
        self._keep_alive_s = 0
        self._sent_at = self._received_at = 0.0
        self._pinged_at: float | None = None

    @property
    def online(self) -> bool:
        """Whether the server accepted the client, and neither side has disconnected."""
        return self._phase is Phase.ONLINE

    @property
    def should_close(self) -> bool:
        """Whether the transport is to be closed after the result of `take` is written."""
        return self._phase is Phase.ENDING

    def statistics(self) -> Statistics:
        """Return the sizes of the queues."""
        outbox = self._session.outbox
        return Statistics(
            outbox.waiting,
            outbox.in_flight,
            outbox.held_bytes,
            self._unsent_bytes,
            len(self._session.subscriptions),
            self._session.inbox.unreleased,
        )

    def connected_transport(self, now: float) -> None:
        """Send CONNECT over a new transport."""
        assert self._phase is Phase.OFFLINE, "there is a transport already"
        self._phase = Phase.CONNECTING
        self._decoder = self._new_decoder()
        self._received_at = self._pinged_at = now
        hello = connect_packet(self.options, self.client_id, self._clean_start)
        self._write(encode(hello, self._version), now)

    def disconnected_transport(self, now: float) -> None:
        """Handle a lost transport; unacknowledged messages are kept for the next one."""
        self._phase = Phase.OFFLINE
        self._out.clear()
        self._unsent_bytes = 0
        self._pinged_at = None
        self._session.lost()

    def receive(self, data: bytes, now: float) -> list[Happened]:
        """Process bytes from the server, and return the resulting events in order."""
        found: list[Happened] = []
        if self._phase not in (Phase.CONNECTING, Phase.ONLINE):
            return found
        self._received_at = now
        if self._phase is Phase.CONNECTING and data.startswith(HTTP):
            found.append(ProtocolBroken(ReasonCode.PROTOCOL_ERROR, NOT_MQTT))
            self._end(ReasonCode.PROTOCOL_ERROR, NO_PROPERTIES, now)
            return found
        fault = None
        try:
            packets = self._decoder.feed(data)
        except ProtocolError as error:
            # Packets before the fault still count.
            packets, fault = error.packets, error
        try:
            self._handle(packets, found, now)
            if fault is not None and not self.should_close:
                raise fault
        except ProtocolError as error:
            found.append(ProtocolBroken(error.reason_code, str(error)))
            self._end(error.reason_code, Properties(reason_string=str(error)), now)
        self._send(found, now)
        return found

    def take(self) -> bytes:
        """Return the bytes to write now; they count as written."""
        data = b"".join(self._out)
        self._out.clear()
        self._unsent_bytes = 0
        return data

    def next_timer(self) -> float | None:
        """The time when `tick` has work to do, if nothing happens before; None: never."""
        if self._phase not in (Phase.CONNECTING, Phase.ONLINE):
            return None
        if self._pinged_at is not None:
            return max(self._pinged_at, self._received_at) + self.options.answer_within_s
        if self._keep_alive_s:
            return min(self._sent_at, self._received_at) + PING_AFTER * self._keep_alive_s
        return None

    def tick(self, now: float) -> list[Happened]:
        """Ping a silent server; give up on one that does not answer."""
        due = self.next_timer()
        if due is None or now < due:
            return []
        if self._pinged_at is None:
            self._pinged_at = now
            self._write(encode(PingReq(), self._version), now)
            return []
        what = "CONNECT" if self._phase is Phase.CONNECTING else "PINGREQ"
        text = f"the server did not answer a {what} within {self.options.answer_within_s:g} s"
        # No DISCONNECT: if the server is alive, it has to publish the will.
        self._phase = Phase.ENDING
        return [ProtocolBroken(ReasonCode.KEEP_ALIVE_TIMEOUT, text)]

    def not_listening(self, now: float) -> None:
        """Note that reading was paused, so the server's silence means nothing."""
        if self.online:
            self._received_at = now
            self._pinged_at = None

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool,
        properties: Properties,
        now: float,
    ) -> int:
        """Send a message, or queue it, and return its token.

        Raises `EncodeError` for a message that MQTT cannot carry, `QueueFullError`, and
        `RejectedError` for one that the connected server does not support.
        """
        item = outgoing(self._tokens + 1, topic, payload, qos, retain, properties, self._version)
        return self._add(item, now)

    def state(self, topic: str, payload: bytes, now: float) -> int:
        """Publish a standing message with QoS 1, and return its token.

        It is in force as long as the session. If a server loses the session it is sent again, ahead
        of all others, until it is replaced by another on the same topic; an empty payload ends it.
        """
        item = outgoing(self._tokens + 1, topic, payload, 1, False, NO_PROPERTIES, self._version)
        item.standing = True
        return self._add(item, now)

    def subscribe(self, filters: Iterable[TopicFilter], properties: Properties, now: float) -> int:
        """Subscribe, now or once connected, and return the token of the answer."""
        wanted = tuple(filters)
        for each in wanted:
            parse_filter(each.filter)
        return self._ask(Subscribe(1, wanted, properties), now)

    def unsubscribe(self, filters: Iterable[str], properties: Properties, now: float) -> int:
        """End subscriptions, now or once connected, and return the token of the answer."""
        return self._ask(Unsubscribe(1, tuple(filters), properties), now)

    def disconnect(self, reason: ReasonCode, now: float) -> None:
        """Disconnect; unacknowledged messages are kept for the next transport.

        The server keeps the session for the expiry in the options, unless `ends_session` is set.
        """
        if self._phase in (Phase.CONNECTING, Phase.ONLINE):
            ends = self.options.ends_session and self.options.session_expiry_s
            self._end(reason, Properties(session_expiry_interval=0) if ends else NO_PROPERTIES, now)

    def validate_state(self) -> None:
        """Assert the invariants."""
        connected = self._phase is not Phase.OFFLINE
        assert connected or not self._out, "bytes wait for a transport that is gone"
        assert self._unsent_bytes == sum(map(len, self._out))
        assert self._phase is not Phase.CONNECTING or self._pinged_at is not None
        self._session.validate_state(self._limits if connected else None)

    def _new_decoder(self) -> Decoder:
        largest = self.options.maximum_packet_size or LARGEST_PACKET
        return Decoder(largest, sender=Sender.SERVER, version=self._version)

    def _ask(self, packet: Subscribe | Unsubscribe, now: float) -> int:
        return self._add(request(self._tokens + 1, packet, self._version), now)

    def _add(self, item: Item, now: float) -> int:
        problem = self._limits.problem_with(item) if self.online else None
        if problem is not None:
            raise RejectedError(problem, ANNOUNCED)
        self._session.outbox.add(item, self._unsent_bytes)
        self._tokens = item.token
        self._send([], now)
        return item.token

    def _send(self, found: list[Happened], now: float) -> None:
        if self.online:
            for data in self._session.write(self._limits, found):
                self._write(data, now)

    def _write(self, data: bytes, now: float) -> None:
        if data:
            self._out.append(data)
            self._unsent_bytes += len(data)
            self._sent_at = now

    def _end(self, reason: ReasonCode, properties: Properties, now: float) -> None:
        """Send a DISCONNECT with the reason if MQTT 5 allows it, and close the transport."""
        packet = Disconnect(reason, properties)
        # MQTT 3 has no reasons, and none may be sent before the CONNACK.
        wordless = self._version != MQTT_5 or not self.online
        if not wordless:
            largest = self._limits.maximum_packet_size
            self._write(encode_within(packet, self._version, largest) or b"", now)
        elif reason == ReasonCode.NORMAL_DISCONNECTION:
            self._write(encode(Disconnect(), self._version), now)
        self._phase = Phase.ENDING

    def opened(self, message: Publish) -> Publish | None:
        """Return a message that came from another client, as it was published."""
        return self._session.opened(message)

    def _handle(self, packets: list[Packet], found: list[Happened], now: float) -> None:
        for packet in packets:
            match packet:
                case ConnAck():
                    self._connack(packet, found, now)
                case _ if self._phase is Phase.CONNECTING:
                    name = type(packet).__name__.upper()
                    raise forbidden("the first packet of a server is a CONNACK", name)
                case PingResp():
                    self._pinged_at = None
                case Disconnect():
                    text = packet.properties.reason_string or ""
                    elsewhere = packet.properties.server_reference
                    found.append(Disconnected(packet.reason_code, text, elsewhere))
                    self._phase = Phase.ENDING
                case _:
                    self._write(self._session.handle(packet, found), now)
            if self.should_close:
                return

    def _connack(self, packet: ConnAck, found: list[Happened], now: float) -> None:
        if self._phase is not Phase.CONNECTING:
            raise forbidden("there was one already", "CONNACK")
        self._pinged_at = None
        properties = packet.properties
        if packet.reason_code.failed:
            text = properties.reason_string or ""
            found.append(ConnectRefused(packet.reason_code, text, properties.server_reference))
            self._phase = Phase.ENDING
            return
        if packet.session_present and self._clean_start:
            raise forbidden("a session is present, but a clean start was asked for", "CONNACK")
        self._phase = Phase.ONLINE
        self._limits = limits_of(properties)
        keep_alive = properties.server_keep_alive
        self._keep_alive_s = self.options.keep_alive_s if keep_alive is None else keep_alive
        self.client_id = properties.assigned_client_identifier or self.client_id
        found.append(Connected(packet.session_present, properties))
        self._write(self._session.take_up(packet.session_present, self._clean_start), now)
        # With MQTT 3, a clean session is a property of the session and sent every time.
        if self._version == MQTT_5:
            self._clean_start = False
