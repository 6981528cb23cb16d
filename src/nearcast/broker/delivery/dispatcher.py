"""Delivering: from decisions to frames on connections.

An event is one parcel for all who get it, and where nothing differs one chunk of bytes. Events
of a subject that follow each other along one route are joined before they are handed out, so a
burst to a thousand subscribers costs a thousand appends, not a thousand for each.
"""

from collections.abc import Sequence

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.granted import SessionSubscription
from nearcast.broker.sessions.session import OutboundMessage, QueuedDelivery, Session
from nearcast.broker.situation.metadata import Pairs, enveloped, metadata
from nearcast.core.engine.fan import Fan, Spread
from nearcast.core.engine.routes import Route
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.model.visibility import SEE_ALL
from nearcast.wire.mqtt import (
    MQTT_5,
    Publish,
    PublishFrame,
    is_shared,
    plain_publish,
    topic_field,
    user_properties,
)

MOST_WAYS = 65_536
Frames = dict[tuple[int, str | None, int, int], bytes]
"""Frames that tell of an event: by version, what it is called, what may be seen, and priority."""


class SessionRoute:
    """A route as the sessions at its end: those that take any frame, and the others."""

    __slots__ = ("granted", "others", "route", "simple", "topic_field")

    def __init__(self, route: Route, topic_field: bytes) -> None:
        self.route = route
        self.topic_field = topic_field
        self.simple: list[Session] = []
        """Sessions without identifiers and No Local."""
        self.granted: list[int] = []
        """The QoS that each of them was granted."""
        self.others: list[tuple[Session, tuple[Subscription, ...]]] = []


class Receiver:
    """Who gets what fits a subscription, and in which form."""

    __slots__ = ("label", "qos", "session", "simple")

    def __init__(self, session: Session, label: str | None, qos: int, simple: bool) -> None:
        self.session = session
        self.label = label
        """What deliveries that tell of their events call it; None if they tell nothing."""
        self.qos = qos
        self.simple = simple
        """A shared frame will do."""

    @property
    def connection(self) -> Connection | None:
        """Where a shared frame of QoS 0 can be written as it is, if it can."""
        return self.session.direct_connection if self.simple else None


NOBODY = Session("", 0.0)
"""Has no connection, and never will."""


