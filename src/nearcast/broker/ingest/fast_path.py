"""The short way: a message to a plain subject, with nothing in it that is ours, goes at once.

Its subject alone decides who gets it, so the engine only takes note of it. Most messages are of
this kind. None goes so that would overtake what the engine is still to decide.
"""

from collections.abc import Sequence

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.durability.message_headers import NOTHING as NOTHING_CARRIED
from nearcast.broker.durability.message_headers import carried_in
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import OutboundMessage, Session
from nearcast.broker.situation import own_tracks
from nearcast.core.engine.routes import Route
from nearcast.core.model.context import Attributes
from nearcast.core.model.event import Event
from nearcast.wire.mqtt import Packet, Properties, Publish, PublishFrame

OURS = b"nc-"
SPECIAL = ("$", own_tracks.PREFIX)
"""Topics that mean something to the broker itself."""
LONG_TOPIC = 200
LONG_PROPERTIES = 500
"""Longer ones are looked at more closely."""
SHORTEST_PAIR = 5
"""So many bytes a user property takes at least."""
LEFT = -1
"""Nothing is wrong with a message, but the engine is to decide on it."""
NOTHING: Attributes = {}


class FastPath:
    """Sends messages along their routes."""

    def __init__(self, state: BrokerState, delivering: DeliveryDispatcher) -> None:
        self._state = state
        self._delivering = delivering
        limits = state.limits
        # So short that it has neither too many bytes nor too many levels.
        self._long_topic = min(LONG_TOPIC, limits.topic_levels - 1, limits.topic_bytes // 4)
        self._long = min(LONG_PROPERTIES, SHORTEST_PAIR * limits.user_properties)

    def suits(self, connection: Connection, packet: Publish) -> bool:
        """Whether a message may go so if it has a route and overtakes nothing.

        If not, it is to be looked at closely.
        """
        return (
            not packet.retain and self._is_plain(packet) and self._is_open(connection, packet.topic)
        )

    def overtakes(self, connection: Connection, topic: str, qos: int) -> bool:
        """Whether a message would overtake what the engine is still to decide."""
        state = self._state
        return bool(state.inputs) and (
            state.controls or topic in state.subjects or (qos > 0 and connection.waits)
        )

    def send(self, session: Session, packet: Publish, route: Route, now: float) -> None:
        """Send a message that suits along its route."""
        self._note(self._event(session, packet, now), packet.raw_properties, now)
        if route.copies:
            delivering = self._delivering
            delivering.send(delivering.way(packet.topic, route), session, packet)

    def send_with(
        self,
        session: Session,
        packet: Publish,
        raw: bytes,
        properties: Properties,
        route: Route,
        now: float,
    ) -> None:
        """Send a message that was looked at closely, with these properties, along its route."""
        topic = packet.topic
        self._note(self._event(session, packet, now), raw, now)
        if route.copies:
            expiry = properties.message_expiry_interval
            expires_at = None if expiry is None else now + expiry
            parcel = OutboundMessage(
                PublishFrame(topic, packet.payload, raw), session.client_id, expires_at
            )
            way = self._delivering.way(topic, route)
            self._delivering.send_parcel(way, session, parcel, packet.qos)

    def send_run(
        self,
        connection: Connection,
        session: Session,
        packets: Sequence[Packet],
        at: int,
        now: float,
    ) -> int:
        """Send messages of QoS 0 on one topic that follow each other; how many went, or LEFT.

        The same as `send` for each of them: what is looked up is looked up once.
        """
        state = self._state
        packet = packets[at]
        assert type(packet) is Publish
        topic = packet.topic
        if not self._is_open(connection, topic):
            return 0
        engine, node = state.engine, session.node
        route = None
        if not self.overtakes(connection, topic, 0):
            route = engine.route(node, topic)
        if route is None:
            return 0 if packet.retain or not self._is_plain(packet) else LEFT
        position, unique_id, client_id = engine.position(node), state.unique_id, session.client_id
        own = client_id if client_id != node else ""
        run: list[Publish] = []
        events: list[Event] = []
        known = b""
        for packet in packets[at:] if at else packets:
            if type(packet) is not Publish or packet.topic != topic or packet.qos or packet.retain:
                break
            raw = packet.raw_properties
            if raw != known:
                if not self._is_plain(packet):
                    break
                known = raw
            run.append(packet)
            event = Event(
                unique_id(), topic, node, now, NOTHING, position, False, None, None, None, False,
                None, None, packet.payload, 0, own,
            )  # fmt: skip
            events.append(event)
        if not run:
            return 0
        first = engine.note(events, now)
        if first is not None and state.journal.keeps:
            self._record(events, [packet.raw_properties for packet in run], first, now)
        if route.copies:
            self._delivering.send_run(self._delivering.way(topic, route), session, run)
        return len(run)

    def _is_plain(self, packet: Publish) -> bool:
        """Whether nothing in the properties of a message is to be looked at closely."""
        raw = packet.raw_properties
        return not raw or (packet.validate() and OURS not in raw and len(raw) <= self._long)

    def _is_open(self, connection: Connection, topic: str) -> bool:
        """Whether messages of a client to a topic may go so."""
        return (
            0 < len(topic) <= self._long_topic
            and not topic.startswith(SPECIAL)
            and connection.permissions.unrestricted
        )

    def _event(self, session: Session, packet: Publish, now: float) -> Event:
        """The event that a message is which goes along its route."""
        node, client_id = session.node, session.client_id
        return Event(
            self._state.unique_id(), packet.topic, node, now, NOTHING,
            self._state.engine.position(node), False, None, None, None, False, None, None,
            packet.payload, packet.qos, client_id if client_id != node else "",
        )  # fmt: skip

    def _note(self, event: Event, raw: bytes, now: float) -> None:
        """Take note of an event that goes along its route."""
        state = self._state
        first = state.engine.note([event], now)
        if first is not None and state.journal.keeps:
            self._record([event], [raw], first, now)
            if event.qos:
                state.journal.must_sync = True

    def _record(
        self, events: Sequence[Event], raws: Sequence[bytes], first: int, now: float
    ) -> None:
        """Write rows of events that went along their route."""
        rows = self._state.journal.rows
        at, count = 0, len(events)
        while at < count:
            end, raw, event = at + 1, raws[at], events[at]
            while end < count and raws[end] == raw:
                end += 1
            run = events[at:end]
            rows.append_events(
                first + at, now, [each.id for each in run], event.subject, event.publisher,
                event.time, event.position, [each.payload for each in run], event.qos,
                *(carried_in(raw) if raw else NOTHING_CARRIED),
            )  # fmt: skip
            at = end
