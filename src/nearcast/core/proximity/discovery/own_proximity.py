"""What a node announces as a producer, or seeks as a consumer, and the beacons that tell of it."""

import math
from collections.abc import Iterator

from msgspec import Struct

from nearcast.core.model.event import Announcement
from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.group_id import group_id
from nearcast.core.proximity.discovery.own_names import OwnNames
from nearcast.core.proximity.discovery.proximity import Proximity
from nearcast.core.proximity.dissemination.seen_events import share_of
from nearcast.core.proximity.messages import Beacon
from nearcast.core.proximity.settings import ProximitySettings


class OwnProximity(Struct):
    """A type of events and the proximity in which this node raises, or seeks, them."""

    type: EventType
    proximity: Proximity
    group: int
    sought: bool
    next_beacon: float = 0.0
    scale: float = 1.0
    last: Beacon | None = None
    """The latest beacon."""

    def announcement(self, producer: str) -> Announcement:
        """Return the announcement for the engine, at the scale of now."""
        target = self.proximity.target(producer, self.scale)
        return Announcement(producer, self.type.subject, target)

    def rescaled(self, speed_mps: float) -> bool:
        """Fit its size to a speed; return whether it changed."""
        scale = self.proximity.scale(speed_mps)
        changed, self.scale = scale != self.scale, scale
        return changed


class OwnProximities:
    """All that one run of a node announces and seeks."""

    def __init__(self, names: OwnNames, incarnation: int, settings: ProximitySettings) -> None:
        self._names = names
        self._incarnation = incarnation
        self._settings = settings
        self._all: dict[tuple[str, bool], OwnProximity] = {}
        self._beacons = 0
        self._sequences: dict[str, int] = {}
        """So many events were raised, by subject; a later announcement goes on counting."""
        self.seeks: list[OwnProximity] = []
        self.next_beacon = math.inf
        """No beacon is due earlier."""

    def __iter__(self) -> Iterator[OwnProximity]:
        return iter(self._all.values())

    def announced(self, subject: str) -> OwnProximity | None:
        """Return what is announced for a subject."""
        return self._all.get((subject, False))

    @property
    def subjects(self) -> list[str]:
        """The subjects that are announced."""
        return [subject for subject, sought in self._all if not sought]

    def put(
        self, event_type: EventType, proximity: Proximity, sought: bool, speed_mps: float
    ) -> tuple[OwnProximity, OwnProximity | None]:
        """Add one; return it, and the one that it replaces."""
        own = OwnProximity(event_type, proximity, group_id(event_type, proximity), sought)
        own.rescaled(speed_mps)
        before = self._all.get((event_type.subject, sought))
        self._all[event_type.subject, sought] = own
        self._note_seeks()
        return own, before

    def remove(self, subject: str, sought: bool) -> OwnProximity | None:
        """End one; return it."""
        own = self._all.pop((subject, sought), None)
        self._note_seeks()
        return own

    def next_sequence(self, subject: str) -> int:
        """Count an event of a subject."""
        self._sequences[subject] = self._sequences.get(subject, 0) + 1
        return self._sequences[subject]

    def begin_sequences(self) -> None:
        """Count events from 1 again, as those of another producer."""
        self._sequences.clear()

    def beacon(
        self, own: OwnProximity, here: Position, speed_mps: float, now: float, *,
        ended: bool = False,
    ) -> Beacon:  # fmt: skip
        """Return the next beacon of one, and note when the one after it is due."""
        scale = own.proximity.scale(speed_mps)
        reach_m = own.proximity.reach_m(here, scale)
        period_s = beacon_period_s(reach_m, speed_mps, self._settings)
        self._beacons += 1
        # Those who began together do not stay together.
        jitter = share_of((self._names.alias, self._incarnation, self._beacons), own.type.subject)
        own.next_beacon = now + period_s * (0.9 + 0.1 * jitter)
        self.next_beacon = min(self.next_beacon, own.next_beacon)
        initial = own.proximity.initial
        own.last = Beacon(
            self._names.alias, self._incarnation, self._beacons, now, own.type,
            own.proximity.area_text,
            (initial.lat, initial.lon), (here.lat, here.lon), scale, own.proximity.grow_s,
            period_s, reach_m > self._settings.radio_range_m, own.sought, ended,
        )  # fmt: skip
        return own.last

    def due(self, here: Position, speed_mps: float, now: float) -> list[Beacon]:
        """Return the beacons that are due."""
        if now < self.next_beacon:
            return []
        self.next_beacon = math.inf
        found = []
        for own in self:
            if own.next_beacon <= now:
                found.append(self.beacon(own, here, speed_mps, now))
            self.next_beacon = min(self.next_beacon, own.next_beacon)
        return found

    def _note_seeks(self) -> None:
        self.seeks = [own for own in self if own.sought]


def beacon_period_s(reach_m: float, speed_mps: float, settings: ProximitySettings) -> float:
    """Return how often to announce: several times while somebody crosses the proximity."""
    crossing_s = 2.0 * reach_m / (speed_mps + settings.mover_mps)
    period_s = crossing_s / settings.beacons_per_crossing
    return min(max(period_s, settings.beacon_least_s), settings.beacon_most_s)
