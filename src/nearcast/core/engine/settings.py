"""What an operator may choose about an engine, and what the log says of it."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.inputs import Restarted


class EngineSettings(Struct, frozen=True):
    """What an operator may choose."""

    position_ttl_s: float = 600.0
    """Positions older than this count as none."""
    ahead_s: float = 60.0
    """An event's time farther ahead than this is replaced by the time of ingest."""
    recent_s: float = 300.0
    """How far back `count()` looks."""
    recent_most: int = 100_000
    recent_most_bytes: int = 64 << 20
    known_ids_most: int = 100_000
    """So many ids of events are remembered to recognise repeats."""
    unrecorded: tuple[str, ...] = ()
    """Patterns of subjects whose events leave no record."""
    elsewhere: tuple[tuple[str, bool], ...] = ()
    """Patterns of subjects, and whether their events are recorded here and decided elsewhere.

    The first that fits counts.
    """
    shared_objects: tuple[str, ...] = ()
    """Patterns of subjects whose objects have one key whoever publishes; the first counts."""
    routes: bool = True
    """Events may go along a route; if not, all are decided on one by one."""

    def restart(self, sessions: Iterable[str]) -> Restarted:
        """What the log says of a broker that begins with these, and with these sessions."""
        return Restarted(
            tuple(sessions),
            self.position_ttl_s,
            self.recent_s,
            self.elsewhere,
            not self.routes,
            keeps_recent=True,
            shared_objects=self.shared_objects,
        )

    def after(self, restarted: Restarted) -> "EngineSettings":
        """These settings, but deciding as a broker does that began so."""
        return replace(
            self,
            position_ttl_s=restarted.position_ttl_s,
            recent_s=restarted.recent_s,
            shared_objects=restarted.shared_objects,
        )
