"""Reports of lost messages: every message that was dropped is told to the session it was for.

Connected clients that are subscribed to `$me/errors` are told the sums, at most once in a while.
For others the sums are kept with the session, also in the store, and told when they come back.
"""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.topic_names import ERRORS

TELL_EVERY_S = 10.0


class LossReports:
    """Tells sessions what they lost."""

    def __init__(
        self, state: BrokerState, lifecycle: SessionLifecycle, errors: ErrorReports
    ) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._errors = errors
        self._told_at: dict[Session, float] = {}
        """The last time of a report or of storing, for sessions with recent losses."""

    def sweep(self, now: float) -> None:
        """Tell or store the losses of sessions since the last time."""
        state, told_at = self._state, self._told_at
        for session in [each for each, at in told_at.items() if now - at >= TELL_EVERY_S]:
            del told_at[session]
        for session in list(state.losers):
            if state.sessions.get(session.client_id) is not session or not session.losses:
                state.losers.discard(session)
            elif session not in told_at:
                told_at[session] = now
                if session.connection is None:
                    state.losers.discard(session)
                    self._lifecycle.keep(session)
                else:
                    state.losers.discard(session)
                    self.tell(session)

    def tell(self, session: Session) -> bool:
        """Tell a client that is subscribed to errors, or do it when its queue has room again.

        Return whether it was told.
        """
        if not session.losses or session.granted_filter(ERRORS) is None:
            return False
        self._state.losers.add(session)
        if not session.has_room(self._state.limits):
            return False
        losses, session.losses = session.losses, None
        for reason, count in losses.items():
            lost = "1 message was" if count == 1 else f"{count} messages were"
            self._errors.tell(session, "", f"{lost} dropped on the way to this session: {reason}")
        self._lifecycle.keep(session)
        return True
