"""Nobody learns a hidden position: whatever an attacker tries, two worlds look the same to it.

The worlds differ only in where the victim is. The attacker and a confederate, who may not see
that, do the same things in both: all that they get, in what order and when, must be equal.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.engine.outcome import AreaNotice, RelationshipNotice
from nearcast.core.language import Filter, parse
from nearcast.core.model import (
    SEE_ALL,
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_POSITION,
    Announcement,
    Area,
    Around,
    Box,
    Circle,
    Delivery,
    Event,
    MovingCircle,
    PlaceHere,
    Position,
    Subscription,
    circle,
    place,
)
from nearcast.core.model.event import Relevance
from nearcast.core.model.inputs import (
    Announced,
    AreaWatched,
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    Published,
    RelationshipDefined,
    RelationshipEnded,
    RulesSet,
    SightSet,
    Subscribed,
    Unsubscribed,
)
from nearcast.core.rights import NodeCondition, SightRule
from tests.support.plain import plain_world as plain

VICTIM, BYSTANDER = "bob", "cy"
ATTACKERS = ("ann", "dee")
OUTSIDE = Position(53.36, -6.24)
SOMEWHERE = Position(53.35, -6.26)
ELSEWHERE = Position(53.3503, -6.2605)
REGION = Box(53.2, -6.4, 53.355, -6.25)
PLACES = (
    PlaceDefined("city", "Dublin", Box(53.2, -6.4, 53.4, -6.1)),
    PlaceDefined("region", "Pole", Box(80.0, -180.0, 90.0, 180.0)),
    PlaceDefined("ward", "Seven", REGION),
)
UNSEEN = SEE_IDENTITY | SEE_ATTRIBUTES
HIDING: dict[str, tuple[Input, ...]] = {
    "by name": (RulesSet((SightRule(other=NodeCondition((VICTIM,)), see=UNSEEN),)),),
    "by context": (
        ContextPatched(VICTIM, {"shy": True}),
        RulesSet((SightRule(other=NodeCondition(where=parse("shy")), see=UNSEEN),)),
    ),
    "by rank": (
        RulesSet(
            (SightRule(NodeCondition(where=parse("rank > 2"))),),
            {VICTIM: {"rank": 9}},
            default=UNSEEN,
        ),
    ),
    "by being no friend": (
        ContextPatched(VICTIM, {"friends": [BYSTANDER]}),
        RulesSet((SightRule(friend=True),), default=0),
    ),
    "by area": (RulesSet((SightRule(other=NodeCondition(inside=place("Seven")), see=UNSEEN),)),),
    "by pairs": tuple(SightSet(attacker, VICTIM, UNSEEN) for attacker in ATTACKERS),
    "by name and altogether": (RulesSet((SightRule(other=NodeCondition((VICTIM,)), see=0),)),),
}


class Glimpse(Struct, frozen=True):
    """What one of the attackers gets of a delivery: as much of its event as it may see."""

    node: str
    event: Event
    subscriptions: tuple[str, ...]
    priority: int
    replayed: bool


class World:
    """An engine, and what the attackers get from it."""

    def __init__(self, hiding: tuple[Input, ...]) -> None:
        self.engine = Engine()
        self.now = 0.0
        self.step([*PLACES, *hiding])

    def step(self, inputs: list[Input]) -> list[object]:
        """Return all that the attackers get."""
        self.now += 1.0
        outcome = self.engine.step(inputs, self.now)
        seen: list[object] = [
            [self.glimpse(each) for each in outcome.deliveries if each.node == attacker]
            for attacker in ATTACKERS
        ]
        seen.append(outcome.refusals)
        seen.append(self.sightings(outcome))
        seen.append(self.relations(outcome))
        return seen

    def glimpse(self, delivery: Delivery) -> Glimpse:
        viewer, event = delivery.node, delivery.event
        mask = self.engine.matcher.world.may_see(viewer, event.publisher)
        if not event.at_given and not mask & SEE_POSITION:
            event = replace(event, position=None)
        if not mask & SEE_IDENTITY:
            event = replace(event, publisher="")
        return Glimpse(viewer, event, delivery.subscriptions, delivery.priority, delivery.replayed)

    def sightings(self, outcome: Outcome) -> list[object]:
        """Who came into areas that anyone may read of."""
        return [
            (viewer, sighting)
            for sighting in outcome.notices
            if isinstance(sighting, AreaNotice)
            for viewer in ATTACKERS
            if self.engine.rights.may_witness(viewer, sighting.node)
        ]

    def relations(self, outcome: Outcome) -> list[object]:
        """What the attackers may be told of relationships: changes, and the states of now."""
        engine = self.engine
        last = {
            (each.relationship, each.by): each
            for each in outcome.notices
            if isinstance(each, RelationshipNotice)
        }
        told: list[object] = []
        for notice in outcome.notices:
            if not isinstance(notice, RelationshipNotice) or notice.ended or notice.veiled:
                continue
            is_last = notice is last[notice.relationship, notice.by]
            # What it was before is told to nobody: only to whom it is news.
            state = (notice.relationship, notice.by, notice.near, notice.time)
            told += [
                (viewer, *state)
                for viewer in ATTACKERS
                if self.sees_all(viewer, notice.members, notice.sight)
                and (is_last or all(engine.rights.may_witness(viewer, m) for m in notice.members))
            ]
        for name in engine.relationships.names():
            found = engine.relationship(name)
            for viewer in ATTACKERS:
                if self.sees_all(viewer, found.defined.members, found.defined.needed_sight):
                    states = [state for state in found.states if not state.veiled]
                    distances = [found.distance(n) for n in range(len(found.states))]
                    told.append((viewer, name, states, distances))
        return told

    def sees_all(self, viewer: str, members: tuple[str, ...], sight: int) -> bool:
        may_see = self.engine.matcher.world.may_see
        return all(may_see(viewer, each) & sight == sight for each in members)


class Twins:
    """Two worlds, told the same but for where the victim is."""

    def __init__(self, hiding: tuple[Input, ...]) -> None:
        self.one, self.other = World(hiding), World(hiding)

    def step(self, *pairs: Input | tuple[Input, Input]) -> list[object]:
        both = [pair if isinstance(pair, tuple) else (pair, pair) for pair in pairs]
        seen = self.one.step([first for first, _ in both])
        assert seen == self.other.step([second for _, second in both])
        for attacker in ATTACKERS:
            probe = Event("why", "city/bus", VICTIM, 0.0, {"speed": 2})
            why = self.one.engine.explain(probe, attacker)
            assert why == self.other.engine.explain(probe, attacker)
        return seen


def somewhere_or_elsewhere(
    one: Position | None = SOMEWHERE, other: Position | None = ELSEWHERE
) -> tuple[Input, Input]:
    return Moved(VICTIM, one), Moved(VICTIM, other)


def wants(node: str, where: str | None = None, **details: object) -> Subscribed:
    name = f"{node}-{hash((where, repr(details)))}"
    filter_ = None if where is None else parse(where)
    return Subscribed(Subscription(name, node, "#", filter_, **details))  # type: ignore[arg-type]


# Each way by itself

PROBES = (
    "distance(me, publisher) < 30",
    "distance(me, publisher) >= 30",
    "distance(event, POINT(-6.26 53.35)) < 30",
    "distance(publisher.position, POINT(-6.26 53.35)) > 30",
    "approaching(publisher)",
    "NOT approaching(publisher)",
    "approaching(event)",
    "s_intersects(event.position, BBOX(-6.2601, 53.34, -6.2599, 53.36))",
    "s_disjoint(publisher.position, BBOX(-6.2601, 53.34, -6.2599, 53.36))",
    "publisher.position IS NULL",
    "event.position IS NULL",
    "count('#', '', 30) > 0",
    "count('#', 'distance(me, publisher) < 30') > 0",
    "count('#', 's_intersects(event.position, BBOX(-6.2601, 53.34, -6.2599, 53.36))') = 0",
    "publisher.node = 'bob' AND distance(me, publisher) < 30",
    "speed > 1 OR distance(me, publisher) < 30",
)


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("probe", PROBES)
def test_no_filter_tells_where_the_victim_is(hiding: str, probe: str) -> None:
    twins = Twins(HIDING[hiding])
    twins.step(Moved("ann", OUTSIDE), Moved("ann", SOMEWHERE), Moved("dee", ELSEWHERE))
    twins.step(somewhere_or_elsewhere(), somewhere_or_elsewhere(ELSEWHERE, SOMEWHERE))
    twins.step(*(wants(node, probe) for node in ATTACKERS))
    # Alternatives: the probe decides the priority of what comes anyway.
    either, atoms = f"TRUE OR ({probe})", len(FormFunction(parse(probe)).atoms)
    relevance = Relevance((1, *(3,) * atoms))
    twins.step(*(wants(node, either, relevance=relevance) for node in ATTACKERS))
    for engine in (twins.one.engine, twins.other.engine):
        numbers = [engine.matcher.subscriptions_of(node)[0] for node in ATTACKERS]
        engine.matcher.priorities.set_row(numbers, (3, 2, 1))
    for name in "abc":
        event = Event(name, "city/bus", VICTIM, 0.0, {"speed": 2}, valid_s=60.0)
        twins.step(somewhere_or_elsewhere(), Published(event))
        twins.step(Published(replace(event, id=name * 2, valid_s=None)))
        twins.step(Moved("ann", ELSEWHERE), Moved("dee", SOMEWHERE))
    probing = Event("p", "city/bus", "ann", 0.0, {"speed": 0}, SOMEWHERE, at_given=True)
    twins.step(Published(probing), Published(replace(probing, id="q", publisher="dee")))


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("radius_m", [0.0, 5.0, 30.0, 50.0, 500.0, 2e7])
def test_no_area_tells_where_the_victim_is(hiding: str, radius_m: float) -> None:
    twins = Twins(HIDING[hiding])
    areas: list[Area] = [
        Circle(SOMEWHERE, radius_m),
        circle(VICTIM, radius_m),
        Around(VICTIM, MovingCircle(radius_m, 20.0, -20.0)),
    ]
    twins.step(Moved("ann", SOMEWHERE), Moved("dee", ELSEWHERE), somewhere_or_elsewhere())
    for at, area in enumerate(areas):
        twins.step(*(wants(node, from_=area) for node in ATTACKERS))
        twins.step(*(AreaWatched(f"{node}{at}", node, area) for node in ATTACKERS))
        # What the attacker aims round the victim, live or not: does the confederate get it?
        aimed = Event(f"t{at}", "city/bus", "ann", 0.0, {}, SOMEWHERE, True, area)
        twins.step(Published(aimed), Published(replace(aimed, id=f"l{at}", valid_s=90.0)))
        twins.step(Announced(Announcement("ann", f"standing/{at}", area)))
        twins.step(Published(Event(f"s{at}", f"standing/{at}", "ann", 0.0)))
    twins.step(wants("dee"))
    twins.step(Published(Event("e", "city/bus", VICTIM, 0.0, {})))
    twins.step(Published(Event("f", "city/bus", VICTIM, 0.0, {}, retain=True)))
    twins.step(somewhere_or_elsewhere(ELSEWHERE, SOMEWHERE))
    for position in (ELSEWHERE, OUTSIDE, SOMEWHERE):
        twins.step(Moved("ann", position), Moved("dee", position))
        twins.step(Published(Event(repr(position), "city/bus", "ann", 0.0, {}, position, True)))


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("definer", [*ATTACKERS, BYSTANDER])
def test_no_relationship_tells_where_the_victim_is(hiding: str, definer: str) -> None:
    twins = Twins(HIDING[hiding])
    twins.step(Moved("ann", SOMEWHERE), Moved("dee", ELSEWHERE), somewhere_or_elsewhere())
    pair = ("ann", VICTIM)
    for metres in (0.0, 5.0, 30.0, 500.0):
        twins.step(
            RelationshipDefined("in", definer, pair, 2, within=metres),
            RelationshipDefined("out", definer, pair, 2, beyond=metres),
            RelationshipDefined("own", definer, pair, 2, metres=(metres, 2 * metres)),
            RelationshipDefined("some", definer, ("ann", "dee", VICTIM), 2, within=metres),
        )
        twins.step(somewhere_or_elsewhere(ELSEWHERE, SOMEWHERE))
        twins.step(Moved("ann", ELSEWHERE), somewhere_or_elsewhere(), Moved("ann", SOMEWHERE))
        # Where it was hidden stays hidden when it has left, or has no position any more.
        twins.step(Moved(VICTIM, OUTSIDE if metres < 30.0 else None))
        twins.step(Moved("ann", ELSEWHERE), Moved("dee", SOMEWHERE))
        twins.step(somewhere_or_elsewhere(), Moved(VICTIM, OUTSIDE))
        twins.step(somewhere_or_elsewhere())
    twins.step(RelationshipEnded("in"), RelationshipEnded("own"))


def test_the_order_of_many_events_does_not_tell_where_they_are() -> None:
    twins = Twins(HIDING["by name"])
    twins.step(wants("ann", "speed > 0"), Moved(BYSTANDER, OUTSIDE))
    north, south = Position(53.4, -6.26), Position(53.3, -6.26)
    published = [
        Published(Event(f"e{i}", "city/bus", VICTIM if i % 2 else BYSTANDER, 0.0, {"speed": 1}))
        for i in range(40)
    ]
    (first, *_) = twins.step(somewhere_or_elsewhere(north, south), *published)
    assert [glimpse.event.id for glimpse in first] == [f"e{i}" for i in range(40)]  # type: ignore[attr-defined]


def test_the_order_of_live_events_does_not_tell_where_others_were() -> None:
    twins = Twins(HIDING["by name"])
    twins.step(somewhere_or_elsewhere(SOMEWHERE, OUTSIDE), Moved(BYSTANDER, SOMEWHERE))
    live = [Event(f"e{i}", "news", BYSTANDER, 0.0, {}, valid_s=60.0) for i in range(4)]
    hidden = Event("h", "news", VICTIM, 0.0, {}, object="o")
    twins.step(Published(live[0]), Published(hidden), *(Published(event) for event in live[1:]))
    twins.step(Published(replace(hidden, id="gone", valid_s=0.0)))
    (first, *_) = twins.step(wants("ann", from_=Circle(SOMEWHERE, 50.0)))
    assert [glimpse.event.id for glimpse in first] == ["e0", "e1", "e2", "e3"]  # type: ignore[attr-defined]


def test_whoever_may_see_does_learn_it() -> None:
    """The worlds do differ: the probes above are good enough for those who have the right."""
    differing = 0
    for probe in PROBES:
        twins = Twins(())
        try:
            twins.step(Moved("ann", OUTSIDE), Moved("ann", SOMEWHERE), somewhere_or_elsewhere())
            twins.step(wants("ann", probe))
            twins.step(Published(Event("e", "city/bus", VICTIM, 0.0, {"speed": 0})))
            twins.step(Published(Event("f", "city/bus", VICTIM, 0.0, {"speed": 0})))
        except AssertionError:
            differing += 1
    assert differing >= 10


@pytest.mark.parametrize("lasting", [{"valid_s": 600.0}, {"object": "o"}, {"retain": True}, {}])
def test_what_the_victim_did_where_it_was_hidden_stays_hidden_when_it_has_left(
    lasting: dict[str, object],
) -> None:
    twins = Twins(HIDING["by area"])
    ward = Circle(SOMEWHERE, 20.0)
    twins.step(Moved("ann", SOMEWHERE), AreaWatched("ward", BYSTANDER, ward))
    twins.step(somewhere_or_elsewhere(), somewhere_or_elsewhere(ELSEWHERE, SOMEWHERE))
    event = Event("e", "city/bus", VICTIM, 0.0, {"speed": 1}, **lasting)  # type: ignore[arg-type]
    twins.step(Published(event))
    twins.step(Moved(VICTIM, OUTSIDE))
    twins.step(wants("ann", from_=ward), *(wants("ann", probe) for probe in PROBES))
    twins.step(Published(Event("f", "city/bus", VICTIM, 0.0, {"speed": 1})))
    twins.step(Moved("ann", ELSEWHERE), Moved("ann", SOMEWHERE))
    for world in (twins.one, twins.other):
        assert world.engine.matcher.world.may_see("ann", VICTIM) == SEE_ALL


# All ways at once


def by(nodes: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(nodes)


def harmless(area: Area | None) -> bool:
    """Whether an area of those who may see the victim says nothing of where it is."""
    return not isinstance(area, PlaceHere) and not (
        isinstance(area, Around) and area.anchor in ("me", VICTIM)
    )


areas = plain.areas | st.builds(
    lambda metres: circle(VICTIM, metres), st.sampled_from((0.0, 40.0, 400.0, 40_000.0))
)
lasting = st.fixed_dictionaries(
    {},
    optional={
        "valid_s": st.sampled_from((0.0, 50.0)),
        "object": st.just("o"),
        "retain": st.booleans(),
    },
)
ids = st.integers(0, 10**6).map(str)
own_events = st.builds(
    lambda event, name, node, to, stay: replace(event, id=name, publisher=node, to=to, **stay),
    plain.events, ids, by(ATTACKERS), st.none() | areas, lasting,
)  # fmt: skip
their_events = st.builds(
    lambda event, name, node, to, stay: replace(
        event, id=name, publisher=node, to=to, position=None, at_given=False, **stay
    ),
    plain.events, ids, by((VICTIM, VICTIM, BYSTANDER)),
    st.none() | st.none() | plain.areas.filter(harmless), lasting,
)  # fmt: skip
probes: st.SearchStrategy[Filter | None] = (
    st.none() | plain.filters | st.sampled_from(PROBES).map(parse)
)
own_subscriptions = st.builds(
    lambda wanted, node, name, weighted, from_: replace(
        wanted, node=node, id=f"{node}{name}", where=weighted[0], from_=from_, relevance=weighted[1]
    ),
    plain.subscriptions, by(ATTACKERS), st.integers(0, 9), plain.weighted(probes),
    st.none() | areas,
)  # fmt: skip
hidden_moves = st.tuples(plain.positions, plain.positions).map(
    lambda both: somewhere_or_elsewhere(*both)
)
sizes = st.sampled_from((0.0, 30.0, 50.0, 500.0))
relationships = st.builds(
    lambda name, definer, members, size, kind: RelationshipDefined(
        name, definer, tuple(members), 2, size if kind == 0 else None, size if kind == 1 else None,
        tuple(size * n for n in range(len(members))) if kind == 2 else (),
    ),
    st.sampled_from("rst"), by((*ATTACKERS, BYSTANDER)),
    st.lists(by((VICTIM, BYSTANDER, *ATTACKERS)), min_size=2, max_size=3, unique=True), sizes,
    st.integers(0, 2),
)  # fmt: skip
steps: st.SearchStrategy[Input | tuple[Input, Input]] = st.one_of(
    hidden_moves,
    hidden_moves,
    st.builds(Published, their_events),
    st.builds(Published, their_events),
    own_subscriptions.map(Subscribed),
    own_subscriptions.map(Subscribed),
    st.builds(Published, own_events),
    st.builds(Moved, by((*ATTACKERS, BYSTANDER)), st.none() | plain.positions),
    st.builds(ContextPatched, by((*ATTACKERS, BYSTANDER)), plain.contexts),
    st.builds(lambda node, n: Unsubscribed(f"{node}{n}"), by(ATTACKERS), st.integers(0, 9)),
    st.builds(lambda node, to: Announced(Announcement(node, "city/bus", to)), by(ATTACKERS), areas),
    st.builds(
        lambda node, area, where: AreaWatched(node, node, area, where),
        by(ATTACKERS), areas, probes,
    ),
    plain.subscriptions.map(lambda wanted: Subscribed(replace(wanted, node=VICTIM, id="v"))),
    relationships,
    st.builds(RelationshipEnded, st.sampled_from("rst")),
)  # fmt: skip


@settings(
    max_examples=3 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    st.sampled_from([name for name in HIDING if name != "by area"]),
    st.tuples(plain.positions, plain.positions, hidden_moves),
    st.lists(st.lists(steps, min_size=1, max_size=20), min_size=2, max_size=8),
)
def test_two_worlds_look_the_same_to_those_who_may_not_see(
    hiding: str,
    fixes: tuple[Position, Position, tuple[Input, Input]],
    ticks: list[list[Input | tuple[Input, Input]]],
) -> None:
    twins = Twins(HIDING[hiding])
    twins.step(Moved("ann", fixes[0]), Moved("dee", fixes[1]), fixes[2])
    for tick in ticks:
        twins.step(*tick)


inside = st.builds(
    Position, st.sampled_from((53.35, 53.3503, 53.3497)), st.sampled_from((-6.26, -6.2605, -6.27))
)
inside_moves = st.tuples(inside, inside).map(lambda both: somewhere_or_elsewhere(*both))
mixed = st.tuples(steps, inside_moves).map(
    lambda pair: pair[1] if isinstance(pair[0], tuple) else pair[0]
)


@settings(
    max_examples=2 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    st.tuples(plain.positions, plain.positions, inside_moves),
    st.lists(st.lists(mixed, min_size=1, max_size=12), min_size=1, max_size=4),
    st.lists(st.lists(mixed, min_size=1, max_size=12), max_size=3),
)
def test_two_worlds_look_the_same_once_the_victim_has_left_where_it_was_hidden(
    fixes: tuple[Position, Position, tuple[Input, Input]],
    hidden: list[list[Input | tuple[Input, Input]]],
    later: list[list[Input | tuple[Input, Input]]],
) -> None:
    twins = Twins(HIDING["by area"])
    twins.step(Moved("ann", fixes[0]), Moved("dee", fixes[1]), fixes[2])
    for tick in hidden:
        twins.step(*tick)
    twins.step(Moved(VICTIM, OUTSIDE))
    for tick in later:
        twins.step(*(each for each in tick if not isinstance(each, tuple)))
