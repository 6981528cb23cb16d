"""The hub: connections, sessions and the engine, without I/O.

Everything that arrived in one tick goes in, and comes out as what is to be written to each
connection: all events of a tick are one batch for the engine, and every connection gets one
write. Sessions live in memory.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from nearcast.broker.session import Granted, Outgoing, Session
from nearcast.core.engine import Engine
from nearcast.core.model import Delivery, Event, ModelError, Subscription
from nearcast.core.model.context import Value
from nearcast.core.model.inputs import Input, Left, Published, Subscribed, Unsubscribed
from nearcast.wire.mqtt import (
    MQTT_5,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PacketType,
    PingReq,
    PingResp,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PublishFrame,
    PubRec,
    PubRel,
    ReasonCode,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
    Will,
    encode,
    parse_filter,
    stripped,
    success,
)

LARGEST_PACKET = 1 << 20
NEVER_S = float("inf")
_MESSAGE_EXPIRY, _TOPIC_ALIAS = 0x02, 0x23
_DROPPED = frozenset((_MESSAGE_EXPIRY, _TOPIC_ALIAS))


class Connection(Struct, eq=False):
    """One network connection, as the hub knows it."""

    name: str
    session: Session | None = None
    version: int = 0
    keep_alive_s: float = 0.0
    heard_at: float = 0.0
    will: Will | None = None
    out: list[bytes] = []
    closing: bool = False
    aliases: dict[int, str] = {}


class Hub:
    """The broker's logic for one tick at a time."""

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine = Engine() if engine is None else engine
        self.sessions: dict[str, Session] = {}
        self._online: dict[str, Connection] = {}
        self._leaving: dict[str, float] = {}
        self._wills: dict[str, tuple[float, Will]] = {}
        self._inputs: list[Input] = []
        self._frames: dict[str, PublishFrame] = {}
        self._retained: dict[str, tuple[str, PublishFrame]] = {}
        self._touched: dict[str, Connection] = {}
        self._count = 0

    def receive(self, connection: Connection, packets: Sequence[Packet], now: float) -> None:
        """Take what a connection sent, in order."""
        connection.heard_at = now
        self._touched[connection.name] = connection
        for packet in packets:
            if connection.closing:
                return
            self._receive(connection, packet, now)

    def lost(self, connection: Connection, now: float) -> None:
        """A connection is gone; unless it said goodbye, its will is due."""
        session, connection.session = connection.session, None
        if session is None or self._online.get(session.client_id) is not connection:
            return
        del self._online[session.client_id]
        self._leaving[session.client_id] = now + session.expiry_s
        if connection.will is not None:
            delay = connection.will.properties.will_delay_interval or 0
            due = now + min(float(delay), session.expiry_s)
            self._wills[session.client_id] = (due, connection.will)

    def refuse(self, connection: Connection, reason: ReasonCode, why: str, now: float) -> None:
        """Close a connection that broke the rules."""
        if connection.version == MQTT_5 and connection.session is not None:
            properties = Properties(reason_string=why)
            connection.out.append(encode(Disconnect(reason, properties), connection.version))
        connection.closing = True
        self._touched[connection.name] = connection
        self.lost(connection, now)

    def tick(self, now: float) -> list[Connection]:
        """Decide on all that arrived; the connections that have something to write."""
        self._expire(now)
        inputs, self._inputs = self._inputs, []
        if inputs:
            outcome = self.engine.step(inputs, now)
            for delivery in outcome.deliveries:
                self._deliver(delivery, now)
            self._frames.clear()
        touched, self._touched = list(self._touched.values()), {}
        for connection in touched:
            if connection.session is not None and not connection.closing:
                connection.out.extend(connection.session.pump(now))
        return touched

    def silent(self, now: float) -> list[Connection]:
        """Connections that were not heard of for one and a half times their keep-alive."""
        return [
            each
            for each in self._online.values()
            if each.keep_alive_s and now - each.heard_at > 1.5 * each.keep_alive_s
        ]

    def statistics(self) -> dict[str, int]:
        """How many of everything."""
        return {
            "connections": len(self._online),
            "sessions": len(self.sessions),
            "subscriptions": len(self.engine.subscriptions),
            "dropped": sum(session.dropped for session in self.sessions.values()),
        }

    def _receive(self, connection: Connection, packet: Packet, now: float) -> None:
        if isinstance(packet, Connect):
            self._connect(connection, packet, now)
            return
        session = connection.session
        if session is None:
            connection.closing = True
            return
        if isinstance(packet, Publish):
            self._publish(connection, session, packet, now)
        elif isinstance(packet, PubAck | PubComp):
            session.acknowledged(packet.packet_id)
        elif isinstance(packet, PubRec):
            if packet.reason_code.failed:
                session.acknowledged(packet.packet_id)
                return
            reason = session.received_by_client(packet.packet_id)
            connection.out.append(encode(PubRel(packet.packet_id, reason), connection.version))
        elif isinstance(packet, PubRel):
            known = packet.packet_id in session.received
            session.received.discard(packet.packet_id)
            reason = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
            connection.out.append(encode(PubComp(packet.packet_id, reason), connection.version))
        elif isinstance(packet, Subscribe):
            self._subscribe(connection, session, packet, now)
        elif isinstance(packet, Unsubscribe):
            self._unsubscribe(connection, session, packet)
        elif isinstance(packet, PingReq):
            connection.out.append(encode(PingResp(), connection.version))
        elif isinstance(packet, Disconnect):
            self._disconnect(connection, session, packet, now)

    def _connect(self, connection: Connection, packet: Connect, now: float) -> None:
        connection.version = packet.version
        client_id = packet.client_id
        assigned = None
        if not client_id:
            self._count += 1
            client_id = assigned = f"auto-{self._count}"
        other = self._online.get(client_id)
        if other is not None:
            self.refuse(other, ReasonCode.SESSION_TAKEN_OVER, "another connection came", now)
            self._wills.pop(client_id, None)
        session = self.sessions.get(client_id)
        if session is not None and packet.clean_start:
            self._end(client_id)
            session = None
        present = session is not None
        if session is None:
            session = self.sessions[client_id] = Session(client_id)
        properties = packet.properties
        session.version = packet.version
        session.receive_maximum = properties.receive_maximum or 65_535
        session.largest_packet = properties.maximum_packet_size or 0
        if packet.version == MQTT_5:
            wanted = properties.session_expiry_interval or 0
            session.expiry_s = NEVER_S if wanted == 0xFFFFFFFF else float(wanted)
        else:
            session.expiry_s = 0.0 if packet.clean_start else NEVER_S
        self._leaving.pop(client_id, None)
        self._wills.pop(client_id, None)
        connection.session = session
        connection.will = packet.will
        connection.keep_alive_s = float(packet.keep_alive)
        self._online[client_id] = connection
        answer = Properties(assigned_client_identifier=assigned, maximum_packet_size=LARGEST_PACKET)
        connection.out.append(encode(ConnAck(present, properties=answer), packet.version))
        connection.out.extend(session.resume(now))

    def _publish(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> None:
        if packet.qos == 2:
            connection.out.append(success(PacketType.PUBREC, packet.packet_id))
            if packet.packet_id in session.received:
                return
            session.received.add(packet.packet_id)
        elif packet.qos == 1:
            connection.out.append(success(PacketType.PUBACK, packet.packet_id))
        self._raise(session.client_id, packet, now)

    def _raise(self, publisher: str, packet: Publish, now: float) -> None:
        self._count += 1
        name = f"{self._count}"
        expiry = packet.properties.message_expiry_interval if packet.raw_properties else None
        withdraws = packet.retain and not packet.payload
        event = Event(
            id=name,
            subject=packet.topic,
            publisher=publisher,
            time=now,
            attributes=self._attributes(packet.payload),
            retain=packet.retain,
            valid_s=0.0 if withdraws else None if expiry is None else float(expiry),
            payload=packet.payload,
            qos=packet.qos,
        )
        raw = stripped(packet.raw_properties, _DROPPED, "nc-") if packet.raw_properties else b""
        frame = self._frames[name] = PublishFrame(packet.topic, packet.payload, raw)
        if packet.retain:
            self._retained[packet.topic] = (name, frame)
            if withdraws:
                del self._retained[packet.topic]
        self._inputs.append(Published(event))

    def _attributes(self, payload: bytes) -> dict[str, Value]:
        # Nobody's filter looks at attributes: then nobody needs them.
        if not self.engine.matcher.reads_attributes or not payload.startswith(b"{"):
            return {}
        try:
            value = msgspec.json.decode(payload)
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    def _subscribe(
        self, connection: Connection, session: Session, packet: Subscribe, now: float
    ) -> None:
        reasons = []
        identifiers = packet.properties.subscription_identifiers
        for wanted in packet.filters:
            try:
                parsed = parse_filter(wanted.filter)
            except ModelError:
                reasons.append(ReasonCode.TOPIC_FILTER_INVALID)
                continue
            if parsed.group is not None:
                reasons.append(ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED)
                continue
            name = _name(session, wanted.filter)
            replay = wanted.retain_handling == 0 or (
                wanted.retain_handling == 1 and wanted.filter not in session.granted
            )
            identifier = identifiers[0] if identifiers else None
            session.granted[wanted.filter] = Granted(wanted, identifier)
            subscription = Subscription(
                name, session.client_id, parsed.pattern, qos=wanted.qos, no_local=wanted.no_local
            )
            self._inputs.append(Subscribed(subscription, replay))
            reasons.append(ReasonCode(wanted.qos))
        connection.out.append(encode(SubAck(packet.packet_id, tuple(reasons)), connection.version))

    def _unsubscribe(self, connection: Connection, session: Session, packet: Unsubscribe) -> None:
        reasons = []
        for topic_filter in packet.filters:
            if session.granted.pop(topic_filter, None) is None:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
            else:
                self._inputs.append(Unsubscribed(_name(session, topic_filter)))
                reasons.append(ReasonCode.SUCCESS)
        connection.out.append(
            encode(UnsubAck(packet.packet_id, tuple(reasons)), connection.version)
        )

    def _disconnect(
        self, connection: Connection, session: Session, packet: Disconnect, now: float
    ) -> None:
        if packet.reason_code != ReasonCode.DISCONNECT_WITH_WILL_MESSAGE:
            connection.will = None
        expiry = packet.properties.session_expiry_interval
        if expiry is not None and session.expiry_s > 0.0:
            session.expiry_s = NEVER_S if expiry == 0xFFFFFFFF else float(expiry)
        connection.closing = True
        self.lost(connection, now)

    def _deliver(self, delivery: Delivery, now: float) -> None:
        event = delivery.event
        session = self.sessions.get(delivery.node)
        if session is None:
            return
        frame = self._frames.get(event.id)
        fresh = frame is not None
        if frame is None:
            kept = self._retained.get(event.subject)
            if kept is None or kept[0] != event.id:
                return
            frame = kept[1]
        grants = [
            session.granted[topic_filter]
            for name in delivery.subscriptions
            if (topic_filter := name.partition("\0")[2]) in session.granted
        ]
        if not grants:
            return
        qos = min(event.qos, max(grant.wanted.qos for grant in grants))
        as_published = any(grant.wanted.retain_as_published for grant in grants)
        retain = event.retain and (as_published or not fresh)
        expires_at = event.time + event.valid_s if event.valid_s else None
        identifiers = tuple(g.identifier for g in grants if g.identifier is not None)
        connection = self._online.get(session.client_id)
        session.put(Outgoing(frame, qos, retain, identifiers, expires_at), connection is not None)
        if connection is not None:
            self._touched[connection.name] = connection

    def _expire(self, now: float) -> None:
        for client_id, (due, will) in list(self._wills.items()):
            if due <= now:
                del self._wills[client_id]
                message = Publish(will.topic, will.payload, will.qos, will.retain)
                self._raise(client_id, message.with_(_for_publish(will.properties)), now)
        for client_id, due in list(self._leaving.items()):
            if due <= now:
                self._end(client_id)

    def _end(self, client_id: str) -> None:
        self._leaving.pop(client_id, None)
        if self.sessions.pop(client_id, None) is not None:
            self._inputs.append(Left(client_id))


def _name(session: Session, topic_filter: str) -> str:
    return f"{session.client_id}\0{topic_filter}"


def _for_publish(properties: Properties) -> Properties:
    return msgspec.structs.replace(properties, will_delay_interval=None)
