"""The reference evaluator: decides one event and one subscription step by step.

It decides what kernels cannot, explains decisions, and is what kernels are tested against. Data
that a subscriber may not see is unknown to its filter and its area.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct

from nearcast.core.adaptation.weighted_filter import selecting_filter
from nearcast.core.language import Filter, Node, Operation, Property
from nearcast.core.language.ast import walk
from nearcast.core.language.evaluation.scope import LatLon, Value, followed
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import ME, Area, Around, Circle, FixedArea
from nearcast.core.model.geometry.area_resolution import Anchored, holds, resolve
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.subject import subject_matches
from nearcast.core.model.subject_permissions import SubjectPermissions
from nearcast.core.model.visibility import (
    SEE_ALL,
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_POSITION,
    SEE_WHERE_NAMED,
)


class WorldView(Protocol):
    """The state that decisions on an event depend on."""

    places: Places

    def position(self, node: str) -> Position | None:
        """The position of a node, None if unknown."""
        ...

    def previous_position(self, node: str) -> Position | None:
        """The position of a node at its previous fix."""
        ...

    def attributes(self, node: str) -> Mapping[str, Value]:
        """The context of a node."""
        ...

    def may_see(self, viewer: str, other: str) -> int:
        """The visibility mask for a viewer: SEE_POSITION, SEE_IDENTITY, SEE_ATTRIBUTES."""
        ...

    def earlier(
        self, scope: "EventScope", subject: str, where: Filter | None, within: Circle | None
    ) -> list[Event]:
        """Recent events that the subscriber would have received, in an area or anywhere.

        With the fields it may see, and without the event being decided.
        """
        ...

    def count_earlier(
        self,
        scope: "EventScope",
        subject: str,
        where: Filter | None,
        within: Circle | None,
        most: int | None = None,
    ) -> int:
        """The number of these events; `most` if there are more."""
        ...


class VerdictStep(Struct, frozen=True):
    """The verdict of one step."""

    step: str
    passed: bool
    why: str


class WeighedAtom(Struct, frozen=True):
    """An atom of a filter with relevance, and its truth for one event; None is unknown."""

    atom: str
    relevance: int
    truth: bool | None


class Weighing(Struct, frozen=True):
    """What the priority of an event for a subscription with relevance follows from."""

    context_class: int
    matrix: tuple[tuple[int, ...], ...]
    atoms: tuple[WeighedAtom, ...]


class Verdict(Struct, frozen=True):
    """Whether an event matches a subscription, at what priority, and why."""

    subscription: str
    priority: int | None
    """None if it does not match; -1 if it does and is withheld."""
    steps: tuple[VerdictStep, ...]
    weighing: Weighing | None = None
    """For a subscription with relevance."""
    gathering: Mapping[str, object] | None = None
    """For a subscription that gathers: what became of the event, as it is told."""

    @property
    def passed(self) -> bool:
        """True if every step passed."""
        return self.priority is not None and self.priority > 0


def decide(event: Event, subscription: Subscription, world: WorldView) -> Verdict:
    """Decide one pair, with reasons, up to the first step that fails."""
    me = subscription.node
    steps: list[VerdictStep] = []

    def verdict(step: str, passed: bool, why: str) -> bool:
        steps.append(VerdictStep(step, passed, why))
        return passed

    priority = None
    scope = EventScope(event, me, world, countable=subscription.countable)
    fits = subject_matches(subscription.subject, event.subject)
    if (
        verdict("subject", fits, f"{event.subject} {_fits(fits)} {subscription.subject}")
        and verdict("from", *_from(event, subscription.from_, me, scope, world))
        and verdict("to", *_to(event, me, world))
        and (not event.about or verdict("about", *_about(event, me, world)))
        and verdict("where", *_where(selecting_filter(subscription), scope))
    ):
        priority = 1
        if subscription.relevance is None:
            verdict("priority", True, "priority 1")
    return Verdict(subscription.id, priority, tuple(steps))


def could_have(event: Event, me: str, world: WorldView) -> bool:
    """True if the target of an event and the nodes it is about permit a node to receive it."""
    return (event.to is None or _to(event, me, world)[0]) and (
        not event.about or _about(event, me, world)[0]
    )


def would_reach(event: Event, node: str, world: WorldView) -> bool:
    """True if an earlier event is for a node, by the node's position and visibility now.

    A moving target is taken where it was when the event arrived.
    """
    if event.to is not None:
        here = world.position(node)
        if here is None or not holds(area_at(event.to, event.target_at, world), here):
            return False
    return not event.about or may_see_all(node, event.about, world)


def may_see_all(viewer: str, others: Iterable[str], world: WorldView) -> bool:
    """True if a node may see identity and position of all the others."""
    return all(world.may_see(viewer, each) & SEE_WHERE_NAMED == SEE_WHERE_NAMED for each in others)


class Memo:
    """Cached answers for one event: a predicate on the event alone is evaluated once.

    The cache is shared by all filters of all subscribers.
    """

    def __init__(self) -> None:
        self._answers: dict[Node, bool | None] = {}
        self.evaluated = 0
        """The number of predicates that were evaluated."""

    def answer(self, where: Filter, scope: "EventScope") -> bool | None:
        """Return whether a filter holds, None if unknown."""
        return self._answer(where.root, scope, where.two_valued)

    def _answer(self, node: Node, scope: "EventScope", two_valued: bool) -> bool | None:
        if isinstance(node, Operation) and node.op in ("and", "or"):
            deciding = node.op == "or"
            answers = [self._answer(arg, scope, two_valued) for arg in node.args]
            if deciding in answers:
                return deciding
            return None if None in answers else not deciding
        if isinstance(node, Operation) and node.op == "not":
            answer = self._answer(node.args[0], scope, two_valued)
            return None if answer is None else not answer
        if not asks_only_the_event(node):
            self.evaluated += 1
            return Filter(node, two_valued).evaluate_in(scope)
        if node not in self._answers:
            self.evaluated += 1
            self._answers[node] = Filter(node).evaluate_in(scope)
        answer = self._answers[node]
        return False if answer is None and two_valued else answer


def asks_only_the_event(node: Node) -> bool:
    """True if a predicate gives the same answer for every subscriber."""
    return not any(
        (isinstance(part, Operation) and part.op in PERSONAL)
        or (isinstance(part, Property) and part.name.partition(".")[0] in WHO)
        for part, _ in walk(node)
    )


PERSONAL = ("distance", "approaching", "count", "friend", "node", "earlier")
WHO = ("me", "publisher", "event", "node")


def area_for(area: Area, caller: str, world: WorldView) -> FixedArea | Anchored | None:
    """Resolve an area for a caller now, limited to what the caller may see."""
    return area_at(area, anchor_for(area, caller, world), world)


def area_at(area: Area, anchor: Position | None, world: WorldView) -> FixedArea | Anchored | None:
    """Resolve an area with its anchor node at a position."""
    return resolve(area, caller=anchor, position_of=lambda _: anchor, places=world.places)


def anchor_for(area: Area, caller: str, world: WorldView) -> Position | None:
    """The position of the node that an area moves with, None if the caller may not see it."""
    if not isinstance(area, Around) or area.anchor in (ME, caller):
        return world.position(caller)
    if world.may_see(caller, area.anchor) & SEE_WHERE_NAMED != SEE_WHERE_NAMED:
        return None
    return world.position(area.anchor)


class EventScope:
    """What a filter can read about an event on behalf of a subscriber.

    It can count events on subjects that `countable` permits; None permits all.
    """

    def __init__(
        self,
        event: Event,
        me: str,
        world: WorldView,
        sees: int | None = None,
        countable: SubjectPermissions | None = None,
    ) -> None:
        self.event = event
        self.me = me
        self.world = world
        if sees is None:
            sees = world.may_see(me, event.publisher) if event.publisher else SEE_ALL
        self.mask = sees
        """The visibility mask of the publisher."""
        self.countable = countable

    def value(self, name: str) -> Value:
        """The value of a property given by its dotted path."""
        head, _, rest = name.partition(".")
        if head == "event":
            return self._event_value(rest)
        if head == "me":
            return self._context_value("me", self.me, rest, SEE_ALL)
        if head == "publisher":
            return self._context_value("publisher", self.event.publisher, rest, self.mask)
        return self._attribute(name)

    def position(self, who: str) -> LatLon | None:
        """The position of a node or the event, None if unknown or hidden."""
        if who == "event":
            return _pair(self.event_position())
        node = self._node(who, SEE_POSITION)
        return None if node is None else _pair(self.world.position(node))

    def previous_position(self, who: str) -> LatLon | None:
        """The previous position of a node, None if unknown or hidden."""
        node = None if who == "event" else self._node(who, SEE_POSITION)
        return None if node is None else _pair(self.world.previous_position(node))

    def event_position(self) -> Position | None:
        """The position of the event; if taken from its publisher, hidden as the publisher's is."""
        if not self.event.at_given and not self.mask & SEE_POSITION:
            return None
        return self.event.position

    def count(
        self,
        subject: str,
        where: Filter | None,
        metres: float | None,
        around: str = "me",
        most: int | None = None,
    ) -> int | None:
        """The number of recent events that match, within a distance of a node or anywhere."""
        area: Circle | None = None
        if metres is not None:
            at = self.position(around)
            if at is None:
                return None
            area = _circle(at, metres)
        return self.world.count_earlier(self, subject, where, area, most)

    def nearest(self, where: Filter | None, to: LatLon) -> float | None:
        """Metres to the nearest recent event that matches."""
        found = self.world.earlier(self, "#", where, None)
        places = [EventScope(event, self.me, self.world).event_position() for event in found]
        return min(
            (distance_m(*to, at.lat, at.lon) for at in places if at is not None), default=None
        )

    def friend(self, who: str) -> bool | None:
        """Whether the context of a node lists the subscriber as a friend; None if unknown."""
        node = self._node(who, SEE_ATTRIBUTES)
        friends = None if node is None else self.world.attributes(node).get("friends")
        return self.me in friends if isinstance(friends, list | tuple) else None

    def _node(self, who: str, needed: int) -> str | None:
        if who == "me":
            return self.me
        if who == "publisher":
            node = self.event.publisher
            return node if node and self.mask & needed else None
        node, needed = who.removeprefix("node."), needed | SEE_IDENTITY
        return node if self.world.may_see(self.me, node) & needed == needed else None

    def _event_value(self, name: str) -> Value:
        event = self.event
        if name == "subject":
            return event.subject
        if name == "time":
            return datetime.fromtimestamp(event.time, UTC)
        if name == "id":
            return event.id
        if name == "priority":
            return event.priority
        if name == "position":
            return _point(self.event_position())
        return self._attribute(name.removeprefix("attributes."))

    def _context_value(self, who: str, node: str, path: str, mask: int) -> Value:
        if path == "position":
            return _lon_lat(self.position(who))
        if path == "node":
            return node if node and mask & SEE_IDENTITY else None
        if not node or not mask & SEE_ATTRIBUTES:
            return None
        return followed(self.world.attributes(node), path)

    def _attribute(self, name: str) -> Value:
        attributes = self.event.attributes
        if name in attributes:
            return attributes[name]
        return followed(attributes, name)


