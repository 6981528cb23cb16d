"""Settings of movement: which fixes are plausible, what near means, and lateness."""

from msgspec import Struct

from nearcast.core.relationships import MeetingSettings, TrackSettings, TrafficSettings
from nearcast.pipeline.errors import PipelineInputError


class MovementSettings(Struct, frozen=True, kw_only=True):
    """The settings of motion, encounters and traffic; a checkpoint must keep its initial ones."""

    tracks: TrackSettings = TrackSettings()
    meetings: MeetingSettings = MeetingSettings()
    traffic: TrafficSettings = TrafficSettings()
    declared: dict[str, tuple[str, ...]] | None = None
    """Relationships by name with their members; None: all pairs."""
    lateness_s: float = 900.0
    """How late a row may come and still count here; other tables contain it anyway."""
    ahead_s: float = 300.0
    """How far ahead of the clock a row may be dated before a stream leaves it out."""

    def __post_init__(self) -> None:
        silent_s = self.lateness_s + self.meetings.fresh_s
        if self.tracks.forget_s <= silent_s:
            raise PipelineInputError(
                f"a node is forgotten after {self.tracks.forget_s:g} s, before the cells are done "
                f"with it; forget_s must be more than lateness_s + fresh_s, {silent_s:g} s"
            )
