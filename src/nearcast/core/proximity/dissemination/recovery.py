"""Recovery: members keep events while they are true, and give them to who missed them.

Every beacon period a member tells what it holds. Whoever subscribed to that and lacks some asks,
and gets it again with the beacon of its producer, who may be out of reach by then. A member that
sees another about to leave its range tells at once: what either lacks is exchanged before they
part.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.own_names import OwnNames
from nearcast.core.proximity.dissemination.seen_events import EventKey, share_of
from nearcast.core.proximity.messages import Beacon, EventMessage, Holdings, Request
from nearcast.core.proximity.settings import ProximitySettings

OVERHEAD_BYTES = 400
"""What an event takes that is kept, beside its payload, about."""
MOST_TOLD = 400
MOST_ASKED = 64
MOST_ASKED_FOR = 10_000
MOST_LISTED_BYTES = 32 * 1024
"""Of names in one message."""
Listed = tuple[tuple[str, str, int, tuple[int, ...]], ...]
"""Subject, producer, its incarnation, and the numbers of its events."""
MOST_NEIGHBOURS = 1_000
_AGAIN_S = 0.02
"""An event that was just sent again is on its way to others who ask for it too."""
_LONGEST_WAIT = 4.0
WAITS_S = 1.0
"""How long what is told, asked and answered may wait for the channel."""


class _Held(Struct):
    message: EventMessage
    period_s: float
    until: float
    sent_at: float = -math.inf


class _Asked(Struct):
    again_at: float
    wait_s: float


class _Neighbour(Struct):
    position: Position
    time: float
    parting_at: float = -math.inf
    """When one of both saw that they would part."""


class Recovery:
    """What one node holds for others, and has asked for."""

    def __init__(self, names: OwnNames, incarnation: int, settings: ProximitySettings) -> None:
        self._names = names
        self._incarnation = incarnation
        self._settings = settings
        self._held: dict[EventKey, _Held] = {}
        self._bytes = 0
        self._asked: dict[EventKey, _Asked] = {}
        self._neighbours: dict[str, _Neighbour] = {}
        self._latest: OrderedDict[tuple[str, type], tuple[int, int]] = OrderedDict()
        self._number = 0
        self._parting = False
        self.tells_at = math.inf
        """When to tell what is held."""
        self.anticipated = 0
        """Times that a neighbour was seen leaving."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """What is held takes, about."""
        return self._bytes

    def hold(self, message: EventMessage, beacon: Beacon, until: float, now: float) -> None:
        """Keep an event until a time, as far as there is room."""
        if not self._settings.recovers or beacon.type.validity_s is None:
            return
        key = message.producer, message.incarnation, message.number
        size = _kept_bytes(message)
        if key in self._held or size > self._settings.held_bytes:
            return
        self._expire(now)
        while self._bytes + size > self._settings.held_bytes:
            self._drop(min(self._held, key=lambda each: self._held[each].until))
        again = replace(message, hops=False, beacon=beacon)
        self._held[key] = _Held(again, beacon.period_s, until)
        self._bytes += size
        self._asked.pop(key, None)
        self.tells_at = min(self.tells_at, now + self._period_s())

    def tell(self, here: Position, now: float) -> list[Holdings]:
        """Return what is held, in messages that fit, if it is time and there is something."""
        if now < self.tells_at:
            return []
        self._expire(now)
        if not self._held:
            self.tells_at = math.inf
            return []
        jitter = share_of((self._names.alias, 0, self._number), "holdings")
        self.tells_at = now + self._period_s() * (0.8 + 0.2 * jitter)
        parting, self._parting = self._parting, False
        found = []
        for events in self._listed():
            self._number += 1
            found.append(
                Holdings(
                    self._names.alias, self._incarnation, self._number, now, (here.lat, here.lon),
                    events, parting,
                )
            )  # fmt: skip
        return found

    def _listed(self) -> Iterator[Listed]:
        """Yield the keys of all that is held, the latest first, as much at once as fits."""
        by_stream: dict[tuple[str, str, int], list[int]] = {}
        count, room = 0, MOST_LISTED_BYTES
        for producer, incarnation, number in reversed(self._held):
            subject = self._held[producer, incarnation, number].message.subject
            stream = subject, producer, incarnation
            if stream not in by_stream:
                room -= _size_of(subject, producer)
            if by_stream and (room < 0 or count >= MOST_TOLD):
                yield _as_listed(by_stream)
                by_stream, count = {}, 0
                room = MOST_LISTED_BYTES - _size_of(subject, producer)
            by_stream.setdefault(stream, []).append(number)
            count += 1
        yield _as_listed(by_stream)

    def ask(
        self,
        told: Holdings,
        wants: Callable[[str], bool],
        has: Callable[[EventKey], bool],
        now: float,
    ) -> Request | None:
        """Return a request for what another holds and this node lacks, if there is any."""
        if not self._settings.recovers:
            return None
        asked, room = 0, MOST_LISTED_BYTES
        events = []
        for subject, producer, incarnation, numbers in told.events:
            if producer in self._names or not wants(subject):
                continue
            room -= _size_of(subject, producer)
            if room < 0 or asked >= MOST_ASKED:
                break
            lacking = tuple(
                number
                for number in sorted(numbers)
                if not has((producer, incarnation, number))
                and self._may_ask((producer, incarnation, number), now)
            )[: MOST_ASKED - asked]
            if lacking:
                asked += len(lacking)
                events.append((subject, producer, incarnation, lacking))
                for number in lacking:
                    self._note_asked((producer, incarnation, number), now)
        if not events:
            return None
        self._number += 1
        return Request(
            self._names.alias, self._incarnation, self._number, now, told.sender, tuple(events)
        )

    def answer(self, request: Request, now: float) -> list[EventMessage]:
        """Return the events that another asks this node for."""
        if request.holder not in self._names or not self._settings.recovers:
            return []
        found = []
        for _, producer, incarnation, numbers in request.events:
            for number in numbers[:MOST_ASKED]:
                held = self._held.get((producer, incarnation, number))
                if held is not None and held.until > now and held.sent_at + _AGAIN_S <= now:
                    held.sent_at = now
                    found.append(held.message)
        return found[:MOST_ASKED]

    def is_new(self, message: Holdings | Request, now: float) -> bool:
        """Return whether a node told or asked this now, and not what was recorded of it."""
        error_s = self._settings.clock_error_s
        if not -error_s <= now - message.time <= WAITS_S + error_s:
            return False
        key, found = (message.sender, type(message)), (message.incarnation, message.number)
        if found <= self._latest.get(key, (0, 0)):
            return False
        self._latest[key] = found
        self._latest.move_to_end(key)
        if len(self._latest) > 2 * MOST_NEIGHBOURS:
            self._latest.popitem(last=False)
        return True

    def meet(self, told: Holdings, now: float) -> None:
        """Note where a neighbour is; if it is about to leave, what is held is told at once."""
        known = self._neighbours.pop(told.sender, None)
        parting_at = -math.inf if known is None else known.parting_at
        self._neighbours[told.sender] = _Neighbour(
            Position(*told.at), now, now if told.parting else parting_at
        )
        while len(self._neighbours) > MOST_NEIGHBOURS:
            self._neighbours.pop(next(iter(self._neighbours)))
        if told.parting and self._held:
            self.tells_at = now

    def anticipate(self, before: Position, here: Position, moved_s: float, now: float) -> None:
        """Take a fix: if a neighbour will be out of range soon, tell what is held at once."""
        if not self._held or moved_s <= 0.0:
            return
        period_s, range_m = self._period_s(), self._settings.radio_range_m
        ahead = period_s / moved_s
        soon = Position(
            min(max(here.lat + (here.lat - before.lat) * ahead, -90.0), 90.0),
            min(max(here.lon + (here.lon - before.lon) * ahead, -180.0), 180.0),
        )
        for each in self._neighbours.values():
            if now - each.parting_at <= period_s or now - each.time > 2.0 * period_s:
                continue
            if here.distance_m(each.position) <= range_m < soon.distance_m(each.position):
                each.parting_at, self._parting = now, True
                self.anticipated += 1
                self.tells_at = now

    def _period_s(self) -> float:
        """The shortest beacon period of what is held."""
        return min(
            (held.period_s for held in self._held.values()), default=self._settings.beacon_most_s
        )

    def _may_ask(self, key: EventKey, now: float) -> bool:
        asked = self._asked.get(key)
        return asked is None or asked.again_at <= now

    def _note_asked(self, key: EventKey, now: float) -> None:
        """Ask again after a while, and then less and less often."""
        before = self._asked.pop(key, None)
        first_s = 0.4 * self._settings.beacon_least_s
        wait_s = first_s if before is None else min(2.0 * before.wait_s, _LONGEST_WAIT)
        self._asked[key] = _Asked(now + wait_s, wait_s)
        while len(self._asked) > MOST_ASKED_FOR:
            self._asked.pop(next(iter(self._asked)))

    def _expire(self, now: float) -> None:
        for key in [key for key, held in self._held.items() if held.until <= now]:
            self._drop(key)

    def _drop(self, key: EventKey) -> None:
        held = self._held.pop(key)
        self._bytes -= _kept_bytes(held.message)


def _kept_bytes(message: EventMessage) -> int:
    return OVERHEAD_BYTES + len(message.payload) + len(message.subject)


def _as_listed(by_stream: dict[tuple[str, str, int], list[int]]) -> Listed:
    return tuple((*stream, tuple(numbers)) for stream, numbers in by_stream.items())


def _size_of(subject: str, producer: str) -> int:
    """Return how many bytes the names of one producer's events take in a list."""
    return len(subject.encode()) + len(producer.encode()) + 32
