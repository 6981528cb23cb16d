"""The visible state of a city on a broker, as its clients know it.

Residents report what they sent and received, and an observer that subscribes like any other client
reports positions, presence, and events of the pipeline. Nothing here accesses the broker.
"""

import time
from collections import deque
from collections.abc import Callable
from urllib.parse import unquote

from msgspec.structs import replace

from nearcast.cli.demo.city_drawing import FADES_S, DrawnNode, Picture, plain
from nearcast.client.receive.observations import ONLINE, POSITION
from nearcast.client.receive.received import Received
from nearcast.core.model import ModelError, Position, parse_position
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.subject import subject_matches
from nearcast.simulation.movement.city_life import SIREN_M, CityLife
from nearcast.simulation.movement.city_run import REMEMBERED, Happening
from nearcast.wire.handover import PUBLISHER as PIPELINE

TOGETHER_S = 2
"""Copies of an event that come within this many seconds of the first are one happening; later
copies are another one."""
SOMEBODY = "somebody"
"""The name for a hidden publisher."""


class CityScene:
    """Positions, recent deliveries, and decisions of the pipeline."""

    def __init__(
        self,
        life: CityLife,
        decided_later: tuple[str, ...] = (),
        observer: str = "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.life = life
        self._decided_later = decided_later
        """Patterns of the subjects that the pipeline decides."""
        self._observer = observer
        self._now = now
        self._began = now()
        self.positions: dict[str, Position] = {}
        self.online: set[str] = set()
        self.happenings: deque[Happening] = deque(maxlen=REMEMBERED)
        """Decided in the broker; the latest last."""
        self.found: deque[Happening] = deque(maxlen=REMEMBERED)
        """Decided in the pipeline, or published by it; the latest last."""
        self._live: dict[str, tuple[Circle, float]] = {}
        self.sent = 0
        self.received = 0
        self.counts: dict[str, int] = {}
        """Counts of the pipeline's events, by the first level of their subject."""

    @property
    def time_s(self) -> float:
        """Seconds since the scene began."""
        return self._now() - self._began

    @property
    def visitors(self) -> list[str]:
        """Nodes from outside that are online or have a position."""
        return sorted(
            name
            for name in self.online | self.positions.keys()
            if name not in self.life.residents and name != self._observer
        )

    # Reported by residents

    def note_sent(self, event: Event) -> None:
        """Note an event that a resident published."""
        self.sent += 1
        if isinstance(event.to, Circle) and event.valid_s:
            self._live[event.id] = (event.to, self.time_s + event.valid_s)

    def note_received(self, node: str, event: Received) -> None:
        """Note an event that a resident received."""
        self.received += 1
        if event.publisher == PIPELINE:
            return
        later = any(subject_matches(each, event.subject) for each in self._decided_later)
        news = self.found if later else self.happenings
        found = self._latest(news, event)
        now = int(self.time_s)
        began = now if found is None else int(found.event.time)
        if found is None or now - found.time_s > TOGETHER_S:
            # Events decided in the pipeline come late, but are not met later.
            happening = Happening(now, _event(event, now if later else began), ())
            news.append(happening)
        else:
            happening = found
        copy = Delivery(happening.event, node, (), event.priority or 1)
        news[_index(news, happening)] = replace(happening, copies=(*happening.copies, copy))

    # Reported by the observer

    def note_overheard(self, event: Received) -> None:
        """Note an event of the pipeline, or from outside."""
        if event.publisher == PIPELINE:
            self.found.append(Happening(int(self.time_s), _event(event, int(self.time_s)), ()))
            kind = event.subject.partition("/")[0]
            self.counts[kind] = self.counts.get(kind, 0) + 1
            return
        from_outside = event.publisher not in self.life.residents and not event.retain
        if from_outside and self._latest(self.happenings, event) is None:
            now = int(self.time_s)
            self.happenings.append(Happening(now, _event(event, now), ()))

    def note_known(self, event: Received) -> None:
        """Note the position or presence of a node, from `$node/NODE/position` or `.../online`."""
        _, name, what = event.subject.split("/", 2)
        node = unquote(name)
        if what == POSITION:
            at = _position(event.payload)
            if at is None:
                self.positions.pop(node, None)
            else:
                self.positions[node] = at
        elif what == ONLINE and event.payload == b"true":
            self.online.add(node)
        elif what == ONLINE:
            self.online.discard(node)

    # Drawing

    def picture(self) -> Picture:
        """Return the picture of the current state."""
        now = self.time_s
        for key in [key for key, (_, until) in self._live.items() if until <= now]:
            del self._live[key]
        received = {
            copy.node: happening.event.subject
            for happening in (*self.happenings, *self.found)
            if now - happening.time_s <= FADES_S / 2
            for copy in happening.copies
        }
        recent = [each for each in (*self.happenings, *self.found) if now - each.time_s < FADES_S]
        ambulances = [
            each.node for each in self.life.residents.values() if each.kind == "ambulance"
        ]
        return Picture(
            [self._node(name, at, received.get(name, "")) for name, at in self.positions.items()],
            [circle for circle, _ in self._live.values()],
            [
                Circle(self.positions[each], SIREN_M)
                for each in ambulances
                if each in self.positions
            ],
            [
                (each.event.position, now - each.time_s)
                for each in recent
                if each.event.position is not None
            ],
        )

    def _node(self, name: str, position: Position, received: str) -> DrawnNode:
        resident = self.life.residents.get(name)
        if resident is not None:
            return DrawnNode(resident.kind, position, received)
        kind = "visitor" if name in self.online else "absent visitor"
        return DrawnNode(kind, position, received, label=plain(name))

    def _latest(self, news: deque[Happening], event: Received) -> Happening | None:
        for happening in reversed(news):
            known = happening.event
            if (known.id, known.publisher) == (event.id or "", event.publisher or SOMEBODY):
                return happening
        return None


def _event(event: Received, time_s: int) -> Event:
    """Return a received event as an event of the core, at a time of the scene."""
    return Event(
        event.id or "",
        event.subject,
        event.publisher or SOMEBODY,
        time_s,
        event.attributes,
        event.position,
    )


def _index(news: deque[Happening], happening: Happening) -> int:
    return next(at for at in range(len(news) - 1, -1, -1) if news[at] is happening)


def _position(payload: bytes) -> Position | None:
    try:
        return parse_position(payload.decode()) if payload else None
    except (ModelError, UnicodeDecodeError):
        return None
