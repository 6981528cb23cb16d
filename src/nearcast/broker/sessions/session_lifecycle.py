"""Sessions from their first connection to their end: takeover, loss, expiry, wills.

A lost connection triggers its will, and a session that is not resumed in time ends. When many
connections are lost at once, a limited number is handled per tick, so that other clients are not
delayed.
"""

from math import inf, isnan

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.publish import PublishHandler
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.sizes import will_bytes
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_timers import SessionTimers
from nearcast.broker.sessions.wills import restored_will, stored_will
from nearcast.core.model.inputs import Classified, Left, Presence, Unannounced
from nearcast.store import (
    SessionDropped,
    SessionOwner,
    SessionPut,
    StoredSession,
    standing_change,
)
from nearcast.wire.handover import PUBLISHER
from nearcast.wire.mqtt import Disconnect, ReasonCode, Will

FOREVER = 0xFFFF_FFFF
"""The session expiry interval of a session that does not expire."""
MOST_AT_ONCE = 200
"""The most clients that connect, and that leave, in one tick; the rest wait for the next."""


class SessionLifecycle:
    """Begins, detaches, resumes and ends sessions."""

    def __init__(self, state: BrokerState, publishing: PublishHandler) -> None:
        self._state = state
        self._publishing = publishing
        self._timers = SessionTimers()

    # With a connection

    def take_over(self, client_id: str, clean_start: bool, now: float) -> Session | None:
        """Return the session that a client resumes, or None if it needs a new one.

        A session that is in use is detached from its connection first.
        """
        session = self._state.sessions.get(client_id)
        if session is None:
            return None
        if session.connection is not None:
            why = "another connection came with this client id"
            self._state.close(session.connection, ReasonCode.SESSION_TAKEN_OVER, why)
            self._detach(session.connection, session, now)
            if client_id not in self._state.sessions:
                return None
        ends = clean_start or not session.durable or session.expiry_s == 0.0
        will = self._timers.take_will(client_id)
        if will is not None and (ends or will[0] <= now):
            # A will is published when its session ends or its delay is over.
            self._publishing.publish_will(session, will[1], now)
        self._count_will(session)
        if ends:
            self._end(session, now)
            return None
        self._timers.cancel_end(client_id)
        return session

    def begin(self, client_id: str, owner: SessionOwner, now: float) -> Session:
        """Create a session."""
        state = self._state
        usage = state.quotas.open(client_id, owner)
        session = Session(client_id, now, usage, state.priorities)
        state.sessions[client_id] = session
        state.parts[session.node] += 1
        return session

    def attach(self, session: Session, connection: Connection) -> None:
        """Attach a connection to a session."""
        session.attach(connection)
        session.usage.add(Resource.CONNECTIONS, 1)
        self._count_will(session)
        session.left_at = None
        self._state.traffic.joined()
        self._state.online[session.node] += 1

    def announce(self, session: Session, online: bool) -> None:
        """Queue the presence of a session for the engine."""
        self._ask(session, Presence(session.node, online, session.part))

    def disconnect(self, connection: Connection, session: Session, packet: Disconnect) -> None:
        """Handle DISCONNECT: the new expiry, and whether the will is published."""
        expiry = packet.properties.session_expiry_interval
        if expiry is not None:
            if session.expiry_s == 0.0 and expiry:
                why = "a session that was to end with its connection cannot be prolonged"
                self._state.close(connection, ReasonCode.PROTOCOL_ERROR, why)
                return
            session.expiry_s = expiry_seconds(min(expiry, self._state.limits.session_expiry_s))
        if packet.reason_code != ReasonCode.DISCONNECT_WITH_WILL_MESSAGE:
            connection.will = None
            self._count_will(session)
        connection.close()
        self._state.touch(connection)

    def lost(self, connection: Connection) -> None:
        """Close a lost connection; a later tick detaches its session."""
        connection.close()
        session = connection.session
        if session is not None and session.connection is connection:
            self._state.leaving.append((connection, session))

    def detach_lost(self, now: float) -> None:
        """Detach or end a limited number of sessions whose connection was lost."""
        leaving = self._state.leaving
        for _ in range(min(MOST_AT_ONCE, len(leaving))):
            connection, session = leaving.popleft()
            if session.connection is connection:
                self._detach(connection, session, now)

    def _detach(self, connection: Connection, session: Session, now: float) -> None:
        session.detach()
        session.usage.add(Resource.CONNECTIONS, -1)
        client_id, state = session.client_id, self._state
        state.traffic.left()
        state.online[session.node] -= 1
        if not state.online[session.node]:
            del state.online[session.node]
        self.announce(session, online=False)
        if not session.durable:
            session.forget_received()
        will, connection.will = connection.will, None
        if will is not None:
            delay = float(will.properties.will_delay_interval or 0)
            due = now + min(delay, session.expiry_s)
            if due <= now:
                self._publishing.publish_will(session, will, now)
            else:
                self._timers.delay_will(client_id, will, due)
        self._count_will(session)
        if session.expiry_s == 0.0 or not session.durable:
            self._end(session, now)
        else:
            self._timers.expire_at(client_id, now + session.expiry_s)
            session.left_at = now
            self.keep(session)

    # Without one

    def expire(self, now: float) -> None:
        """Publish due wills and end expired sessions."""
        for client_id, will in self._timers.take_due(now, MOST_AT_ONCE):
            session = self._state.sessions[client_id]
            if will is None:
                self._end(session, now)
            else:
                self._count_will(session)
                self._publishing.publish_will(session, will, now)
                self.keep(session)

    def next_timer(self) -> float | None:
        """The time when the next will or session end is due."""
        return self._timers.next_timer()

    def restore(self, stored: StoredSession, session: Session, now: float) -> None:
        """Restore the owner, will and timers of a session; it has no connection yet."""
        since = now if stored.disconnected is None else stored.disconnected
        # Earlier releases stored NaN for a session without expiry that had published its will.
        session.left_at = since = now if isnan(since) else since
        session.notices, session.losses = stored.notices, dict(stored.losses) or None
        if stored.will is not None:
            due = since + min(stored.will.delay_s, session.expiry_s)
            self._timers.delay_will(session.client_id, restored_will(stored.will), due)
            self._count_will(session)
        self._timers.expire_at(session.client_id, since + session.expiry_s)

    def end(self, session: Session, now: float) -> None:
        """End a session, connected or not."""
        if session.connection is not None:
            self._detach(session.connection, session, now)
        if session.client_id in self._state.sessions:
            self._end(session, now)

    def _end(self, session: Session, now: float) -> None:
        state, client_id = self._state, session.client_id
        self._timers.cancel_end(client_id)
        del state.sessions[client_id]
        state.parts[session.node] -= 1
        if not state.parts[session.node]:
            del state.parts[session.node]
        will = self._timers.take_will(client_id)
        if will is not None:
            self._publishing.publish_will(session, will[1], now)
        self._ask(session, Left(session.node, session.part))
        if session.is_kept:
            state.journal.note(SessionDropped(client_id))
            for node, subject in state.engine.announced_by(client_id):
                state.journal.note(standing_change(Unannounced(node, subject)))
            for module in state.engine.link_classes(client_id):
                ended = Classified(session.node, module, None, session.part)
                state.journal.note(standing_change(ended))
        state.counters["dropped_at_end"] += session.statistics()["waiting"]
        usage = session.usage
        session.release_usage()
        state.quotas.close(usage)
        if session.reader is not None:
            session.reader.session_ended()

    def _ask(self, session: Session, value: Presence | Left) -> None:
        """Queue an input for the engine, except for the pipeline's own session.

        Otherwise the pipeline would receive news of itself in an endless loop.
        """
        if session.node != PUBLISHER:
            self._state.pending.ask(value)

    # Will and store

    def will_of(self, session: Session) -> Will | None:
        """The will of a session, connected or not."""
        if session.connection is not None:
            return session.connection.will
        return self._timers.will(session.client_id)

    def drop_will(self, session: Session) -> None:
        """Remove the will of a session, so that nothing is published when it ends."""
        if session.connection is not None:
            session.connection.will = None
        self._timers.take_will(session.client_id)
        self._count_will(session)

    def _count_will(self, session: Session) -> None:
        usage, size = session.usage, will_bytes(self.will_of(session))
        usage.add(Resource.WILL_BYTES, size - usage.used[Resource.WILL_BYTES])

    def keep(self, session: Session) -> None:
        """Note a session in the journal if it is durable, has a will or is already stored."""
        will = self.will_of(session)
        if not (session.durable or will is not None or session.is_kept):
            return
        session.is_kept = True
        stored = StoredSession(
            session.client_id, session.created,
            None if session.owner is None else session.owner.user,
            None if session.expiry_s == inf else session.expiry_s,
            session.left_at, None if will is None else stored_will(will),
            owner=session.owner, notices=session.notices, losses=dict(session.losses or {}),
        )  # fmt: skip
        self._state.journal.note(SessionPut(stored))


def expiry_seconds(interval: int) -> float:
    """Return a session expiry interval in seconds; `inf` if it never expires."""
    return inf if interval == FOREVER else float(interval)