def _from(
    event: Event, area: Area | None, me: str, scope: EventScope, world: WorldView
) -> tuple[bool, str]:
    if area is None:
        return True, "no area asked for"
    at = scope.event_position()
    if at is None:
        return False, "the event's position is unknown or hidden"
    meant = area_for(area, me, world)
    if meant is None:
        return False, "the area holds nobody now"
    inside = holds(meant, at)
    return inside, f"the event is {'inside' if inside else 'outside'} the area"


def _to(event: Event, me: str, world: WorldView) -> tuple[bool, str]:
    if event.to is None:
        return True, "no target"
    at = world.position(me)
    if at is None:
        return False, f"{me} has no position"
    meant = area_for(event.to, event.publisher, world)
    if meant is None:
        return False, "the target holds nobody now"
    inside = holds(meant, at)
    return inside, f"{me} is {'inside' if inside else 'outside'} the target"


def _about(event: Event, me: str, world: WorldView) -> tuple[bool, str]:
    seen = may_see_all(me, event.about, world)
    return seen, f"{me} {'may' if seen else 'may not'} see all that it tells of"


def _where(where: Filter | None, scope: EventScope) -> tuple[bool, str]:
    if where is None:
        return True, "no filter"
    answer = where.evaluate_in(scope)
    result = {True: "true", False: "false", None: "unknown"}[answer]
    return answer is True, f"the filter is {result}"


def _fits(fits: bool) -> str:
    return "fits" if fits else "does not fit"


def _pair(position: Position | None) -> LatLon | None:
    return None if position is None else (position.lat, position.lon)


def _point(position: Position | None) -> Value:
    return _lon_lat(_pair(position))


def _lon_lat(at: LatLon | None) -> Value:
    return None if at is None else {"type": "Point", "coordinates": [at[1], at[0]]}


def _circle(at: LatLon, metres: float) -> Circle:
    return Circle(Position(*at), metres)
