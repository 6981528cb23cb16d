"""A node without a broker, as a state machine of calls, messages, fixes and time (seed D).

It announces the proximities of its own events, discovers those of others, joins the groups of those
that it subscribed to, and passes on what it receives there: each message once, never its own, and
only while it is inside. What it learns becomes inputs of an engine: a beacon is a move and an
announcement, a received event a published one with the proximity as its target. Nothing here
matches filters.

Promises, whatever is lost, late, repeated or forged by who has no key: an event is given to the
engine at most once, only if it has the announced type and is neither outdated nor overdue, and in
its producer's order if its type promises one. What is kept is bounded by the settings.
"""

import math
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Announcement
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Announced, Moved, NodeExpired, Published, Unannounced
from nearcast.core.model.subject import subject_matches
from nearcast.core.proximity.discovery.discovery import Discovered, ProximityList, described_by
from nearcast.core.proximity.discovery.discovery import key_of as proximity_key
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.memberships import Memberships
from nearcast.core.proximity.discovery.own_names import NodeOf, OwnNames, by_itself
from nearcast.core.proximity.discovery.own_proximity import OwnProximities
from nearcast.core.proximity.discovery.proximity import proximity
from nearcast.core.proximity.dissemination.admission import OVERHEAD_BYTES
from nearcast.core.proximity.dissemination.event_intake import Accepted, EventIntake, id_of
from nearcast.core.proximity.dissemination.outbox import Outbox
from nearcast.core.proximity.dissemination.overheard import OverheardBeacons
from nearcast.core.proximity.dissemination.recovery import Recovery
from nearcast.core.proximity.dissemination.send_queue import size_of
from nearcast.core.proximity.errors import AdmissionError, EventTypeError
from nearcast.core.proximity.messages import (
    Beacon,
    EventMessage,
    Holdings,
    Message,
    Request,
)
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityCounts, ProximityKept, ProximityStep

LARGEST_PAYLOAD_BYTES = 48 * 1024


