"""Patience: what the pipeline hands over does not come faster than clients read it.

What waits for a client is bounded, and beyond that the newest is dropped. So rows are held back
while more than half of what may wait for a client does that they may be for. A client that reads
too slowly, or nothing, is waited for once, for some seconds, and then others come first until it
has caught up.
"""

from collections.abc import Sequence

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.session import Session
from nearcast.wire.handover import DeliveryRow, HandedRow

PATIENCE_S = 10.0
"""How long a client is waited for."""


class Patience:
    """Knows which clients are waited for, and until when."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._until: dict[str, float] = {}
        """Of clients for whom too much waits."""

    def holds_back(self, rows: Sequence[HandedRow], now: float) -> bool:
        """Whether rows are held back for a client that they may be for."""
        sessions = self._state.sessions
        for name in [name for name in self._until if not self._is_crowded(sessions.get(name))]:
            del self._until[name]
        crowded = self._crowded(rows)
        for name in crowded:
            self._until.setdefault(name, now + PATIENCE_S)
        # A clock that was set back must not make it longer.
        return any(0.0 < self._until[name] - now <= PATIENCE_S for name in crowded)

    def _crowded(self, rows: Sequence[HandedRow]) -> list[str]:
        """Return the crowded sessions among those that rows may be for."""
        sessions = self._state.sessions
        named: set[str] = set()
        for row in rows:
            if not isinstance(row, DeliveryRow):
                # For whom an event is only the engine knows.
                return [name for name, session in sessions.items() if self._is_crowded(session)]
            named.update(to.session for to in row.recipients)
        return [name for name in named if self._is_crowded(sessions.get(name))]

    def _is_crowded(self, session: Session | None) -> bool:
        """Whether more than half of what may wait for a client does, and it is there to read."""
        if session is None or not session.waiting_bytes or session.connection is None:
            return False
        limits = self._state.limits
        return (
            2 * session.waiting_bytes > limits.queued_bytes
            or 2 * session.statistics()["waiting"] > limits.queued
        )
