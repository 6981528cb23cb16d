"""Queueing: messages that the engine is to decide on become events, and wait for it."""

from nearcast.broker.broker_state import Answer, BrokerState
from nearcast.broker.ingest.publish_checks import valid_for_s
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import OutboundMessage, Session
from nearcast.broker.situation.nc_properties import NO_EVENT_OPTIONS, EventOptions
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import Published
from nearcast.core.model.payload import attributes_of
from nearcast.wire.mqtt import Properties, Publish, PublishFrame


class InputQueue:
    """Makes events of messages for the engine."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def queue(
        self,
        connection: Connection | None,
        session: Session,
        packet: Publish,
        raw: bytes,
        properties: Properties,
        spoken: EventOptions,
        now: float,
        subject: str | None = None,
    ) -> None:
        """Let the engine decide on a message; a connection gets the answer.

        Its topic is the subject, unless that is another.
        """
        state = self._state
        if spoken.id is not None and (session.node, spoken.id) in state.parcels:
            # It is a repeat, or withdraws the first: that is decided before.
            state.settle(now)
        subject = packet.topic if subject is None else subject
        event = self._event(session, packet, properties, spoken, now, subject)
        expiry, valid_s = properties.message_expiry_interval, event.valid_s
        expires_at = None
        if expiry or valid_s:
            expires_at = now + min(each for each in (expiry, valid_s) if each)
        frame = PublishFrame(packet.topic, packet.payload, raw)
        parcel = OutboundMessage(frame, session.client_id, expires_at)
        # The first of two with one id is the one that counts.
        state.parcels.setdefault((event.publisher, event.id), parcel)
        if connection is not None:
            place = len(state.inputs)
            if packet.qos:
                answer = Answer(connection, packet.qos, packet.packet_id, packet.topic)
                state.answers.append((place, answer, None))
            else:
                state.unanswered.append((place, len(state.answers), connection, packet.topic))
            connection.waits = True
        state.subjects.add(subject)
        state.inputs.append(Published(event))
        if packet.qos:
            state.journal.must_sync = True

    def _event(
        self,
        session: Session,
        packet: Publish,
        properties: Properties,
        spoken: EventOptions,
        now: float,
        subject: str,
    ) -> Event:
        """The event that a message is, with what it says of it; the engine completes it."""
        valid_s, stays = None, False
        if packet.retain or spoken is not NO_EVENT_OPTIONS:
            valid_s = valid_for_s(packet, properties, spoken)
            stays = packet.retain or valid_s is not None or spoken.object is not None
        # Who comes later may look into what stays, even if nobody does now.
        looked_into = stays or self._state.engine.matcher.reads_attributes
        # In their order: names would take longer than all else.
        return Event(
            self._state.unique_id() if spoken.id is None else spoken.id,
            subject,
            session.node,
            now if spoken.time is None else spoken.time,
            attributes_of(packet.payload) if looked_into else {},
            spoken.at,
            spoken.at is not None,
            spoken.to,
            valid_s,
            spoken.object,
            packet.retain,
            spoken.priority,
            spoken.deadline_s,
            packet.payload,
            packet.qos,
            session.client_id if session.client_id != session.node else "",
        )