class DeliveryDispatcher:
    """Puts events on connections and into queues."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._ways: dict[str, SessionRoute] = {}
        self._run: list[Publish] = []
        self._run_way: SessionRoute | None = None

    def way(self, topic: str, route: Route) -> SessionRoute:
        """The way for a topic."""
        way = self._ways.get(topic)
        if way is not None and way.route is route:
            return way
        if len(self._ways) >= MOST_WAYS:
            self._ways.clear()
        way = self._ways[topic] = SessionRoute(route, topic_field(topic))
        for own in route.copies:
            session = self._state.sessions.get(own[0].owner)
            if session is None:
                continue
            if any(each.no_local for each in own) or session.identifiers_of(own):
                way.others.append((session, own))
            else:
                way.simple.append(session)
                way.granted.append(max(each.qos for each in own))
        return way

    def send(self, way: SessionRoute, publisher: Session, packet: Publish) -> None:
        """Send a message along a way; those of QoS 0 that follow each other go together."""
        if packet.qos or way.others:
            parcel = OutboundMessage(_frame_of(packet), publisher.client_id)
            self.send_parcel(way, publisher, parcel, packet.qos)
            return
        if way is not self._run_way:
            self.flush()
            self._run_way = way
        self._run.append(packet)

    def send_run(self, way: SessionRoute, publisher: Session, packets: Sequence[Publish]) -> None:
        """Send messages of QoS 0 on one topic along a way."""
        if way.others:
            for packet in packets:
                self.send(way, publisher, packet)
            return
        if way is not self._run_way:
            self.flush()
            self._run_way = way
        self._run += packets

    def flush(self) -> None:
        """Hand out the run so far."""
        way, run = self._run_way, self._run
        if way is None:
            return
        self._run_way, self._run = None, []
        state = self._state
        topic = way.topic_field
        chunks: list[bytes | None] = [None, None]
        touched = state.touched
        sent = 0
        for session in way.simple:
            connection = session.direct_connection
            if connection is not None:
                five = connection.version == MQTT_5
                chunk = chunks[five]
                if chunk is None:
                    frames = [
                        plain_publish(topic, each.raw_properties, each.payload, five)
                        for each in run
                    ]
                    chunk = chunks[five] = frames[0] if len(frames) == 1 else b"".join(frames)
                connection.out.append(chunk)
                if not connection.touched:
                    connection.touched = True
                    touched.append(connection)
                sent += 1
            elif session.connection is not None:
                for packet in run:
                    parcel = OutboundMessage(_frame_of(packet))
                    self.put(session, QueuedDelivery(parcel, 0))
        state.counters["sent"] += sent * len(run)

    def deliver(self, sent: Spread | Fan | Delivery) -> None:
        """Deliver what the engine decided."""
        if isinstance(sent, Spread):
            self._deliver_spread(sent)
            return
        parcel = self._parcel(sent.event)
        if parcel is None:
            return
        if isinstance(sent, Fan):
            self._deliver_fan(sent, parcel)
        else:
            self.deliver_parcel(sent, parcel)

    def _deliver_spread(self, spread: Spread) -> None:
        """Deliver events session by session, where their frames can be shared."""
        events = spread.events
        parcels = [
            parcel
            for event in events
            if (parcel := self._parcel(event)) is not None
            and parcel.expires_at is None
            and not event.qos
        ]
        if len(parcels) != len(events):
            for fan in spread.fans():
                self.deliver(fan)
            return
        state = self._state
        touched, sent = state.touched, 0
        plain: list[list[bytes] | None] = [None] * (MQTT_5 + 1)
        telling: list[Frames] = [{} for _ in events]
        places, priorities, starts = spread.places, spread.priorities, spread.starts
        for i, one in enumerate(spread.filed):
            start, end = starts[i], starts[i + 1]
            receiver = one.receiver
            if receiver is None:
                receiver = one.receiver = self._receiver(one.subscription)
            assert isinstance(receiver, Receiver)
            connection = receiver.connection
            if connection is None:
                for place, priority in zip(places[start:end], priorities[start:end], strict=True):
                    delivery = one.delivery(events[place], priority)
                    self.deliver_parcel(delivery, parcels[place])
                continue
            version = connection.version
            if receiver.label is None:
                frames = plain[version]
                if frames is None:
                    frames = [parcel.frame.at_most_once(version) for parcel in parcels]
                    plain[version] = frames
                connection.out += [frames[place] for place in places[start:end]]
            else:
                connection.out += [
                    self._telling(
                        events[place], priority, parcels[place], receiver, version, telling[place]
                    )
                    for place, priority in zip(
                        places[start:end], priorities[start:end], strict=True
                    )
                ]
            sent += end - start
            if not connection.touched:
                connection.touched = True
                touched.append(connection)
        state.counters["sent"] += sent

    def _deliver_fan(self, fan: Fan, parcel: OutboundMessage) -> None:
        """Deliver at once what many get in the same form, and to the others one by one."""
        event, state = fan.event, self._state
        touched = state.touched
        frames: Frames = {}
        plain: list[bytes | None] = [None] * (MQTT_5 + 1)
        expires, qos, sent = parcel.expires_at is not None, event.qos, 0
        for filed in fan.filed:
            receiver = filed.receiver
            if receiver is None:
                receiver = filed.receiver = self._receiver(filed.subscription)
            assert isinstance(receiver, Receiver)
            connection = receiver.connection
            if connection is None or expires or (qos and receiver.qos):
                self.deliver_parcel(fan.delivery(filed), parcel)
                continue
            version = connection.version
            if receiver.label is None:
                frame = plain[version]
                if frame is None:
                    frame = plain[version] = parcel.frame.at_most_once(version)
            else:
                frame = self._telling(event, fan.priority, parcel, receiver, version, frames)
            connection.out.append(frame)
            sent += 1
            if not connection.touched:
                connection.touched = True
                touched.append(connection)
        state.counters["sent"] += sent

    def _telling(
        self,
        event: Event,
        priority: int,
        parcel: OutboundMessage,
        receiver: "Receiver",
        version: int,
        frames: Frames,
    ) -> bytes:
        """The frame for one who wants to be told of the event."""
        sees, matcher = SEE_ALL, self._state.engine.matcher
        if matcher.sight.restricted:
            sees = matcher.world.may_see(receiver.session.node, event.publisher)
        form = (version, receiver.label, sees, priority)
        frame = frames.get(form)
        if frame is None:
            assert receiver.label is not None
            told = metadata(event, priority, (receiver.label,), sees)
            frame = parcel.frame.at_most_once(version, False, user_properties(told))
            frames[form] = frame
        return frame

    def _receiver(self, subscription: Subscription) -> "Receiver":
        """Who gets what fits a subscription, in which form."""
        session = self._state.sessions.get(subscription.owner)
        grant = None
        if session is not None:
            grant = session.granted.get(subscription.id.partition("\0")[2])
        if session is None or grant is None:
            return Receiver(NOBODY, None, 0, False)
        simple = not grant.envelope and grant.identifier is None
        return Receiver(session, grant.label if grant.meta else None, grant.wanted.qos, simple)

    def deliver_parcel(self, delivery: Delivery, parcel: OutboundMessage) -> None:
        """Deliver a parcel as the subscriptions that it is for want it."""
        event, state = delivery.event, self._state
        session = state.sessions.get(delivery.owner)
        if session is None:
            return
        grants = [
            grant
            for name in delivery.subscriptions
            if (grant := session.granted.get(name.partition("\0")[2])) is not None
        ]
        if not grants:
            return
        if event.stays:
            parcel.live_key = state.engine.live_key(event)
            # What comes through a group comes beside the session's own copy.
            if event.valid_s == 0.0 and not is_shared(grants[0].wanted.filter):
                session.drop_copies(parcel.live_key, state.limits, state.journal)
            if session.durable:
                state.seen.append((event, session))
        # Those that want an envelope have a copy of their own: others want what was published.
        for own in ([g for g in grants if not g.envelope], [g for g in grants if g.envelope]):
            if own and not self.put(session, self._copy(session, delivery, parcel, own)):
                self._miss(session, delivery)
                return

    def _copy(
        self,
        session: Session,
        delivery: Delivery,
        parcel: OutboundMessage,
        grants: Sequence[SessionSubscription],
    ) -> QueuedDelivery:
        """A parcel in the form that these subscriptions of a session want; all or no envelope."""
        event = delivery.event
        told: Pairs = ()
        if any(grant.meta for grant in grants):
            sees = self._state.engine.matcher.world.may_see(session.node, event.publisher)
            labels = tuple(grant.label for grant in grants)
            told = metadata(event, delivery.priority, labels, sees)
        if grants[0].envelope:
            frame = parcel.frame
            parcel = OutboundMessage(
                PublishFrame(frame.topic, enveloped(frame.payload, told), frame.raw_properties),
                parcel.publisher,
                parcel.expires_at,
                live_key=parcel.live_key,
                enveloped=True,
            )
            told = ()
        qos = min(event.qos, max(grant.wanted.qos for grant in grants))
        as_published = any(grant.wanted.retain_as_published for grant in grants)
        retain = event.retain and (as_published or delivery.replayed)
        identifiers = tuple(g.identifier for g in grants if g.identifier is not None)
        return QueuedDelivery(parcel, qos, retain, identifiers, told, delivery.priority)

    def send_parcel(
        self, way: SessionRoute, publisher: Session, parcel: OutboundMessage, qos: int
    ) -> None:
        """Send one parcel along a way."""
        self.flush()
        state = self._state
        plain = parcel.expires_at is None
        for session, granted in zip(way.simple, way.granted, strict=True):
            lower = qos if qos < granted else granted
            connection = session.direct_connection
            if connection is not None and plain and not lower:
                connection.out.append(parcel.frame.at_most_once(connection.version))
                state.touch(connection)
                state.counters["sent"] += 1
            else:
                self.put(session, QueuedDelivery(parcel, lower))
        for session, own in way.others:
            fit = [each for each in own if not (each.no_local and session is publisher)]
            if not fit:
                continue
            granted = max(each.qos for each in fit)
            identifiers = session.identifiers_of(fit)
            self.put(session, QueuedDelivery(parcel, min(qos, granted), False, identifiers))

    def put(self, session: Session, message: QueuedDelivery) -> bool:
        """Let a session have a message; False if there is no room for it."""
        state = self._state
        if not session.put(message, state.limits, state.journal):
            if message.qos or session.connection is not None:
                state.counters["dropped"] += 1
                return False
            return True
        state.counters["sent"] += 1
        if session.connection is not None:
            state.touch(session.connection)
        return True

    def _miss(self, session: Session, delivery: Delivery) -> None:
        """A session has no room for an event; one that is live comes when it has."""
        state, event = self._state, delivery.event
        if state.engine.comes_later(delivery):
            session.misses = True
            missed = state.undelivered.setdefault(session.client_id, [])
            missed.append((state.engine.live_key(event), event.id))

    def _parcel(self, event: Event) -> OutboundMessage | None:
        """What an event of this tick carries, or a live one."""
        parcel = self._state.parcels.get((event.publisher, event.id))
        # One that is live may have the id of another that repeats or withdraws it in this tick.
        if parcel is not None and parcel.frame.payload is event.payload:
            return parcel
        kept = self._state.live.get(self._state.engine.live_key(event))
        if kept is None:
            return None
        # Another parcel: the store keeps a message only while somebody waits for it.
        parcel = OutboundMessage(kept.frame, kept.publisher, kept.expires_at)
        self._state.parcels.setdefault((event.publisher, event.id), parcel)
        return parcel


def _frame_of(packet: Publish) -> PublishFrame:
    return PublishFrame(packet.topic, packet.payload, packet.raw_properties)
