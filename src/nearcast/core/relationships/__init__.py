"""What holds between moving nodes: tracks, who is near whom, and the traffic they make up."""

from nearcast.core.relationships.meetings import Meetings, MeetingSettings, Transitions
from nearcast.core.relationships.pairs import DeclaredPairs, is_near
from nearcast.core.relationships.tracks import Track, TrackSettings, TrackStep
from nearcast.core.relationships.traffic import CellTraffic, TrafficSettings, TrafficWindow

__all__ = [
    "CellTraffic",
    "DeclaredPairs",
    "MeetingSettings",
    "Meetings",
    "Track",
    "TrackSettings",
    "TrackStep",
    "TrafficSettings",
    "TrafficWindow",
    "Transitions",
    "is_near",
]
