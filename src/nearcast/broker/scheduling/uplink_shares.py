"""The broker's uplink, if it is limited: what sessions may send, by the rank of their nodes.

Every `EVERY_S` the bytes of the time since are divided among the sessions that have something to
send. The weight of a session is 1 and the attribute `rank` of its node, which only rules set. Only
with `[adaptation] uplink_kbps`; without it nothing of this runs.
"""

from collections.abc import Sequence

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.session import Session
from nearcast.core.adaptation.awareness import number_at
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input, Presence
from nearcast.core.propagation.uplink_shares import ShareClaim, divide

EVERY_S = 0.05
RANK = "rank"
_BYTES_PER_KILOBIT = 125.0


class UplinkShares(OutcomeFollower):
    """Sets the allowances of all connected sessions."""

    def __init__(self, state: BrokerState, kbps: float) -> None:
        self._state = state
        self._kbps = kbps
        self._divided_at: float | None = None

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Give nothing to a new connection before the next division."""
        for each in others:
            if isinstance(each, Presence):
                session = self._state.sessions.get(each.session or each.node)
                if session is not None and session.allowance is None:
                    session.allowance = 0

    def next_timer(self) -> float | None:
        """The time of the next division."""
        return 0.0 if self._divided_at is None else self._divided_at + EVERY_S

    def remind(self, now: float) -> None:
        """Divide what the uplink carries in an interval, if one has passed."""
        before = self._divided_at
        if before is not None and now < before + EVERY_S:
            return
        self._divided_at = now
        passed_s = EVERY_S if before is None else min(now - before, 2.0 * EVERY_S)
        limit = int(self._kbps * _BYTES_PER_KILOBIT * passed_s)
        state = self._state
        sessions = [each for each in state.sessions.values() if each.connection is not None]
        for session, balance in zip(sessions, divide(limit, self._claims(sessions)), strict=True):
            session.allowance = balance
            if balance > 0 and session.connection is not None:
                state.touch(session.connection)

    def weight(self, node: str) -> float:
        """The weight of a node."""
        rank = number_at(self._state.engine.rights.context(node), RANK)
        return 1.0 if rank is None else 1.0 + max(0.0, rank)

    def _claims(self, sessions: list[Session]) -> list[ShareClaim]:
        claims = []
        for session in sessions:
            assert session.connection is not None
            waiting = 0 if session.connection.blocked else session.waiting_bytes
            weight = self.weight(session.node) if waiting else 1.0
            claims.append(ShareClaim(weight, waiting, session.allowance or 0))
        return claims
