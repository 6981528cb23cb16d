"""Dispatch: from decisions to frames on connections and messages in queues.

An event is encoded once for all subscribers that can take the same bytes: connected, QoS 0, and
without properties of their own. These get the frames of a whole tick in one append. All others get
a message in the queue of their session.
"""

from collections.abc import Sequence

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.shared_frames import SharedFrames
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.granted import SessionSubscription
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.metadata import enveloped, metadata
from nearcast.core.engine.delivery.deliveries import Deliveries, Recipient
from nearcast.core.engine.delivery.routes import Route
from nearcast.core.model.event import Event
from nearcast.core.model.event_run import joined_runs
from nearcast.core.model.visibility import SEE_ALL
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.store.rows.message_headers import UserProperties
from nearcast.wire.mqtt import PublishFrame, is_shared


class Receiver:
    """A recipient with its session, its granted subscriptions and its delivery format."""

    __slots__ = ("grants", "labels", "qos", "recipient", "session", "takes_shared_frames")

    def __init__(
        self, recipient: Recipient, session: Session, grants: tuple[SessionSubscription, ...]
    ) -> None:
        self.recipient = recipient
        self.session = session
        self.grants = grants
        self.qos = max((grant.wanted.qos for grant in grants), default=0)
        self.labels: tuple[str, ...] | None = None
        """Names of its subscriptions in metadata; None: it wants no metadata."""
        if any(grant.meta for grant in grants):
            self.labels = tuple(grant.label for grant in grants)
        self.takes_shared_frames = bool(grants) and not any(
            grant.envelope or grant.identifier is not None for grant in grants
        )

    @property
    def connection(self) -> Connection | None:
        """The connection, if shared frames can be written to it unchanged."""
        return self.session.direct_connection if self.takes_shared_frames else None


NO_SESSION = Session("", 0.0)
"""A placeholder that never has a connection."""


