"""The intake of events of others: which ones this node takes, once, and in which order.

An event is taken if somebody announced its type in a proximity that this node is in, if it has that
type, is neither outdated nor overdue, and is within its producer's share of the channel.
"""

from collections import OrderedDict

from msgspec import Struct

from nearcast.core.model.context import Attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Input, Moved, NodeExpired, Published
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import subject_matches
from nearcast.core.proximity.discovery.discovery import Discovered, ProximityList, described_by
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.group_id import group_id
from nearcast.core.proximity.discovery.memberships import Memberships
from nearcast.core.proximity.discovery.own_names import OwnNames
from nearcast.core.proximity.discovery.own_proximity import OwnProximities
from nearcast.core.proximity.discovery.proximity import Proximity
from nearcast.core.proximity.dissemination.admission import (
    OVERHEAD_BYTES,
    ByteBudget,
    ChannelShares,
)
from nearcast.core.proximity.dissemination.event_order import EventOrder
from nearcast.core.proximity.dissemination.seen_events import EventKey, SeenEvents
from nearcast.core.proximity.errors import EventTypeError
from nearcast.core.proximity.messages import EventMessage
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityCounts

_DELIVERED = -1
LIVE_OVERHEAD_BYTES = 2_000
"""What an event takes in the engine while it is live, beside its payload, about."""


class Accepted(Struct, frozen=True):
    """An event that was taken."""

    message: EventMessage
    type: EventType
    target: Area | None
    """Where it matters; None: another consumer sought it, and this node only passes it on."""
    attributes: Attributes


class _Place(Struct, frozen=True):
    """The proximity of an event, as far as it is known."""

    type: EventType
    proximity: Proximity
    naval: Position
    scale: float
    target: Area | None
    found: Discovered | None = None


