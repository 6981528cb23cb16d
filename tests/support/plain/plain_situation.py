"""The situation told plainly: everything is looked at after every step, and nothing is clever.

One filter and one area are decided by the core's reference evaluator. Who has which session, who
gets one copy of what at which QoS, what stays, for whom it is new and what waits for somebody is
decided here, by walking through all of it.
"""

from collections import Counter
from collections.abc import Mapping
from math import inf

from msgspec import Struct, field

from nearcast.core.language import Filter, parse
from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.reference import EventScope, decide
from nearcast.core.model import Area, Circle, Event, Position, Subscription, parse_area
from nearcast.core.model.geometry.area import FixedArea
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import subject_matches
from nearcast.core.model.visibility import SEE_ALL


class Wish(Struct, frozen=True):
    """A subscription as it was asked for."""

    key: str
    subject: str
    qos: int
    where: str | None = None
    from_: str | None = None
    is_ours: bool = False
    """It carries a word of ours, or has a name."""
    name: str | None = None
    no_local: bool = False
    as_published: bool = False
    handling: int = 0
    envelope: bool = False
    group: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.key


class Copy(Struct, frozen=True):
    """What one session gets of one event."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    labels: tuple[str, ...] = ()
    """Of the subscriptions that it is for, if one of them is told."""
    envelope: bool = False


class Session(Struct):
    """A client's session."""

    client: str
    lasting: bool
    online: bool = True
    wishes: dict[str, Wish] = field(default_factory=dict)
    came: list[Copy] = field(default_factory=list)
    """What it has got since somebody looked."""
    waiting: list[tuple[float, Copy, str]] = field(default_factory=list)
    """Until when, what, and the key of the event that it is of."""

    @property
    def node(self) -> str:
        return self.client.partition("~")[0]


class Live(Struct):
    """Something that stays, and who has this version of it."""

    event: Event
    expires: float
    seen: set[str] = field(default_factory=set)