class DeliveryDispatcher:
    """Writes events to connections and queues."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._route: Route | None = None
        """The route of the events that wait to be dispatched together."""
        self._waiting: list[Sequence[Event]] = []

    def deliver_along(self, route: Route, events: Sequence[Event]) -> None:
        """Deliver events along a route; consecutive calls with one route are combined."""
        if route is not self._route:
            if self._route is not None:
                self.flush()
            self._route = route
        self._waiting.append(events)

    def flush(self) -> None:
        """Deliver the events collected by `deliver_along`."""
        route, waiting = self._route, self._waiting
        if route is None:
            return
        self._route, self._waiting = None, []
        events = waiting[0] if len(waiting) == 1 else joined_runs(waiting)
        self.deliver(Deliveries.along(route, events))

    def deliver(self, deliveries: Deliveries) -> None:
        """Deliver the engine's decisions, session by session."""
        state, events = self._state, deliveries.events
        frames = SharedFrames(events)
        everything, touched, sent, counted = len(events), state.touched, 0, state.priorities
        sees_all = not state.engine.matcher.sight.restricted
        version, whole = 0, b""
        alike: Sequence[int] | None = None
        """Priorities that are all the best; those of a route are one sequence for everybody."""
        for recipient, places, priorities in deliveries.by_session():
            receiver: Receiver | None = recipient.host  # type: ignore[assignment]  # put there here
            if receiver is None:
                receiver = recipient.host = self._receiver(recipient)
            session, copies = receiver.session, len(places)
            connection = session.direct_connection if receiver.takes_shared_frames else None
            if priorities is not alike:
                if priorities.count(1) == copies:
                    alike = priorities
                elif WITHHELD in priorities:
                    connection = None
            if connection is None or (frames.most_qos and receiver.qos) or frames.any_special:
                for place, priority in zip(places, priorities, strict=True):
                    self._deliver(receiver, frames, place, priority, deliveries)
                continue
            if receiver.labels is not None:
                if sees_all:
                    told = frames.with_metadata
                    connection.out += [
                        told(connection.version, place, priority, receiver.labels, SEE_ALL)
                        for place, priority in zip(places, priorities, strict=True)
                    ]
                else:
                    connection.out += [
                        self._with_metadata(receiver, connection, frames, place, priority)
                        for place, priority in zip(places, priorities, strict=True)
                    ]
            elif copies == everything:
                if connection.version != version:
                    version = connection.version
                    whole = frames.joined(version)
                connection.out.append(whole)
            else:
                plain = frames.plain(connection.version)
                connection.out += [plain[place] for place in places]
            sent += copies
            if priorities is not alike:
                counted.sent.update(priorities)
                counted.sent[1] -= copies
            session.account.packets_sent += copies
            if not connection.touched:
                connection.touched = True
                touched.append(connection)
        state.counters["sent"] += sent
        counted.sent[1] += sent

    def put(self, session: Session, message: QueuedDelivery) -> bool:
        """Queue a message for a session; False if its queue is full of more urgent ones.

        A queue that is full drops its least urgent message.
        """
        state = self._state
        connection, reader = session.connection, session.reader
        if connection is None and reader is None and not message.qos:
            return True
        dropped = session.put(message, state.limits, state.journal)
        if dropped:
            self._note_dropped(session, dropped)
            if dropped[0] is message:
                return False
        state.counters["sent"] += 1
        if connection is not None:
            state.touch(connection)
        elif reader is not None:
            reader.note_queued()
        return True

    def put_anyway(self, session: Session, message: QueuedDelivery) -> bool:
        """Queue a message of the broker itself for a session whose queue may be full."""
        state = self._state
        if not session.put_anyway(message, state.limits, state.journal):
            return False
        state.counters["sent"] += 1
        if session.connection is not None:
            state.touch(session.connection)
        return True

    def _note_dropped(self, session: Session, dropped: Sequence[QueuedDelivery]) -> None:
        """Note messages that were dropped; copies of live events are delivered later."""
        state = self._state
        state.counters["dropped"] += len(dropped)
        state.losers.add(session)
        for each in dropped:
            self._note_missed(session, each)

    def _note_missed(self, session: Session, copy: QueuedDelivery) -> None:
        """Note a copy that did not stay in a queue, if its session gets the event later."""
        if copy.live_id is not None and copy.message.live_key is not None:
            session.misses = True
            missed = self._state.undelivered.setdefault(session.client_id, [])
            missed.append((copy.message.live_key, copy.live_id))

    def _receiver(self, recipient: Recipient) -> Receiver:
        session = self._state.sessions.get(recipient.owner, NO_SESSION)
        granted = (session.granted.get(each.id) for each in recipient.subscriptions)
        return Receiver(recipient, session, tuple(each for each in granted if each is not None))

    def _deliver(
        self,
        receiver: Receiver,
        frames: SharedFrames,
        place: int,
        priority: int,
        deliveries: Deliveries,
    ) -> None:
        """Deliver one copy of one event: as a shared frame if possible, else through the queue."""
        state, event = self._state, frames.events[place]
        connection = receiver.connection
        if priority == WITHHELD:
            # It waited in the pipeline, and is withheld by now: it goes on waiting here.
            state.priorities.withheld += 1
            connection = None
        if connection is None or (event.qos and receiver.qos) or frames.is_special(event):
            self._enqueue(receiver, frames, place, priority, deliveries)
            return
        if receiver.labels is None:
            frame = frames.plain(connection.version)[place]
        else:
            frame = self._with_metadata(receiver, connection, frames, place, priority)
        connection.out.append(frame)
        state.priorities.sent[priority] += 1
        receiver.session.account.packets_sent += 1
        state.touch(connection)
        state.counters["sent"] += 1

    def _with_metadata(
        self,
        receiver: Receiver,
        connection: Connection,
        frames: SharedFrames,
        place: int,
        priority: int,
    ) -> bytes:
        """Return the frame of an event with metadata, as far as the subscriber may see it."""
        assert receiver.labels is not None
        sees, matcher = SEE_ALL, self._state.engine.matcher
        if matcher.sight.restricted:
            publisher = frames.events[place].publisher
            sees = matcher.world.may_see(receiver.session.node, publisher)
        return frames.with_metadata(connection.version, place, priority, receiver.labels, sees)

    def _enqueue(
        self,
        receiver: Receiver,
        frames: SharedFrames,
        place: int,
        priority: int,
        deliveries: Deliveries,
    ) -> None:
        """Queue a copy of an event for its session."""
        state, session, grants = self._state, receiver.session, receiver.grants
        if not grants or state.sessions.get(session.client_id) is not session:
            return
        event, message, replayed = frames.events[place], frames.message(place), deliveries.replayed
        live_id: str | None = None
        basis = state.engine.priority_basis(deliveries, place, receiver.recipient)
        if event.stays:
            message.live_key = state.engine.live_key(event)
            # A copy through a shared subscription is additional to the session's own copy.
            if event.valid_s == 0.0 and not is_shared(grants[0].wanted.filter):
                session.drop_copies(message.live_key, state.limits, state.journal)
            if session.durable:
                state.seen.append((event, session))
            if state.engine.comes_later(event, receiver.recipient.subscriptions):
                live_id = event.id
        if event.deadline_s is not None and not replayed:
            message.deadline = state.now + event.deadline_s
        if session.reader is not None:
            read = session.reader.delivery(event, message, priority)
            if read is not None:
                read.live_id, read.basis = live_id, basis
                self.put(session, read)
            return
        # Subscriptions with an envelope get a separate copy; the others get the payload as
        # published.
        for own in ([g for g in grants if not g.envelope], [g for g in grants if g.envelope]):
            if own:
                copy = self._copy(session, event, message, own, priority, replayed)
                copy.live_id, copy.basis = live_id, basis
                if replayed and live_id is not None and not session.fits(copy, state.limits):
                    # It comes when there is room: nothing is dropped for it.
                    self._note_missed(session, copy)
                    return
                if not self.put(session, copy):
                    return

    def _copy(
        self,
        session: Session,
        event: Event,
        message: OutboundMessage,
        grants: Sequence[SessionSubscription],
        priority: int,
        replayed: bool,
    ) -> QueuedDelivery:
        """Return a message in the form that these grants want; all or none have an envelope."""
        told: UserProperties = ()
        if any(grant.meta for grant in grants):
            sees = self._state.engine.matcher.world.may_see(session.node, event.publisher)
            labels = tuple(grant.label for grant in grants)
            told = metadata(event, priority, labels, sees)
        if grants[0].envelope:
            frame = message.frame
            message = OutboundMessage(
                PublishFrame(frame.topic, enveloped(frame.payload, told), frame.raw_properties),
                message.publisher,
                message.expires_at,
                live_key=message.live_key,
                enveloped=True,
                deadline=message.deadline,
            )
            told = ()
        qos = min(event.qos, max(grant.wanted.qos for grant in grants))
        as_published = any(grant.wanted.retain_as_published for grant in grants)
        retain = event.retain and (as_published or replayed)
        identifiers = tuple(g.identifier for g in grants if g.identifier is not None)
        return QueuedDelivery(message, qos, retain, identifiers, told, priority, self._state.now)
