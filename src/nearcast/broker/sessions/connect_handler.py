"""CONNECT: who may connect, to which session, and the contents of the CONNACK.

When many clients connect at once, a limited number is handled per tick, so that other clients are
not delayed.
"""

from collections.abc import Callable

from msgspec import Struct

from nearcast.broker.auth import Admitted, AuthRefusal, CredentialCheck
from nearcast.broker.auth.admission import Admission
from nearcast.broker.auth.rights_review import RightsReview
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.handover import pipeline_access
from nearcast.broker.ingest.refusal import LONGEST_REASON, RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.quotas.sizes import will_bytes
from nearcast.broker.sessions.connack import connack_properties
from nearcast.broker.sessions.session import LARGEST_PACKET_ID, Session
from nearcast.broker.sessions.session_lifecycle import (
    FOREVER,
    MOST_AT_ONCE,
    SessionLifecycle,
    expiry_seconds,
)
from nearcast.broker.sessions.wills import problem_with
from nearcast.broker.situation.nc_properties import (
    check_connect,
    codings_at_connect,
    is_bridge_at_connect,
    peer_at_connect,
)
from nearcast.core.model.geometry.position import shown
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import (
    MQTT_5,
    ConnAck,
    Connect,
    Properties,
    ReasonCode,
    encode_within,
)

RESERVED = frozenset(("", "me", "here"))
"""Reserved node names: in areas and topics they have another meaning."""
NO_LIMIT = 1 << 28


class _Accepted(Struct, frozen=True):
    """A CONNECT that passed all checks."""

    packet: Connect
    client_id: str
    assigned: str | None
    """The client id assigned by the broker, if the client sent none."""
    owner: SessionOwner


