"""What waits: events, and the pools of those that wait together for the same subscriptions."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.gathering.aggregates.aggregate_json import parts_from_json
from nearcast.core.gathering.aggregates.parts import Part
from nearcast.core.gathering.division import Division
from nearcast.core.gathering.needs.needs import Figures
from nearcast.core.gathering.needs.rules import MOST_PARTS
from nearcast.core.model.event import Event
from nearcast.core.model.message_properties import user_properties_in

EVERYBODY = "\0everybody"
"""In place of subscriptions: for all of them, before their filters."""
LARGEST_POOL_BYTES = 128 * 1024
"""The size of what waits together; what would exceed it makes the earlier events leave."""
_PART_BYTES = 100
"""What a part takes in an aggregate beside its payload, about."""


class WaitingEvent(Struct, frozen=True, gc=False):
    """An event that waits."""

    event: Event
    ingested: float
    number: int
    """Its place among all events that ever waited."""
    priority: int = 1

    @property
    def size(self) -> int:
        """What it takes in an aggregate, about."""
        event = self.event
        return len(event.payload) + len(event.headers) + len(event.id) + _PART_BYTES

    def parts(self) -> list[Part]:
        """Return the parts that it adds: itself, or those of an aggregate."""
        event = self.event
        if event.gathered and not event.people:
            return parts_from_json(event.payload, event.gathered, self.ingested, self.number)
        at = event.position
        return [
            Part(
                event.id, event.publisher, event.time, self.ingested,
                None if at is None else at.lat, None if at is None else at.lon,
                event.payload, self.number * MOST_PARTS, user_properties_in(event.headers),
            )
        ]  # fmt: skip


class WaitingPool(Struct, frozen=True):
    """Events that wait together for some subscriptions, as they are kept."""

    id: int
    subject: str
    division: Division
    subscriptions: tuple[str, ...]
    """Their ids. All have the same aggregability."""
    events: tuple[WaitingEvent, ...]


class WaitingFigures:
    """Figures of what waits together, kept up to date with every part."""

    __slots__ = ("_keys", "_latest", "_more", "_oldest", "_people", "size")

    def __init__(self, waiting: Iterable[WaitingEvent] = ()) -> None:
        self._keys: set[str] = set()
        self._people: set[str] = set()
        self._oldest = self._latest = 0.0
        self._more = 0
        self.size = 0
        for each in waiting:
            self.add(each, each.parts())

    def has(self, parts: Sequence[Part]) -> bool:
        """True if all parts are known already."""
        return all(part.key in self._keys for part in parts)

    def add(self, waiting: WaitingEvent, parts: Sequence[Part]) -> None:
        """Add the parts of an event; those that are known already count once."""
        self.size += waiting.size
        persons = waiting.event.persons
        for part in parts:
            if not self._keys:
                self._oldest = self._latest = part.time
            if persons and part.key not in self._keys:
                # A base set counts as all of its events and people.
                self._more += waiting.event.gathered - 1
            self._keys.add(part.key)
            self._people.update(persons or (part.publisher,))
            self._oldest = min(self._oldest, part.time)
            self._latest = max(self._latest, part.time)

    @property
    def figures(self) -> Figures:
        """The figures of now."""
        return Figures(len(self._keys) + self._more, self._latest - self._oldest, len(self._people))


def figures_of(pool: WaitingPool) -> Figures:
    """Return the figures of what waits in a pool."""
    return WaitingFigures(pool.events).figures


def different_parts(waiting: Iterable[WaitingEvent]) -> list[Part]:
    """Return the parts of events, each once."""
    found: dict[str, Part] = {}
    for each in waiting:
        for part in each.parts():
            found.setdefault(part.key, part)
    return list(found.values())


def durable_pools(pools: Iterable[WaitingPool], qos: Mapping[str, int]) -> list[WaitingPool]:
    """Return what is left of pools when a broker restarts, given subscriptions and their QoS.

    What would be delivered at QoS 0 ends.
    """
    found = []
    for pool in pools:
        subscriptions = tuple(
            each for each in pool.subscriptions if each == EVERYBODY or qos.get(each, 0)
        )
        events = tuple(each for each in pool.events if each.event.qos)
        if subscriptions and events:
            found.append(replace(pool, subscriptions=subscriptions, events=events))
    return found
