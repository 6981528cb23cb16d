"""Flow control: rows of the pipeline are delivered no faster than clients read them.

The queue of a client is bounded, and beyond that messages are dropped. So rows are held back while
the queue of a possible recipient is more than half full. A client is waited for as long as it
reads, and at most some seconds; then the rows are delivered regardless until it has caught up.
"""

from collections.abc import Sequence

from msgspec import Struct

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.sessions.session import Session
from nearcast.wire.handover import DeliveryRow, HandedRow

PATIENCE_S = 10.0
"""How long a client is waited for."""
DEAF_S = 1.0
"""How long a client that reads nothing is waited for."""


class _Spell(Struct):
    """A period in which the queue of a client is more than half full."""

    since: float
    left: int
    """The fewest waiting bytes seen."""
    read_at: float


class ReleaseThrottle:
    """Tracks which clients are waited for, and until when."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._spells: dict[str, _Spell] = {}

    def holds_back(self, rows: Sequence[HandedRow], now: float) -> bool:
        """Whether rows are held back for one of their possible recipients."""
        sessions = self._state.sessions
        for name in [name for name in self._spells if not self._is_crowded(sessions.get(name))]:
            del self._spells[name]
        # Check all of them, so that every period starts.
        waited_for = [name for name in self._crowded(rows) if self._waits_for(sessions[name], now)]
        return bool(waited_for)

    def _waits_for(self, session: Session, now: float) -> bool:
        """Whether a crowded client is still waited for."""
        left = session.waiting_bytes
        spell = self._spells.get(session.client_id)
        if spell is None:
            spell = self._spells[session.client_id] = _Spell(now, left, now)
        elif left < spell.left:
            spell.left, spell.read_at = left, now
        # If the clock was set back, the wait must not become longer.
        return 0.0 <= now - spell.since < PATIENCE_S and 0.0 <= now - spell.read_at < DEAF_S

    def _crowded(self, rows: Sequence[HandedRow]) -> list[str]:
        """Return the crowded sessions among the possible recipients of rows."""
        sessions = self._state.sessions
        named: set[str] = set()
        for row in rows:
            if not isinstance(row, DeliveryRow):
                # Only the engine knows the recipients of an event.
                return [name for name, session in sessions.items() if self._is_crowded(session)]
            named.update(to.session for to in row.recipients)
        return [name for name in named if self._is_crowded(sessions.get(name))]

    def _is_crowded(self, session: Session | None) -> bool:
        """Whether a connected client's queue is more than half full."""
        if session is None or session.connection is None:
            return False
        return not session.has_room(self._state.limits)
