"""What holds between moving nodes: tracks, who is near whom, and the traffic they make up."""

from nearcast.core.relationships.meetings import Meetings, MeetingSettings, Transitions
from nearcast.core.relationships.pairs import Declared, is_near
from nearcast.core.relationships.tracks import Step, Track, TrackSettings
from nearcast.core.relationships.traffic import CellTraffic, TrafficSettings, TrafficWindow

__all__ = [
    "CellTraffic",
    "Declared",
    "MeetingSettings",
    "Meetings",
    "Step",
    "Track",
    "TrackSettings",
    "TrafficSettings",
    "TrafficWindow",
    "Transitions",
    "is_near",
]