class PlainSituation:
    """All that is so, and all that anyone gets; a `World` for the reference evaluator."""

    def __init__(self) -> None:
        self.places = Places()
        self.sessions: dict[str, Session] = {}
        self.positions: dict[str, Position] = {}
        self.contexts: dict[str, dict[str, Value]] = {}
        self.announcements: dict[tuple[str, str], tuple[str, str]] = {}
        self.live: dict[str, Live] = {}
        self.known: set[tuple[str, str]] = set()
        self.now = 0.0
        self.shared: list[tuple[Copy, frozenset[str]]] = []
        """What one of a group gets, and who may be that one."""

    # What the reference evaluator asks

    def position(self, node: str) -> Position | None:
        return self.positions.get(node)

    def previous_position(self, node: str) -> Position | None:
        return None

    def attributes(self, node: str) -> Mapping[str, Value]:
        return self.contexts.get(node, {})

    def may_see(self, viewer: str, other: str) -> int:
        return SEE_ALL

    def earlier(
        self, asked: EventScope, subject: str, where: Filter | None, within: Circle | None
    ) -> list[Event]:
        return []

    def count_earlier(
        self,
        asked: EventScope,
        subject: str,
        where: Filter | None,
        within: Circle | None,
        most: int | None = None,
    ) -> int:
        return 0

    # What happens

    def connect(self, client: str, lasting: bool, clean: bool) -> None:
        session = self.sessions.get(client)
        if session is not None and clean:
            self._end(session)
            session = None
        if session is None:
            session = self.sessions[client] = Session(client, lasting)
        session.online = True
        session.came += [copy for expires, copy, _ in session.waiting if expires > self.now]
        session.waiting.clear()
        self._bring()

    def lose(self, client: str) -> None:
        session = self.sessions[client]
        session.online = False
        if not session.lasting:
            self._end(session)

    def _end(self, session: Session) -> None:
        del self.sessions[session.client]
        for live in self.live.values():
            live.seen.discard(session.client)
        for at in [at for at, (_, owner) in self.announcements.items() if owner == session.client]:
            del self.announcements[at]

    def restart(self) -> None:
        for client in list(self.sessions):
            if self.sessions[client].online:
                self.lose(client)

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.live = {key: live for key, live in self.live.items() if live.expires > self.now}

    def move(self, client: str, at: tuple[float, float] | None) -> None:
        node = client.partition("~")[0]
        self.positions.pop(node, None)
        if at is not None:
            self.positions[node] = Position(*at)
        self._bring()

    def patch(self, client: str, name: str, value: Value) -> None:
        context = self.contexts.setdefault(client.partition("~")[0], {})
        context.pop(name, None)
        if value is not None:
            context[name] = value
        self._bring()

    def announce(self, client: str, subject: str, to: str | None) -> None:
        at = (client.partition("~")[0], subject)
        self.announcements.pop(at, None)
        if to is not None:
            self.announcements[at] = (to, client)

    def draw(self, kind: str, name: str, area: FixedArea | None) -> None:
        if area is None:
            self.places.remove(kind, name)
        else:
            self.places.add(kind, name, area)
        self._bring()

    def subscribe(self, client: str, wish: Wish) -> None:
        session = self.sessions[client]
        is_new = wish.key not in session.wishes
        session.wishes[wish.key] = wish
        if wish.group is None:
            for live in self.live.values():
                if live.event.retain and self._fits(session, wish, live.event):
                    live.seen.add(client)
                    if wish.handling == 0 or (wish.handling == 1 and is_new):
                        self._hand(session, live, [wish], replayed=True)
        self._bring()

    def unsubscribe(self, client: str, key: str) -> None:
        self.sessions[client].wishes.pop(key, None)

    def publish(
        self,
        client: str,
        subject: str,
        payload: bytes,
        qos: int,
        retain: bool,
        words: Mapping[str, str],
        number: int,
    ) -> None:
        node = client.partition("~")[0]
        name = words.get("id", f"made up {number}")
        valid = float(words["valid"]) if "valid" in words else None
        if retain and not payload:
            valid = 0.0
        standing = self.announcements.get((node, subject))
        to = words.get("to") or (None if standing is None else standing[0])
        event = Event(
            name,
            subject,
            node,
            0.0,
            attributes_of(payload),
            _point(words["at"]) if "at" in words else self.positions.get(node),
            "at" in words,
            None if to is None else parse_area(to),
            valid,
            words.get("object"),
            retain,
            payload=payload,
            qos=qos,
            session=client,
        )
        key = _key(event)
        kept = self.live.get(key)
        if (node, name) in self.known and not (
            valid == 0.0 and kept is not None and kept.event.id == name
        ):
            return
        self.known.add((node, name))
        live = Live(event, self.now + valid if valid else inf)
        if event.stays:
            self.live.pop(key, None)
        for session in self.sessions.values():
            wishes = self._fitting(session, event)
            if valid == 0.0:
                has_it = kept is not None and session.client in kept.seen
                wishes = self._ending(session, event, wishes, has_it)
                if wishes:
                    session.waiting = [
                        each for each in session.waiting if each[2] != key or not each[1].labels
                    ]
            if wishes and self._hand(session, live, wishes, replayed=False):
                live.seen.add(session.client)
        self._share(event)
        if event.stays and valid != 0.0:
            self.live[key] = live
        self._bring()

    def _ending(
        self, session: Session, event: Event, fitting: list[Wish], has_it: bool
    ) -> list[Wish]:
        """The wishes by which a withdrawal comes: plain ones, and those of who has the event."""
        clears = event.retain and not event.payload
        own = session.client == event.session
        return [
            wish
            for wish in session.wishes.values()
            if (wish in fitting and (clears or not wish.is_ours or has_it))
            or (
                has_it
                and wish.is_ours
                and wish.group is None
                and not (wish.no_local and own)
                and subject_matches(wish.subject, event.subject)
            )
        ]

    # What follows

    def _bring(self) -> None:
        """Give everyone whatever stays, fits and is new to them."""
        for session in self.sessions.values():
            for live in self.live.values():
                if session.client not in live.seen:
                    wishes = self._fitting(session, live.event)
                    if wishes and self._hand(session, live, wishes, replayed=True):
                        live.seen.add(session.client)

    def _hand(self, session: Session, live: Live, wishes: list[Wish], *, replayed: bool) -> bool:
        """Let a session have one copy, and one in an envelope; whether it has it, or it is over."""
        event = live.event
        copies = [
            Copy(
                event.subject,
                event.payload,
                min(event.qos, max(wish.qos for wish in own)),
                event.retain and (replayed or any(wish.as_published for wish in own)),
                _labels(own),
                enveloped,
            )
            for enveloped in (False, True)
            if (own := [wish for wish in wishes if wish.envelope is enveloped])
        ]
        if session.online:
            session.came += copies
        elif any(copy.qos for copy in copies):
            session.waiting += [(live.expires, copy, _key(event)) for copy in copies if copy.qos]
        else:
            # What any broker would lose stays lost; the rest is there when it comes back.
            plain = not any(wish.is_ours for wish in wishes)
            return event.retain and event.to is None and plain
        return True

    def _share(self, event: Event) -> None:
        groups: dict[tuple[str, str], list[tuple[Session, Wish]]] = {}
        for session in self.sessions.values():
            for wish in session.wishes.values():
                if wish.group is not None and self._decide(session, wish, event):
                    groups.setdefault((wish.group, wish.subject), []).append((session, wish))
        for members in groups.values():
            here = [each for each in members if each[0].online] or members
            wish = here[0][1]
            qos = min(event.qos, wish.qos)
            if here[0][0].online or qos:
                copy = Copy(event.subject, event.payload, qos, False, _labels([wish]))
                self.shared.append((copy, frozenset(session.client for session, _ in here)))

    def _fitting(self, session: Session, event: Event) -> list[Wish]:
        return [wish for wish in session.wishes.values() if self._fits(session, wish, event)]

    def _fits(self, session: Session, wish: Wish, event: Event) -> bool:
        if wish.group is not None or (wish.no_local and event.session == session.client):
            return False
        return self._decide(session, wish, event)

    def _decide(self, session: Session, wish: Wish, event: Event) -> bool:
        where = None if wish.where is None else parse(wish.where)
        from_: Area | None = None if wish.from_ is None else parse_area(wish.from_)
        subscription = Subscription("", session.node, wish.subject, where, from_)
        return decide(event, subscription, self).passed

    # What came

    def take(self, client: str) -> Counter[Copy]:
        """What a client has got since the last time, but not through a group."""
        session = self.sessions[client]
        came, session.came = Counter(session.came), []
        return came


def _labels(wishes: list[Wish]) -> tuple[str, ...]:
    if not any(wish.is_ours for wish in wishes):
        return ()
    return tuple(sorted(wish.label for wish in wishes))


def _key(event: Event) -> str:
    if event.retain:
        return f"retained {event.subject}"
    if event.object is not None:
        return f"object {event.publisher} {event.object}"
    return f"id {event.publisher} {event.id}"


def _point(text: str) -> Position:
    lat, lon = text.split(",")
    return Position(float(lat), float(lon))
