"""Patience: what the pipeline hands over does not come faster than clients read it.

What waits for a client is bounded, and beyond that the newest is dropped. So rows are held back
while more than half of what may wait for a client does that they may be for. A client is waited
for as long as it reads, and no longer than some seconds; then others come first until it has
caught up.
"""

from collections.abc import Sequence

from msgspec import Struct

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.sessions.session import Session
from nearcast.wire.handover import DeliveryRow, HandedRow

PATIENCE_S = 10.0
"""How long a client is waited for."""
DEAF_S = 1.0
"""How long a client is waited for that reads nothing."""


class _Spell(Struct):
    """A time in which too much waits for a client."""

    since: float
    left: int
    """The least that was seen waiting."""
    read_at: float


class ReleaseThrottle:
    """Knows which clients are waited for, and until when."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._spells: dict[str, _Spell] = {}

    def holds_back(self, rows: Sequence[HandedRow], now: float) -> bool:
        """Whether rows are held back for a client that they may be for."""
        sessions = self._state.sessions
        for name in [name for name in self._spells if not self._is_crowded(sessions.get(name))]:
            del self._spells[name]
        # All are looked at, so that every spell begins.
        waited_for = [name for name in self._crowded(rows) if self._waits_for(sessions[name], now)]
        return bool(waited_for)

    def _waits_for(self, session: Session, now: float) -> bool:
        """Whether a crowded client is waited for."""
        left = session.waiting_bytes
        spell = self._spells.get(session.client_id)
        if spell is None:
            spell = self._spells[session.client_id] = _Spell(now, left, now)
        elif left < spell.left:
            spell.left, spell.read_at = left, now
        # A clock that was set back must not make it longer.
        return 0.0 <= now - spell.since < PATIENCE_S and 0.0 <= now - spell.read_at < DEAF_S

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
        if session is None or session.connection is None:
            return False
        return not session.has_room(self._state.limits)