class ProximityNode:
    """One run of a node."""

    def __init__(
        self,
        name: str,
        settings: ProximitySettings | None = None,
        incarnation: int = 1,
        node_of: NodeOf = by_itself,
    ) -> None:
        self.names = names = OwnNames(name, node_of)
        self.incarnation = incarnation
        self.settings = settings = ProximitySettings() if settings is None else settings
        self.counts = ProximityCounts()
        self.position: Position | None = None
        self.speed_mps = 0.0
        self.hears_itself = True
        """Its own events become inputs of its engine too."""
        self._fixed_at = -math.inf
        self._own = OwnProximities(names, incarnation, settings)
        self._memberships = Memberships()
        self._list = ProximityList(settings.proximities_most, settings.announcements_most)
        self._overheard = OverheardBeacons(settings.proximities_most)
        self._recovery = Recovery(names, incarnation, settings)
        self._outbox = Outbox(name, settings, self.counts)
        self._intake = EventIntake(
            names, settings, self.counts, self._own, self._list, self._memberships
        )
        self._numbers = 0

    # The producer

    def announce(
        self, event_type: EventType, area: Area, now: float, grow_s: float = 0.0
    ) -> ProximityStep:
        """Announce that events of a type are raised in an area, in place of an earlier one.

        Raises `ModelError` if it cannot be announced: an area around "me" needs a position, and a
        subject that others here announce with another structure is refused.
        """
        known = self._list.structure_of(event_type.subject)
        if known is not None and known != event_type:
            raise EventTypeError(
                f"{event_type.subject!r} is announced here as {known.text}; events of one subject "
                "have one structure, so use the same type or another subject"
            )
        return self._set_own(event_type, area, grow_s, False, now)

    def unannounce(self, subject: str, now: float) -> ProximityStep:
        """End an announcement, if there is one."""
        return self._end_own(subject, False, now)

    def raise_event(
        self,
        subject: str,
        attributes: Mapping[str, object],
        now: float,
        *,
        at: Position | None = None,
        publisher: str = "",
        event_id: str = "",
    ) -> tuple[str, ProximityStep]:
        """Raise an event of an announced type; return its id.

        One that another node published elsewhere keeps its `publisher` and `event_id`.

        Raises `EventTypeError` if it does not have the type, and `AdmissionError` if it is beyond
        the type's share of the channel.
        """
        own = self._own.announced(subject)
        if own is None:
            raise ModelError(
                f"{subject!r} is not announced; announce the type of its events and the area "
                "in which they are raised first"
            )
        payload = msgspec.json.encode(attributes)
        if len(payload) > LARGEST_PAYLOAD_BYTES:
            raise EventTypeError(
                f"an event of {len(payload)} bytes is larger than {LARGEST_PAYLOAD_BYTES}"
            )
        own.type.check(dict(attributes))  # type: ignore[arg-type]  # checked there
        here = self._here()
        size = OVERHEAD_BYTES + len(payload)
        share = self._intake.shares.of_type(self.names.name, subject, now)
        if not share.take(size, now):
            raise AdmissionError(subject, share.rate, share.wait_s(size, now))
        self.counts.events_raised += 1
        self._numbers += 1
        scale = own.proximity.scale(self.speed_mps)
        message = EventMessage(
            own.group, self.names.alias, self.incarnation, self._numbers,
            self._own.next_sequence(subject), subject, now,
            (here.lat, here.lon), scale, own.proximity.reach_m(here, scale) > self._range_m,
            payload, None if at is None else (at.lat, at.lon), publisher, event_id,
        )  # fmt: skip
        step = ProximityStep()
        self._outbox.event(message, own.type, now)
        assert own.last is not None
        self._send_to_seekers(message, own.last, here, now)
        self._recovery.hold(message, own.last, now + own.type.lifetime_s(0.0), now)
        if self.hears_itself:
            raised = Accepted(message, own.type, None, dict(attributes))  # type: ignore[arg-type]
            step.inputs.append(Published(self._intake.event(raised, now)))
        self._outbox.flush(step, now)
        return event_id or id_of(message), step

    # The consumer

    def subscribe(self, name: str, pattern: str, now: float) -> ProximityStep:
        """Listen to the groups of all proximities here whose subjects match a pattern."""
        self._memberships.subscribe(name, pattern)
        step = ProximityStep()
        self._update_members(self._list, step)
        return step

    def unsubscribe(self, name: str, now: float) -> ProximityStep:
        """End a subscription, if there is one."""
        self._memberships.unsubscribe(name)
        step = ProximityStep()
        self._update_members(self._list, step)
        return step

    def seek(self, subject: str, area: Area, now: float) -> ProximityStep:
        """Ask for the events of a subject that producers in an area of this consumer raise."""
        return self._set_own(EventType(subject), area, 0.0, True, now)

    def end_seek(self, subject: str, now: float) -> ProximityStep:
        """Seek a subject no more."""
        return self._end_own(subject, True, now)

    # The world

    def vanish(self, now: float) -> ProximityStep:
        """Tell others that all announcements end, before going on under another name."""
        return self._tell_all(now, ended=True)

    def rename(self, alias: str, now: float) -> ProximityStep:
        """Be known to others by another name from now on; announcements go on under it."""
        self.names.alias = alias
        self._own.begin_sequences()
        return self._tell_all(now, ended=False)

    def move(self, position: Position, now: float, speed_mps: float | None = None) -> ProximityStep:
        """Take a fix; without a speed it follows from the fix before."""
        step = ProximityStep()
        if speed_mps is not None:
            self.speed_mps = speed_mps
        elif self.position is not None and now > self._fixed_at:
            self.speed_mps = self.position.distance_m(position) / (now - self._fixed_at)
        if self.position is not None:
            self._recovery.anticipate(self.position, position, now - self._fixed_at, now)
        self.position, self._fixed_at = position, now
        step.inputs.append(Moved(self.name, position))
        left = [
            each for each in self._list if not each.proximity.moves and not each.holds(position)
        ]
        for each in left:
            self._drop(each, step)
            if self.settings.overhears:
                self._overheard.put(each.beacon, each.proximity, each.expires_at)
        for beacon, expires_at in self._overheard.entered(position, now):
            if not self._conflicts(beacon):
                self._learn(beacon, expires_at, step)
        for own in self._own:
            if not own.sought and own.rescaled(self.speed_mps):
                step.inputs.append(Announced(own.announcement(self.name)))
        self._outbox.flush(step, now)
        return step

    def receive(self, message: Message, now: float) -> ProximityStep:
        """Take a message of another node."""
        step = ProximityStep()
        if isinstance(message, Beacon):
            self._receive_beacon(message, step, now)
        elif isinstance(message, EventMessage):
            self._receive_event(message, step, now)
        elif isinstance(message, Holdings):
            self._receive_holdings(message, now)
        elif isinstance(message, Request):
            self._receive_request(message, now)
        self._outbox.flush(step, now)
        return step

    def elapse(self, now: float) -> ProximityStep:
        """Let time pass: send beacons, drop what fell silent, give up waiting."""
        step = ProximityStep()
        for gone in self._list.expired(now):
            self.counts.expired += 1
            self._part(gone, step)
        if self.position is not None:
            for beacon in self._own.due(self.position, self.speed_mps, now):
                self._outbox.beacon(beacon, now)
            self._tell_holdings(self.position, now)
        for accepted in self._intake.elapse(now):
            step.inputs += self._intake.inputs(accepted, now)
        self._outbox.flush(step, now)
        return step

    @property
    def name(self) -> str:
        """Its name, in its own engine."""
        return self.names.name

    @property
    def wake_at(self) -> float:
        """When `elapse` is due; infinite if nothing waits."""
        return min(
            self._outbox.wake_at,
            self._list.wake_at,
            self._intake.wake_at,
            self._own.next_beacon,
            self._recovery.tells_at,
        )

    @property
    def groups(self) -> list[int]:
        """The groups that it listens to."""
        return self._memberships.groups

    @property
    def discovered(self) -> list[Discovered]:
        """The proximities of others that concern it here."""
        return list(self._list)

    @property
    def kept(self) -> ProximityKept:
        """How much it keeps, and what it had no room for."""
        recovery, queue = self._recovery, self._outbox.queue
        return ProximityKept(
            len(self._list), self._list.evicted, len(self._overheard), self._intake.seen,
            self._intake.late, len(recovery), recovery.bytes, recovery.anticipated,
            len(queue), queue.overdue, queue.dropped,
        )  # fmt: skip

    @property
    def announced(self) -> list[EventType]:
        """The types that it announces."""
        return [own.type for own in self._own if not own.sought]

    # Own proximities

    @property
    def _range_m(self) -> float:
        return self.settings.radio_range_m

    def _here(self) -> Position:
        if self.position is None:
            raise ModelError("this node has no position yet; move it before it raises events")
        return self.position

    def _set_own(
        self, event_type: EventType, area: Area, grow_s: float, sought: bool, now: float
    ) -> ProximityStep:
        if self.position is None:
            raise ModelError("this node has no position yet; move it before it announces")
        described = proximity(area, self.position, grow_s)
        step = ProximityStep()
        own, before = self._own.put(event_type, described, sought, self.speed_mps)
        if sought:
            if before is not None:
                self._memberships.leave(before.group, step)
            self._memberships.join(own.group, step)
        else:
            step.inputs.append(Announced(own.announcement(self.name)))
            self._update_members(self._list, step)
        self._outbox.beacon(self._own.beacon(own, self.position, self.speed_mps, now), now)
        self._outbox.flush(step, now)
        return step

    def _end_own(self, subject: str, sought: bool, now: float) -> ProximityStep:
        step = ProximityStep()
        own = self._own.remove(subject, sought)
        if own is None:
            return step
        if sought:
            self._memberships.leave(own.group, step)
        else:
            step.inputs.append(Unannounced(self.name, subject))
            self._update_members(self._list, step)
        beacon = self._own.beacon(own, self._here(), self.speed_mps, now, ended=True)
        self._outbox.beacon(beacon, now)
        self._outbox.flush(step, now)
        return step

    def _tell_all(self, now: float, *, ended: bool) -> ProximityStep:
        step = ProximityStep()
        if self.position is not None:
            for own in self._own:
                beacon = self._own.beacon(own, self.position, self.speed_mps, now, ended=ended)
                self._outbox.beacon(beacon, now)
        self._outbox.flush(step, now)
        return step

    def _send_to_seekers(
        self, message: EventMessage, beacon: Beacon, here: Position, now: float
    ) -> None:
        for each in self._list.sought:
            if not subject_matches(each.type.subject, message.subject):
                continue
            hops = here.distance_m(each.naval) + each.proximity.reach_m(each.naval) > self._range_m
            self._outbox.event(
                replace(message, group=each.group, hops=hops, beacon=beacon), beacon.type, now
            )

    # Beacons of others

    def _receive_beacon(self, beacon: Beacon, step: ProximityStep, now: float) -> None:
        settings = self.settings
        if beacon.producer in self.names:
            return
        lasts_s = settings.missed_beacons * beacon.period_s
        if not -settings.clock_error_s <= now - beacon.time <= lasts_s + settings.clock_error_s:
            self.counts.outdated += 1
            return
        if not self._list.is_new(beacon, now + lasts_s + 2.0 * settings.clock_error_s):
            self.counts.duplicates += 1
            return
        if not self._intake.shares.take_beacon(beacon.producer, size_of(beacon), now):
            self.counts.over_share += 1
            return
        known = self._list.get(proximity_key(beacon))
        try:
            described = described_by(beacon)
        except ModelError:
            self.counts.malformed += 1
            return
        naval = Position(*beacon.naval)
        inside = self.position is not None and described.holds(self.position, naval, beacon.scale)
        if known is not None and (beacon.ended or not inside):
            self._drop(known, step)
        if not inside or beacon.ended:
            self._overheard.forget(beacon)
        if not inside:
            if settings.overhears and not beacon.ended:
                self._overheard.put(beacon, described, now + lasts_s)
            return
        if beacon.hops:
            self._outbox.pass_beacon_on(beacon, now)
        if beacon.ended or self._conflicts(beacon):
            return
        self._learn(beacon, now + lasts_s, step)

    def _learn(self, beacon: Beacon, expires_at: float, step: ProximityStep) -> None:
        self._intake.met_here(beacon.producer)
        found, gone = self._list.add(beacon, expires_at)
        for each in gone:
            self._part(each, step)
        self._tell_engine(found, step)
        self._update_members((found,), step)

    def _conflicts(self, beacon: Beacon) -> bool:
        """Return whether a beacon gives a subject that is known here another structure."""
        if beacon.sought:
            return False
        own = self._own.announced(beacon.type.subject)
        known = self._list.get(proximity_key(beacon))
        if own is not None:
            conflicts = own.type != beacon.type
        elif known is not None and known.beacon.incarnation >= beacon.incarnation:
            conflicts = known.type != beacon.type
        else:
            structure = self._list.structure_of(beacon.type.subject)
            conflicts = structure is not None and structure != beacon.type
        self.counts.conflicts += conflicts
        return conflicts

    def _tell_engine(self, found: Discovered, step: ProximityStep) -> None:
        beacon = found.beacon
        step.inputs.append(Moved(beacon.producer, found.naval))
        if not beacon.sought:
            target = found.proximity.target(beacon.producer, found.scale)
            announcement = Announcement(beacon.producer, beacon.type.subject, target)
            step.inputs.append(Announced(announcement))

    def _drop(self, found: Discovered, step: ProximityStep) -> None:
        self._list.remove(found)
        self._part(found, step)

    def _part(self, found: Discovered, step: ProximityStep) -> None:
        """Take leave of a proximity that is not in the list any more."""
        self._memberships.part(found, step)
        producer = found.beacon.producer
        if not found.beacon.sought:
            step.inputs.append(Unannounced(producer, found.type.subject))
        if not any(each.beacon.producer == producer for each in self._list):
            # Nothing tells where it is any more: relationships part, and it is forgotten.
            step.inputs += [Moved(producer, None), NodeExpired(producer)]

    def _update_members(self, proximities: Iterable[Discovered], step: ProximityStep) -> None:
        self._memberships.update(proximities, self._own.subjects, step)

    # Events of others

    def _receive_event(self, message: EventMessage, step: ProximityStep, now: float) -> None:
        accepted = self._intake.take(message, self.position, now)
        if accepted is None:
            return
        if message.hops:
            self._outbox.pass_on(message, accepted.type, self._here(), now)
        self._hold(message, now, message.time + accepted.type.lifetime_s(0.0))
        for each in self._intake.ready(accepted, now):
            step.inputs += self._intake.inputs(each, now)

    def _hold(self, message: EventMessage, now: float, until: float) -> None:
        """Keep an event for those who miss it, if the beacon of its producer is known."""
        found = self._list.get((message.producer, message.subject, False))
        beacon = message.beacon if found is None else found.beacon
        if beacon is not None and not beacon.sought:
            self._recovery.hold(message, beacon, until, now)

    def _tell_holdings(self, here: Position, now: float) -> None:
        holdings = self._recovery.tell(here, now)
        self.counts.told += bool(holdings)
        for each in holdings:
            self._outbox.recovery(each, now)

    def _receive_holdings(self, told: Holdings, now: float) -> None:
        if self.position is None or told.sender in self.names:
            return
        if not self._recovery.is_new(told, now):
            self.counts.replayed += 1
            return
        self._recovery.meet(told, now)
        request = self._recovery.ask(told, self._memberships.wants, self._intake.has, now)
        if request is not None:
            self.counts.asked += 1
            self._outbox.recovery(request, now)

    def _receive_request(self, request: Request, now: float) -> None:
        if request.sender in self.names:
            return
        if not self._recovery.is_new(request, now):
            self.counts.replayed += 1
            return
        for message in self._recovery.answer(request, now):
            self.counts.recovered += 1
            self._outbox.recovery(message, now)
