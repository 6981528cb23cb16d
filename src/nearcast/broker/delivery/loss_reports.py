"""Reports of lost messages: every message that was dropped is told to the session it was for.

Connected clients that are subscribed to `$me/errors` are told the sums, one a second at most and
when their queue has room. For others the sums are kept with the session, also in the store, and
told when they come back, even if their queue is full.
"""

from math import inf

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.sessions.loss_reason import LossReason
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.topic_names import ERRORS

TELL_EVERY_S = 1.0
KEEP_EVERY_S = 10.0
"""How often the sums of a client that is away are stored."""


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
        for session in [each for each, at in told_at.items() if now - at >= KEEP_EVERY_S]:
            del told_at[session]
        for session in list(state.losers):
            if state.sessions.get(session.client_id) is not session or not session.losses:
                state.losers.discard(session)
            elif session.connection is None:
                if now - told_at.get(session, -inf) >= KEEP_EVERY_S:
                    told_at[session] = now
                    state.losers.discard(session)
                    self._lifecycle.keep(session)
            elif now - told_at.get(session, -inf) >= TELL_EVERY_S:
                if session.granted_filter(ERRORS) is None:
                    state.losers.discard(session)
                elif session.has_room(state.limits):
                    told_at[session] = now
                    self._tell(session, next(iter(session.losses)))
                    self._lifecycle.keep(session)

    def tell_all(self, session: Session) -> None:
        """Tell a client that came back all that it lost, in addition to what its queue may hold."""
        if not session.losses or session.granted_filter(ERRORS) is None:
            return
        self._told_at[session] = self._state.now
        for key in list(session.losses):
            self._tell(session, key)
        if session.losses:
            self._state.losers.add(session)

    def tell_subscriber(self, session: Session) -> None:
        """Tell a client that has just subscribed, at once unless it was told within a second."""
        if session.losses:
            self._state.losers.add(session)
            if self._state.now - self._told_at.get(session, -inf) >= TELL_EVERY_S:
                self.tell_all(session)
                self._lifecycle.keep(session)

    def _tell(self, session: Session, key: str) -> None:
        """Tell the sum of one reason and priority, and forget it."""
        assert session.losses is not None
        count, (reason, priority) = session.losses[key], LossReason.parts(key)
        lost = "1 message was" if count == 1 else f"{count} messages were"
        text = f"{lost} dropped on the way to this session: {reason}"
        word = LossReason.WORDS.get(reason)
        members: dict[str, str | int] = {"error": text, "topic": ""}
        if word is not None:
            members = {"error": text, "dropped": count, "priority": priority, "reason": word}
        if self._errors.tell_anyway(session, members):
            del session.losses[key]
            session.losses = session.losses or None
