"""What a node announces as a producer, or seeks as a consumer, and the beacons that tell of it."""

from msgspec import Struct

from nearcast.core.model.event import Announcement
from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.event_type import EventType
from nearcast.core.proximity.messages import Beacon
from nearcast.core.proximity.proximity import Proximity
from nearcast.core.proximity.seen_events import share_of
from nearcast.core.proximity.settings import ProximitySettings


class OwnProximity(Struct):
    """A type of events and the proximity in which this node raises, or seeks, them."""

    type: EventType
    proximity: Proximity
    group: int
    sought: bool
    beacons: int = 0
    """So many were sent, in this run of the node."""
    sequence: int = 0
    """So many events were raised."""
    next_beacon: float = 0.0
    scale: float = 1.0

    def announcement(self, producer: str) -> Announcement:
        """Return the announcement for the engine, at the scale of now."""
        target = self.proximity.target(producer, self.scale)
        return Announcement(producer, self.type.subject, target)

    def beacon(
        self, producer: str, incarnation: int, here: Position, speed_mps: float, now: float,
        settings: ProximitySettings, *, ended: bool = False,
    ) -> Beacon:  # fmt: skip
        """Return the next beacon, and note when the one after it is due."""
        scale = self.proximity.scale(speed_mps)
        reach_m = self.proximity.reach_m(here, scale)
        period_s = beacon_period_s(reach_m, speed_mps, settings)
        self.beacons += 1
        # Those who began together do not stay together.
        jitter = share_of((producer, incarnation, self.beacons), self.type.subject)
        self.next_beacon = now + period_s * (0.9 + 0.1 * jitter)
        initial = self.proximity.initial
        return Beacon(
            producer, incarnation, self.beacons, now, self.type, self.proximity.area_text,
            (initial.lat, initial.lon), (here.lat, here.lon), scale, self.proximity.grow_s,
            period_s, reach_m > settings.radio_range_m, self.sought, ended,
        )  # fmt: skip


def beacon_period_s(reach_m: float, speed_mps: float, settings: ProximitySettings) -> float:
    """Return how often to announce: several times while somebody crosses the proximity."""
    crossing_s = 2.0 * reach_m / (speed_mps + settings.mover_mps)
    period_s = crossing_s / settings.beacons_per_crossing
    return min(max(period_s, settings.beacon_least_s), settings.beacon_most_s)
