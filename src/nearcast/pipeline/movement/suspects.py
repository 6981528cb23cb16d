"""Suspect positions: those that a node cannot have reached from its previous position.

They are kept, since a broker decides by the positions it is given; but they are marked, so that an
unexpected delivery can be explained.
"""

from msgspec import Struct

from nearcast.core.model.context import NodeState
from nearcast.core.relationships import TrackSettings
from nearcast.core.relationships.tracks import Fix, implied_mps


class Suspect(Struct, frozen=True):
    """An implausible position, and the reason."""

    seq: int
    time: float
    node: str
    reason: str


def doubt(state: NodeState, before: NodeState | None, settings: TrackSettings) -> str | None:
    """Return why a node's new position is implausible; None if it is plausible or missing.

    A node that was silent for long may be anywhere.
    """
    at, last = state.position, state.previous
    if at is None or last is None or state.position_at is None or state.previous_at is None:
        return None
    if before is None or before.position_at == state.position_at:
        return None
    seconds = state.position_at - state.previous_at
    if not 0.0 <= seconds <= settings.forget_s:
        return None
    fixes = Fix(state.previous_at, last.lat, last.lon), Fix(state.position_at, at.lat, at.lon)
    speed = implied_mps(*fixes)
    if speed <= settings.fastest_mps:
        return None
    km = speed * max(seconds, 1.0) / 1000.0
    return f"suspect: {km:,.1f} km in {seconds:,.1f} s; {settings.fastest_mps:g} m/s are believed"
