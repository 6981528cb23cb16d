"""Arrivals: clients come, take over, leave, and are waited for.

A CONNECT is decided by the doors, then finds or makes its session. A client that is lost leaves
its will, and a session that nobody comes back to ends. When many come or go at once they are
taken a few at a time, so that nobody else waits for them.
"""

import heapq
from collections.abc import Callable
from itertools import count
from math import inf, isnan

from nearcast.broker.auth import Admitted, CredentialCheck
from nearcast.broker.auth import AuthRefusal as Refusal
from nearcast.broker.auth.admission import Admission
from nearcast.broker.auth.permissions import NOTHING
from nearcast.broker.auth.rights_review import RightsReview
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.handover import pipeline_access
from nearcast.broker.ingest.publish import PublishHandler
from nearcast.broker.ingest.refusal import LONGEST_REASON, RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.connack import connack_properties
from nearcast.broker.sessions.session import LARGEST_PACKET_ID, Session
from nearcast.broker.sessions.wills import kept_will, problem_with, restored_will
from nearcast.broker.situation.commands import ANNOUNCEMENTS, announcement_key
from nearcast.broker.situation.nc_properties import check_connect
from nearcast.core.model.geometry.position import shown
from nearcast.core.model.inputs import Left, Presence
from nearcast.store import Forgotten, SessionDropped, SessionOwner, SessionPut
from nearcast.store import StoredSession as KeptSession
from nearcast.wire.handover import PUBLISHER
from nearcast.wire.mqtt import (
    MQTT_5,
    ConnAck,
    Connect,
    Disconnect,
    Properties,
    ReasonCode,
    Will,
    encode_within,
)

FOREVER = 0xFFFF_FFFF
RESERVED = frozenset(("", "me", "here"))
"""No node is called so: in areas and topics they mean something else."""
MOST_AT_ONCE = 200
"""So many clients come, and so many go, in one tick; the others in the next."""


