"""What the pipeline makes of movement: what it believes, what near means, how long it waits."""

from msgspec import Struct

from nearcast.core.relationships import MeetingSettings, TrackSettings, TrafficSettings
from nearcast.pipeline.errors import PipelineInputError


class MovementSettings(Struct, frozen=True, kw_only=True):
    """The settings of motion, encounters and traffic; a checkpoint keeps to those it began with."""

    tracks: TrackSettings = TrackSettings()
    meetings: MeetingSettings = MeetingSettings()
    traffic: TrafficSettings = TrafficSettings()
    declared: dict[str, tuple[str, ...]] | None = None
    """Relationships by name with their members; None: all pairs."""
    lateness_s: float = 900.0
    """How much later than others a row may come and still count; tables of rows have it anyway."""
    ahead_s: float = 300.0
    """How far a row may be dated ahead of the clock before it is left out of a stream."""

    def __post_init__(self) -> None:
        silent_s = self.lateness_s + self.meetings.fresh_s
        if self.tracks.forget_s <= silent_s:
            raise PipelineInputError(
                f"a node is forgotten after {self.tracks.forget_s:g} s, before the cells are done "
                f"with it; forget_s must be more than lateness_s + fresh_s, {silent_s:g} s"
            )