class ConnectHandler:
    """Answers CONNECT."""

    def __init__(
        self,
        state: BrokerState,
        lifecycle: SessionLifecycle,
        admission: Admission,
        rights_review: RightsReview,
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._admission = admission
        self._rights_review = rights_review
        self._undecided: dict[Connection, Connect] = {}
        self.own_nodes: set[str] = set()
        """Nodes that are parts of the broker itself; no client may connect as one."""
        self.pipeline_token = ""
        """The token by which the pipeline is admitted; without one it is not admitted."""
        self.tell_losses: Callable[[Session], object] = lambda session: None
        """Tells a client that came back how many messages were dropped meanwhile."""

    def receive(self, connection: Connection, packet: Connect) -> None:
        """Queue a CONNECT; later packets of the client wait until it is decided."""
        connection.version = packet.version
        connection.largest_packet = packet.properties.maximum_packet_size or 0
        connection.is_undecided = True
        self._undecided[connection] = packet
        self._state.arriving.append(connection)

    def forget(self, connection: Connection) -> None:
        """Drop the pending CONNECT of a lost connection."""
        self._undecided.pop(connection, None)

    def decide_some(
        self, now: float, decided: Callable[[Connection], None]
    ) -> list[tuple[Connection, CredentialCheck]]:
        """Decide on a limited number of CONNECTs; return those whose credential check is slow."""
        slow = []
        arriving = self._state.arriving
        for _ in range(min(MOST_AT_ONCE, len(arriving))):
            connection = arriving.popleft()
            packet = self._undecided.get(connection)
            if packet is None or connection.closing:
                continue
            answer = connection.trusted or self._admit(connection, packet, now)
            if isinstance(answer, CredentialCheck):
                slow.append((connection, answer))
            else:
                self.decide(connection, answer, now)
                decided(connection)
        return slow

    def _admit(
        self, connection: Connection, packet: Connect, now: float
    ) -> Admitted | AuthRefusal | CredentialCheck:
        answer = pipeline_access.admit(packet, connection.peer, self.pipeline_token)
        if answer is None:
            return self._admission.admit(packet, connection.peer, now)
        if isinstance(answer, Admitted):
            connection.trusted = answer
        return answer

    def decide(self, connection: Connection, answer: Admitted | AuthRefusal, now: float) -> None:
        """Connect a client to its session, or refuse it; its credentials have been checked."""
        packet = self._undecided.pop(connection, None)
        if packet is None or connection.closing:
            return
        checked = self._check(connection, packet, answer)
        if isinstance(checked, AuthRefusal):
            self._refuse(connection, checked)
        else:
            self._connect(connection, checked, now)

    def _check(
        self, connection: Connection, packet: Connect, admitted: Admitted | AuthRefusal
    ) -> _Accepted | AuthRefusal:
        """Check a CONNECT: credentials, client id, session owner and will."""
        method = packet.properties.authentication_method
        if method is not None:
            return AuthRefusal(
                ReasonCode.BAD_AUTHENTICATION_METHOD,
                f"the method {method!r} is not offered; come "
                "with a name and a password, a token or a certificate",
            )
        try:
            check_connect(packet.properties.user_properties)
        except RefusedError as refused:
            return AuthRefusal(refused.reason, refused.why)
        if isinstance(admitted, AuthRefusal):
            return admitted
        assigned, admission = None, self._admission
        if not packet.client_id:
            assigned = admission.client_id_for(admitted.identity, self._state.unique_id())
        client_id = assigned or packet.client_id
        node = client_id.partition("~")[0]
        if node in RESERVED:
            why = f"{client_id!r} names no node: me and here are reserved, and a node needs a name"
            return AuthRefusal(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
        if node in self._state.forgetting:
            why = f"{client_id!r} is being forgotten; connect again later"
            return AuthRefusal(ReasonCode.SERVER_BUSY, why)
        connection.admitted = admitted
        if connection.trusted is not None:
            owner = SessionOwner(admitted.identity.user, is_broker=True)
        elif node in self.own_nodes:
            why = f"{client_id!r} is a part of this broker; choose another client id"
            return AuthRefusal(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
        else:
            owner = admission.owner(admitted)
            connection.permissions = admission.rights(
                admitted.identity, client_id, admitted.peer.address
            )
        existing = self._state.sessions.get(client_id)
        if existing is not None and existing.reader is not None:
            why = f"{shown(client_id)} is a script; choose another client id"
            return AuthRefusal(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
        if existing is not None and not _is_owner(existing.owner, owner):
            why = f"the session of client id {shown(client_id)} belongs to another user"
            return AuthRefusal(ReasonCode.NOT_AUTHORIZED, why)
        if packet.will is not None:
            problem = problem_with(packet.will, connection.permissions, self._state)
            if problem is not None:
                return problem
        return _Accepted(packet, client_id, assigned, owner)

    def _refuse(self, connection: Connection, refusal: AuthRefusal) -> None:
        self._state.counters["refused_connections"] += 1
        properties = Properties(reason_string=refusal.why[:LONGEST_REASON])
        data = _encode(ConnAck(False, refusal.reason, properties), connection)
        if data is not None:
            self._state.write(connection, data)
        self._close(connection)

    def _close(self, connection: Connection) -> None:
        connection.close()
        self._state.touch(connection)

    def _connect(self, connection: Connection, accepted: _Accepted, now: float) -> None:
        """Attach a connection to its session, and send the CONNACK."""
        state, limits, packet = self._state, self._state.limits, accepted.packet
        expiry = self._expiry(packet)
        properties = packet.properties
        connection.explains = properties.request_problem_information is not False
        connection.alias_most = min(properties.topic_alias_maximum or 0, limits.topic_aliases)
        accepted_codings = codings_at_connect(properties.user_properties)
        connection.encoder = state.dictionaries.encoder(accepted_codings)
        connection.is_bridge = is_bridge_at_connect(properties.user_properties)
        connection.keep_alive_s = float(packet.keep_alive)
        connection.heard_at = now
        told = connack_properties(packet, connection, limits, expiry, accepted.assigned)
        if _encode(ConnAck(False, properties=told), connection) is None:
            # The CONNACK exceeds the client's maximum packet size.
            self._close(connection)
            return
        refusal = None if connection.trusted else self._beyond_quota(accepted, expiry)
        if refusal is not None:
            self._refuse(connection, refusal)
            return
        session = self._lifecycle.take_over(accepted.client_id, packet.clean_start, now)
        present = session is not None
        if session is None:
            session = self._lifecycle.begin(accepted.client_id, accepted.owner, now)
        else:
            state.quotas.of(accepted.client_id, user_name(accepted.owner))
        session.owner, session.permissions = accepted.owner, connection.permissions
        session.receive_maximum = properties.receive_maximum or LARGEST_PACKET_ID
        session.expiry_s = expiry_seconds(expiry)
        session.durable = session.durable or expiry > 0
        connection.will = packet.will
        self._lifecycle.attach(session, connection)
        data = _encode(ConnAck(present, properties=told), connection)
        assert data is not None
        state.write(connection, data)
        offered = peer_at_connect(properties.user_properties)
        if offered is not None:
            state.peers.offer(connection, offered)
        state.counters["connects"] += 1
        self._resume(session, now)

    def _beyond_quota(self, accepted: _Accepted, expiry: int) -> AuthRefusal | None:
        """Return why a client may not have one more connection or session."""
        quotas, client_id = self._state.quotas, accepted.client_id
        before = self._state.sessions.get(client_id)
        if quotas.shortage:
            # A session that goes on takes what waits for it, which frees memory.
            if before is not None and before.durable and not accepted.packet.clean_start:
                return None
            reason = ReasonCode.QUOTA_EXCEEDED if expiry else ReasonCode.SERVER_BUSY
            return AuthRefusal(reason, quotas.shortage)
        user = None if before is not None else user_name(accepted.owner)
        usage = quotas.of(client_id, user)
        wills, connections = Resource.WILL_BYTES, Resource.CONNECTIONS
        why = quotas.problem_with(
            usage,
            {
                connections: 1 - usage.used[connections],
                wills: will_bytes(accepted.packet.will) - usage.used[wills],
                Resource.SESSIONS: int(before is None and expiry > 0),
            },
        )
        quotas.tidy(usage)
        if why is None:
            return None
        return AuthRefusal(ReasonCode.QUOTA_EXCEEDED, why)

    def _resume(self, session: Session, now: float) -> None:
        """Continue a session that has a connection again."""
        # Check permissions before messages queued while the client was away are sent.
        self._rights_review.review(session, [])
        self._lifecycle.announce(session, online=True)
        self._rights_review.tell_waiting(session)
        self.tell_losses(session)
        self._lifecycle.keep(session)
        session.resume(now, self._state.journal)

    def _expiry(self, packet: Connect) -> int:
        if packet.version == MQTT_5:
            wanted = packet.properties.session_expiry_interval or 0
        else:
            wanted = 0 if packet.clean_start else FOREVER
        return min(wanted, self._state.limits.session_expiry_s)


def _encode(packet: ConnAck, connection: Connection) -> bytes | None:
    """Return an encoded CONNACK, or None if it exceeds the client's maximum packet size."""
    return encode_within(packet, connection.version, connection.largest_packet or NO_LIMIT)


def _is_owner(owner: SessionOwner | None, other: SessionOwner) -> bool:
    """Return whether a session has no owner yet, or the same one."""
    return owner is None or (owner.user, owner.is_broker) == (other.user, other.is_broker)