class SessionManager:
    """Lets clients in and out."""

    def __init__(
        self,
        state: BrokerState,
        publishing: PublishHandler,
        doors: Admission,
        rights_review: RightsReview,
    ) -> None:
        self._state = state
        self._publishing = publishing
        self._doors = doors
        self._rights_review = rights_review
        self._waiting: dict[Connection, Connect] = {}
        self._due: list[tuple[float, int, str, bool]] = []
        """When a will (True) or the end of a session (False) is due, by client."""
        self._numbers = count()
        self._ends: dict[str, float] = {}
        self._wills: dict[str, tuple[float, Will]] = {}
        self.own_nodes: set[str] = set()
        """Nodes that are parts of the broker itself: no client may connect as one."""
        self.pipeline_token = ""
        """What the pipeline says to be let in; without one it is not."""

    # Coming

    def arrive(self, connection: Connection, packet: Connect) -> None:
        """A client asks to come in; what it says next waits for the answer."""
        connection.version = packet.version
        connection.largest_packet = packet.properties.maximum_packet_size or 0
        connection.backlog = []
        self._waiting[connection] = packet
        self._state.arriving.append(connection)

    def admit(
        self, now: float, let: Callable[[Connection], None]
    ) -> list[tuple[Connection, CredentialCheck]]:
        """Decide on a few who came; those whose password takes long to check are returned."""
        slow = []
        arriving = self._state.arriving
        for _ in range(min(MOST_AT_ONCE, len(arriving))):
            connection = arriving.popleft()
            packet = self._waiting.get(connection)
            if packet is None or connection.closing:
                continue
            answer = connection.trusted or self._ask_doors(connection, packet, now)
            if isinstance(answer, CredentialCheck):
                slow.append((connection, answer))
            else:
                self.decide(connection, answer, now)
                let(connection)
        return slow

    def _ask_doors(
        self, connection: Connection, packet: Connect, now: float
    ) -> Admitted | Refusal | CredentialCheck:
        answer = pipeline_access.admit(packet, connection.peer, self.pipeline_token)
        if answer is None:
            return self._doors.admit(packet, connection.peer, now)
        if isinstance(answer, Admitted):
            connection.trusted = answer
        return answer

    def decide(self, connection: Connection, answer: Admitted | Refusal, now: float) -> None:
        """The doors have answered."""
        packet = self._waiting.pop(connection, None)
        if packet is None or connection.closing:
            return
        if packet.properties.authentication_method is not None:
            answer = Refusal(
                ReasonCode.BAD_AUTHENTICATION_METHOD,
                f"the method {packet.properties.authentication_method!r} is not offered; come "
                "with a name and a password, a token or a certificate",
            )
        try:
            check_connect(packet.properties.user_properties)
        except RefusedError as refused:
            answer = Refusal(refused.reason, refused.why)
        if isinstance(answer, Refusal):
            self.refuse(connection, answer.reason, answer.why)
            return
        identity, assigned = answer.identity, None
        if not packet.client_id:
            assigned = self._doors.client_id_for(identity, self._state.unique_id())
        client_id = assigned or packet.client_id
        if client_id.partition("~")[0] in RESERVED:
            why = f"{client_id!r} names no node: me and here are reserved, and a node needs a name"
            self.refuse(connection, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
            return
        connection.admitted = answer
        if connection.trusted is None:
            if client_id.partition("~")[0] in self.own_nodes:
                why = f"{client_id!r} is a part of this broker; choose another client id"
                self.refuse(connection, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
                return
            connection.permissions = self._doors.rights(identity, client_id, answer.peer.address)
        owner = self._owner(connection, answer)
        existing = self._state.sessions.get(client_id)
        if existing is not None and not _is_owner(existing.owner, owner):
            why = f"the session of client id {shown(client_id)} belongs to another user"
            self.refuse(connection, ReasonCode.NOT_AUTHORIZED, why)
            return
        if packet.will is not None:
            problem = problem_with(packet.will, connection.permissions, self._state.limits)
            if problem is not None:
                self.refuse(connection, problem.reason, problem.why)
                return
        self._connect(connection, packet, client_id, assigned, owner, now)

    def _owner(self, connection: Connection, admitted: Admitted) -> SessionOwner:
        if connection.trusted is not None:
            return SessionOwner(admitted.identity.user, is_broker=True)
        return self._doors.owner(admitted)

    def refuse(self, connection: Connection, reason: ReasonCode, why: str) -> None:
        """Say why a client may not come in."""
        self._state.counters["refused_connections"] += 1
        properties = Properties(reason_string=why[:LONGEST_REASON])
        limit = connection.largest_packet or 1 << 28
        data = encode_within(ConnAck(False, reason, properties), connection.version, limit)
        if data is not None:
            self._state.write(connection, data)
        connection.close()
        self._state.touch(connection)

    def _connect(
        self,
        connection: Connection,
        packet: Connect,
        client_id: str,
        assigned: str | None,
        owner: SessionOwner,
        now: float,
    ) -> None:
        state, limits = self._state, self._state.limits
        session = self._session(client_id, packet.clean_start, now)
        present = session is not None
        if session is None and self._expiry(packet) and len(state.sessions) >= limits.sessions:
            why = f"there are {limits.sessions} sessions already; come with one that ends at once"
            self.refuse(connection, ReasonCode.QUOTA_EXCEEDED, why)
            return
        if session is None:
            session = state.sessions[client_id] = Session(client_id, now)
            state.parts[session.node] += 1
        properties = packet.properties
        session.owner, session.left_at = owner, None
        session.permissions = connection.permissions
        session.receive_maximum = properties.receive_maximum or LARGEST_PACKET_ID
        expiry = self._expiry(packet)
        session.expiry_s = inf if expiry == FOREVER else float(expiry)
        session.durable = session.durable or expiry > 0
        connection.will = packet.will
        connection.explains = properties.request_problem_information is not False
        connection.alias_most = min(properties.topic_alias_maximum or 0, limits.topic_aliases)
        connection.keep_alive_s = float(packet.keep_alive)
        connection.heard_at = now
        session.attach(connection)
        told = connack_properties(packet, connection, limits, expiry, assigned)
        limit = connection.largest_packet or 1 << 28
        data = encode_within(ConnAck(present, properties=told), packet.version, limit)
        if data is None:
            connection.close()
            state.touch(connection)
            return
        state.write(connection, data)
        state.traffic.joined()
        state.online[session.node] += 1
        # Before anything comes to it that went out while it was away.
        self._rights_review.review(session, [])
        self._ask(session, Presence(session.node, True, _part(session)))
        state.counters["connects"] += 1
        self._rights_review.tell_waiting(session)
        self._keep(session, connection.will)
        session.resume(now, state.journal)

    def _session(self, client_id: str, clean_start: bool, now: float) -> Session | None:
        """The session that a client comes back to, taken from whoever has it now."""
        session = self._state.sessions.get(client_id)
        if session is None:
            return None
        other = session.connection
        if other is not None:
            why = "another connection came with this client id"
            self._state.close(other, ReasonCode.SESSION_TAKEN_OVER, why)
            self._part_with(other, session, now)
            if client_id not in self._state.sessions:
                return None
        will = self._wills.pop(client_id, None)
        ends = clean_start or not session.durable or session.expiry_s == 0.0
        if will is not None and (ends or will[0] <= now):
            # A session that ends, or a delay that is over, brings the will out.
            self._publishing.publish_will(session, will[1], now)
        self._ends.pop(client_id, None)
        if ends:
            self._end(session, now)
            return None
        return session

    def _expiry(self, packet: Connect) -> int:
        if packet.version == MQTT_5:
            wanted = packet.properties.session_expiry_interval or 0
        else:
            wanted = 0 if packet.clean_start else FOREVER
        return min(wanted, self._state.limits.session_expiry_s)

    # Going

    def disconnect(self, connection: Connection, session: Session, packet: Disconnect) -> None:
        """A client says goodbye."""
        expiry = packet.properties.session_expiry_interval
        if expiry is not None:
            if session.expiry_s == 0.0 and expiry:
                why = "a session that was to end with its connection cannot be prolonged"
                self._state.close(connection, ReasonCode.PROTOCOL_ERROR, why)
                return
            expiry = min(expiry, self._state.limits.session_expiry_s)
            session.expiry_s = inf if expiry == FOREVER else float(expiry)
        if packet.reason_code != ReasonCode.DISCONNECT_WITH_WILL_MESSAGE:
            connection.will = None
        connection.close()
        self._state.touch(connection)

    def leave(self, connection: Connection) -> None:
        """A connection is gone."""
        self._waiting.pop(connection, None)
        connection.close()
        session = connection.session
        if session is not None and session.connection is connection:
            self._state.leaving.append((connection, session))

    def part(self, now: float) -> None:
        """See to a few who went."""
        leaving = self._state.leaving
        for _ in range(min(MOST_AT_ONCE, len(leaving))):
            connection, session = leaving.popleft()
            if session.connection is connection:
                self._part_with(connection, session, now)

    def _part_with(self, connection: Connection, session: Session, now: float) -> None:
        session.detach()
        client_id = session.client_id
        online = self._state.online
        self._state.traffic.left()
        online[session.node] -= 1
        if not online[session.node]:
            del online[session.node]
        self._ask(session, Presence(session.node, False, _part(session)))
        if session.received is not None and not session.durable:
            session.received = None
        will, connection.will = connection.will, None
        if will is not None:
            delay = float(will.properties.will_delay_interval or 0)
            due = now + min(delay, session.expiry_s)
            if due <= now:
                self._publishing.publish_will(session, will, now)
            else:
                self._wills[client_id] = (due, will)
                self._schedule(due, client_id, True)
        if session.expiry_s == 0.0 or not session.durable:
            self._end(session, now)
        else:
            self._ends[client_id] = now + session.expiry_s
            if session.expiry_s != inf:
                self._schedule(now + session.expiry_s, client_id, False)
            session.left_at = now
            self._keep(session, self._wills.get(client_id, (0.0, None))[1])

    def end(self, session: Session, now: float) -> None:
        """End a session, whoever is connected to it."""
        if session.connection is not None:
            self._part_with(session.connection, session, now)
        if session.client_id in self._state.sessions:
            self._end(session, now)

    # Changed rights

    def review(self, session: Session, now: float) -> None:
        """Judge a session by the rules and users of now: what its owner may not have ends."""
        owner = session.owner
        if owner is None:
            # Nobody knows yet by whose rights to judge; it is done when somebody comes.
            return
        refusal = self._recall(session)
        if refusal is not None:
            self._revoke(session, refusal, now)
            return
        notices: list[tuple[str, str]] = []
        will = self.will_of(session)
        if will is not None:
            problem = problem_with(will, session.permissions, self._state.limits)
            if problem is not None:
                self.drop_will(session)
                self._state.counters["revoked_wills"] += 1
                notices.append((will.topic, problem.why))
        before = session.notices
        self._rights_review.review(session, notices)
        if session.notices != before or notices:
            self.keep(session)

    def keep(self, session: Session) -> None:
        """Let the store know of a session as it is now."""
        self._keep(session, self.will_of(session))

    def will_of(self, session: Session) -> Will | None:
        """The will that a session has, whether its client is connected or not."""
        if session.connection is not None:
            return session.connection.will
        return self._wills.get(session.client_id, (0.0, None))[1]

    def drop_will(self, session: Session) -> None:
        """Let a session have no will, so that nothing is published when it ends."""
        if session.connection is not None:
            session.connection.will = None
        self._wills.pop(session.client_id, None)

    def _recall(self, session: Session) -> Refusal | None:
        """Give a session the permissions that its owner has now, or return why there are none."""
        owner = session.owner
        if owner is not None and owner.is_broker:
            return None
        answer = self._doors.recall(owner or SessionOwner(), session.client_id)
        if isinstance(answer, Refusal):
            session.permissions = NOTHING
            return answer
        session.permissions = answer
        if session.connection is not None:
            session.connection.permissions = answer
        return None

    def _revoke(self, session: Session, refusal: Refusal, now: float) -> None:
        """End a session whose owner may no longer have it, and let its will be unsaid."""
        self.drop_will(session)
        if session.connection is not None:
            self._state.close(session.connection, refusal.reason, refusal.why)
        self._state.counters["revoked_sessions"] += 1
        self.end(session, now)

    # Time

    def expire(self, now: float) -> None:
        """Publish wills and end sessions that are due."""
        due, state = self._due, self._state
        for _ in range(MOST_AT_ONCE):
            if not due or due[0][0] > now:
                return
            at, _, client_id, is_will = heapq.heappop(due)
            session = state.sessions.get(client_id)
            if session is None or session.connection is not None:
                continue
            if is_will:
                will = self._wills.get(client_id)
                if will is not None and will[0] == at:
                    del self._wills[client_id]
                    self._publishing.publish_will(session, will[1], now)
                    self._keep(session, None)
            elif self._ends.get(client_id) == at:
                self._end(session, now)

    def next_timer(self) -> float | None:
        """When something is due."""
        return self._due[0][0] if self._due else None

    def restore(self, kept: KeptSession, session: Session, now: float) -> None:
        """A session from before a restart: nobody is connected to it now."""
        since = now if kept.disconnected is None else kept.disconnected
        # Earlier releases kept no number where a session without end had published its will.
        session.left_at = since = now if isnan(since) else since
        session.owner = kept.owner
        if kept.owner is None and kept.user is not None:
            session.owner = SessionOwner(kept.user, is_broker=kept.user == PUBLISHER)
        session.notices = kept.notices
        self._recall(session)
        if kept.will is not None:
            due = since + min(kept.will.delay_s, session.expiry_s)
            self._wills[session.client_id] = (due, restored_will(kept.will))
            self._schedule(due, session.client_id, True)
        ends = since + session.expiry_s
        self._ends[session.client_id] = ends
        if ends != inf:
            self._schedule(ends, session.client_id, False)

    def _schedule(self, at: float, client_id: str, is_will: bool) -> None:
        # A will comes before the end of its session where both are due at once.
        number = next(self._numbers) + (0 if is_will else 1 << 62)
        heapq.heappush(self._due, (at, number, client_id, is_will))

    def _end(self, session: Session, now: float) -> None:
        state, client_id = self._state, session.client_id
        self._ends.pop(client_id, None)
        del state.sessions[client_id]
        state.parts[session.node] -= 1
        if not state.parts[session.node]:
            del state.parts[session.node]
        will = self._wills.pop(client_id, None)
        if will is not None:
            self._publishing.publish_will(session, will[1], now)
        self._ask(session, Left(session.node, _part(session)))
        if session.is_kept:
            state.journal.note(SessionDropped(client_id))
            for node, subject in state.engine.announced_by(client_id):
                state.journal.note(Forgotten(ANNOUNCEMENTS, announcement_key(node, subject)))
        state.counters["dropped_at_end"] += session.statistics()["waiting"]

    def _ask(self, session: Session, value: Presence | Left) -> None:
        """Let the engine know, but not of the pipeline: it would hear of itself for ever."""
        if session.node != PUBLISHER:
            self._state.pending.ask(value)

    def _keep(self, session: Session, will: Will | None) -> None:
        """Let the store know of a session, if it must."""
        if not (session.durable or will is not None or session.is_kept):
            return
        session.is_kept = True
        expiry = None if session.expiry_s == inf else session.expiry_s
        kept = KeptSession(
            session.client_id, session.created,
            None if session.owner is None else session.owner.user,
            expiry, session.left_at, None if will is None else kept_will(will),
            owner=session.owner, notices=session.notices,
        )  # fmt: skip
        self._state.journal.note(SessionPut(kept))


def _is_owner(owner: SessionOwner | None, other: SessionOwner) -> bool:
    """Decide whether a session is of the user who asks for it."""
    return owner is None or (owner.user, owner.is_broker) == (other.user, other.is_broker)


def _part(session: Session) -> str:
    return "" if session.client_id == session.node else session.client_id
