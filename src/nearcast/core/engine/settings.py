"""Settings of an engine, and their record in the log."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.context import LARGEST_ATTRIBUTES_BYTES
from nearcast.core.model.inputs import Restarted


class EngineSettings(Struct, frozen=True):
    """Settings that an operator can choose."""

    position_ttl_s: float = 600.0
    """Positions older than this count as none."""
    ahead_s: float = 60.0
    """An event's time farther ahead than this is replaced by the time of ingest."""
    recent_s: float = 300.0
    """How far back `count()` looks."""
    context_bytes: int = LARGEST_ATTRIBUTES_BYTES
    """The largest context of a node, as JSON; larger ones are refused, and so are not recorded."""
    recent_most: int = 100_000
    recent_most_bytes: int = 64 << 20
    known_ids_most: int = 100_000
    """The number of event ids remembered to recognise repeats."""
    unrecorded: tuple[str, ...] = ()
    """Subject patterns whose events are not recorded."""
    elsewhere: tuple[tuple[str, bool], ...] = ()
    """Subject patterns, each with whether its events are recorded here and matched elsewhere.

    The first matching pattern applies.
    """
    shared_objects: tuple[str, ...] = ()
    """Subject patterns whose objects have one key for all publishers; the first match applies."""
    live_at_once: int = 0
    """So many live events are brought to a session by one input; the rest follow. 0: any."""
    levels: int = 3
    """Levels of relevance, which are as many as classes of context and priorities."""
    replays_go_on: bool = True
    """Sessions get what is left of a replay that a restart interrupted; not in older logs."""
    routes: bool = True
    """If False, no event is sent along a route: each is matched."""

    def restart(self, sessions: Iterable[str]) -> Restarted:
        """Return the log input for a broker start with these settings and sessions."""
        return Restarted(
            tuple(sessions),
            self.position_ttl_s,
            self.recent_s,
            self.elsewhere,
            not self.routes,
            keeps_recent=True,
            shared_objects=self.shared_objects,
            live_at_once=self.live_at_once,
            levels=self.levels,
            replays_go_on=self.replays_go_on,
        )

    def after(self, restarted: Restarted) -> "EngineSettings":
        """Return these settings with the values recorded at a restart."""
        return replace(
            self,
            position_ttl_s=restarted.position_ttl_s,
            recent_s=restarted.recent_s,
            shared_objects=restarted.shared_objects,
            live_at_once=restarted.live_at_once,
            levels=restarted.levels,
            replays_go_on=restarted.replays_go_on,
        )