class EventIntake:
    """What arrives at one node."""

    def __init__(
        self,
        names: OwnNames,
        settings: ProximitySettings,
        counts: ProximityCounts,
        own: OwnProximities,
        proximities: ProximityList,
        memberships: Memberships,
    ) -> None:
        self.shares = ChannelShares(names, settings)
        self._names = names
        self._settings = settings
        self._counts = counts
        self._own = own
        self._list = proximities
        self._memberships = memberships
        self._seen = SeenEvents(settings.seen_most)
        self._order: EventOrder[Accepted] = EventOrder(
            settings.order_wait_s, settings.recovers, lambda accepted: accepted.message
        )
        self._elsewhere: OrderedDict[str, None] = OrderedDict()
        """Producers that the engine knows, of which no proximity is known here."""
        self._live = ByteBudget(settings.live_bytes)

    def has(self, key: EventKey) -> bool:
        """Return whether an event was taken for this node's application."""
        return (key, _DELIVERED) in self._seen

    def take(self, message: EventMessage, here: Position | None, now: float) -> Accepted | None:
        """Return an event that is taken, for the first time in its group; else count why not."""
        counts, key = self._counts, key_of(message)
        if message.producer in self._names:
            return None
        if (key, message.group) in self._seen:
            counts.duplicates += 1
            return None
        place = self._place_of(message, here)
        if place is None or here is None:
            counts.collisions += message.group in self._memberships
            return None
        lives_s = place.type.lifetime_s(self._settings.transient_s)
        if not -self._settings.clock_error_s <= now - message.time <= lives_s:
            counts.outdated += 1
            return None
        if place.found is not None:
            found = place.found
            found.move(message.naval, message.scale, message.time)
            inside = found.holds(here)
        else:
            inside = place.proximity.holds(here, place.naval, place.scale)
        if not inside:
            counts.outside += 1
            return None
        attributes = attributes_of(message.payload)
        try:
            place.type.check(attributes)
        except EventTypeError:
            counts.mistyped += 1
            return None
        size = OVERHEAD_BYTES + len(message.payload)
        if not self.shares.take(message.producer, message.subject, size, now):
            counts.over_share += 1
            return None
        until = message.time + lives_s + self._settings.clock_error_s
        self._seen.add(key, message.group, until, now)
        return Accepted(message, place.type, place.target, attributes)

    def ready(self, accepted: Accepted, now: float) -> list[Accepted]:
        """Return the events that are to be delivered now that this one is there, in order."""
        message, key = accepted.message, key_of(accepted.message)
        if accepted.target is None or self.has(key):
            return []
        lives_s = accepted.type.lifetime_s(self._settings.transient_s)
        until = message.time + lives_s + self._settings.clock_error_s
        self._seen.add(key, _DELIVERED, until, now)
        return self._order.offer(accepted, now) if accepted.type.order == "producer" else [accepted]

    def elapse(self, now: float) -> list[Accepted]:
        """Return the events that have waited long enough for earlier ones."""
        return self._order.elapse(now)

    @property
    def seen(self) -> int:
        """How many events are remembered."""
        return len(self._seen)

    @property
    def late(self) -> int:
        """How many came after a later one of their producer was delivered."""
        return self._order.late

    @property
    def wake_at(self) -> float:
        """When `elapse` is due."""
        return self._order.wake_at

    def inputs(self, accepted: Accepted, now: float) -> list[Input]:
        """Return an event as inputs of the engine; none if it came to be outdated meanwhile."""
        message = accepted.message
        if now - message.time > accepted.type.lifetime_s(self._settings.transient_s):
            self._counts.outdated += 1
            return []
        self._counts.delivered += 1
        published = Published(self.event(accepted, now))
        known = self._list.get((message.producer, message.subject, False))
        if known is not None and known.naval_time > message.time:
            return [published]
        moved = Moved(message.producer, Position(*message.naval))
        if known is not None:
            return [moved, published]
        return [*self._met_elsewhere(message.producer), moved, published]

    def met_here(self, producer: str) -> None:
        """Note that a producer's proximity is known: the list says when it is forgotten."""
        self._elsewhere.pop(producer, None)

    def _met_elsewhere(self, producer: str) -> list[Input]:
        """Note a producer of which only an event is known; forget the oldest of too many."""
        self._elsewhere[producer] = None
        self._elsewhere.move_to_end(producer)
        if len(self._elsewhere) <= self._settings.proximities_most:
            return []
        oldest, _ = self._elsewhere.popitem(last=False)
        return [NodeExpired(oldest)]

    def event(self, accepted: Accepted, now: float) -> Event:
        """Return an event as the engine knows it."""
        message, valid_s = accepted.message, None
        if accepted.type.validity_s is not None and accepted.type.order == "none":
            ends_at = message.time + accepted.type.validity_s
            size = LIVE_OVERHEAD_BYTES + len(message.payload)
            # Without room it is delivered like any event, and not to who matches it later.
            if self._live.take(size, ends_at, now):
                valid_s = max(ends_at - now, 0.001)
        at = message.naval if message.at is None else message.at
        producer = self._names.name if message.producer in self._names else message.producer
        publisher = message.publisher or producer
        return Event(
            message.event_id or id_of(message), message.subject, publisher, message.time,
            accepted.attributes,
            Position(*at), True, accepted.target, valid_s, priority=accepted.type.priority,
            payload=message.payload, session=producer if message.publisher else "",
        )  # fmt: skip

    # Where an event belongs

    def _place_of(self, message: EventMessage, here: Position | None) -> _Place | None:
        for own in self._own.seeks:
            if own.group != message.group or here is None:
                continue
            if subject_matches(own.type.subject, message.subject):
                target = own.proximity.target(self._names.name)
                kind = self._list.structure_of(message.subject) or _type_in(message)
                return _Place(kind, own.proximity, here, 1.0, target)
        for each in self._list.of_group(message.group):
            if each.beacon.sought:
                if subject_matches(each.type.subject, message.subject):
                    kind = _type_in(message)
                    return _Place(kind, each.proximity, each.naval, each.scale, None)
            elif each.beacon.producer == message.producer and each.type.subject == message.subject:
                target = each.proximity.target(message.producer, message.scale)
                return _Place(
                    each.type, each.proximity, each.naval, each.scale, target, each
                )  # fmt: skip
        return self._recovered(message)

    def _recovered(self, message: EventMessage) -> _Place | None:
        """Return where an event that was sent again belongs, by the beacon in it."""
        beacon = message.beacon
        if not self._settings.recovers or beacon is None or beacon.sought:
            return None
        subject = beacon.type.subject
        if (beacon.producer, subject) != (message.producer, message.subject):
            return None
        if not self._memberships.wants(subject):
            return None
        own, known = self._own.announced(subject), self._list.structure_of(subject)
        if any(each not in (None, beacon.type) for each in (own and own.type, known)):
            return None
        try:
            described = described_by(beacon)
        except ModelError:
            return None
        if group_id(beacon.type, described) != message.group:
            return None
        target = described.target(message.producer, message.scale)
        return _Place(beacon.type, described, Position(*message.naval), message.scale, target)


def key_of(message: EventMessage) -> EventKey:
    """Return what an event is known by."""
    return message.producer, message.incarnation, message.number


def id_of(message: EventMessage) -> str:
    """Return the id of an event that its producer raised."""
    return f"{message.producer}-{message.incarnation:x}-{message.number}"


def _type_in(message: EventMessage) -> EventType:
    return EventType(message.subject) if message.beacon is None else message.beacon.type
