"""Relationships between moving nodes: tracks, proximity, and traffic."""

from nearcast.core.relationships.meetings import Meetings as Meetings
from nearcast.core.relationships.meetings import MeetingSettings as MeetingSettings
from nearcast.core.relationships.meetings import Transitions as Transitions
from nearcast.core.relationships.pairs import DeclaredPairs as DeclaredPairs
from nearcast.core.relationships.pairs import is_near as is_near
from nearcast.core.relationships.tracks import Track as Track
from nearcast.core.relationships.tracks import TrackSettings as TrackSettings
from nearcast.core.relationships.tracks import TrackStep as TrackStep
from nearcast.core.relationships.traffic import CellTraffic as CellTraffic
from nearcast.core.relationships.traffic import TrafficSettings as TrafficSettings
from nearcast.core.relationships.traffic import TrafficWindow as TrafficWindow
