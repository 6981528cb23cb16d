"""Review of sessions: those without permission end when rules or users change."""

from nearcast.broker.auth import AuthRefusal
from nearcast.broker.auth.admission import Admission
from nearcast.broker.auth.permissions import NOTHING
from nearcast.broker.auth.rights_review import RightsReview
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.sessions.wills import problem_with
from nearcast.store import SessionOwner


class SessionReview:
    """Checks sessions against the rules and users now in force."""

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

    def review(self, session: Session, now: float) -> None:
        """End a session, its will or its subscriptions if its owner has lost the permission."""
        if session.owner is None:
            # Without an owner there are no permissions to check; it is reviewed at the next
            # CONNECT.
            return
        refusal = self.recall(session)
        if refusal is not None:
            self._revoke(session, refusal, now)
            return
        notices: list[tuple[str, str]] = []
        will = self._lifecycle.will_of(session)
        if will is not None:
            problem = problem_with(will, session.permissions, self._state)
            if problem is not None:
                self._lifecycle.drop_will(session)
                self._state.counters["revoked_wills"] += 1
                notices.append((will.topic, problem.why))
        before = session.notices
        self._rights_review.review(session, notices)
        if session.notices != before or notices:
            self._lifecycle.keep(session)

    def recall(self, session: Session) -> AuthRefusal | None:
        """Set the permissions that the owner of a session has now, or return why there are none."""
        owner = session.owner
        if session.reader is not None:
            return session.reader.recall()
        if owner is not None and owner.is_broker:
            return None
        answer = self._admission.recall(owner or SessionOwner(), session.client_id)
        if isinstance(answer, AuthRefusal):
            session.permissions = NOTHING
            return answer
        session.permissions = answer
        if session.connection is not None:
            session.connection.permissions = answer
        return None

    def _revoke(self, session: Session, refusal: AuthRefusal, now: float) -> None:
        """End a session whose owner lost its permission, without publishing its will."""
        self._lifecycle.drop_will(session)
        if session.connection is not None:
            self._state.close(session.connection, refusal.reason, refusal.why)
        self._state.counters["revoked_sessions"] += 1
        self._lifecycle.end(session, now)
