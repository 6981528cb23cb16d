"""Reprioritising: what waits for a session follows its class, role and task of now.

Arithmetic on the truth of atoms that is kept with each queued message; nothing is matched again.
"""

from collections.abc import Sequence

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.outbound_message import QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.match_warnings import MatchWarnings
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input
from nearcast.core.model.subscription_id import SubscriptionId


class Reprioritisation(OutcomeFollower):
    """Gives queued messages other priorities when the engine says so."""

    def __init__(self, state: BrokerState, warnings: MatchWarnings) -> None:
        self._state = state
        self._warnings = warnings

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Reprioritise the queues of sessions whose context or relevance changed."""
        for name in outcome.reprioritised:
            session = self._state.sessions.get(name)
            if session is not None:
                reprioritise(self._state, session)
        for id_, text in outcome.warnings:
            session = self._state.sessions.get(SubscriptionId.parse(id_).client_id)
            if session is not None:
                self._warnings.tell(session, id_, [text], now)


def reprioritise(state: BrokerState, session: Session) -> None:
    """Give all that waits for a session the priority of now."""
    if not session.waiting:
        return
    priority = state.engine.priorities(session.client_id)

    def priority_of(delivery: QueuedDelivery) -> int:
        return delivery.priority if delivery.basis is None else priority(delivery.basis)

    session.reprioritise(priority_of)
    if session.connection is not None:
        state.touch(session.connection)
