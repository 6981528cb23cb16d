"""Rules say who may see what of whom, and the matcher and the reference go by them alike."""

import pytest

from nearcast.core.engine.engine import Engine, EngineInputs, LiveEvent
from nearcast.core.engine.outcome import AreaNotice
from nearcast.core.language import parse
from nearcast.core.model import (
    SEE_ALL,
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_NOTHING,
    SEE_POSITION,
    Circle,
    Event,
    ModelError,
    NodeState,
    Position,
    Subscription,
    circle,
    place,
)
from nearcast.core.model.inputs import (
    AreaWatched,
    ContextPatched,
    Forgot,
    Moved,
    PlaceDefined,
    Published,
    RulesSet,
    SightSet,
    Subscribed,
)
from nearcast.core.rights import NodeCondition, SightRule, mask_of
from tests.core.engine_steps import engine_with, got
from tests.core.rights.hospital import HERE, WARD, sees

NEAR = Position(53.352, -6.26)
FAR = Position(53.45, -6.26)
HOSPITAL = PlaceDefined("hospital", "St James", WARD)
HIDDEN = SightRule(see=SEE_NOTHING)


def who(*nodes: str, where: str | None = None, inside: object = None) -> NodeCondition:
    return NodeCondition(nodes, None if where is None else parse(where), inside)  # type: ignore[arg-type]


def rule(viewer: NodeCondition, other: NodeCondition, see: int, **details: object) -> SightRule:
    return SightRule(viewer, other, see, **details)  # type: ignore[arg-type]


def event(name: str, by: str, **details: object) -> Published:
    return Published(Event(name, "news", by, 0.0, **details))  # type: ignore[arg-type]


def wants(node: str, where: str | None = None, name: str = "", **details: object) -> Subscribed:
    filter_ = None if where is None else parse(where)
    return Subscribed(Subscription(name or f"s-{node}", node, "#", filter_, **details))  # type: ignore[arg-type]


# Who sees whom


def test_without_rules_everyone_sees_everything() -> None:
    assert sees(engine_with(), "ann", "bob") == SEE_ALL


def test_the_first_rule_that_fits_decides_and_the_default_where_none_does() -> None:
    rules = (
        rule(who("ann"), who("bob"), SEE_POSITION),
        rule(who("a*"), who("b*"), SEE_NOTHING),
    )
    engine = engine_with(RulesSet(rules, default=SEE_IDENTITY))
    assert sees(engine, "ann", "bob") == SEE_POSITION
    assert sees(engine, "ada", "bob") == SEE_NOTHING
    assert sees(engine, "bob", "ann") == SEE_IDENTITY
    assert sees(engine, "bob", "bob") == SEE_ALL


def test_rank_is_granted_by_rule_and_decides_who_sees() -> None:
    rules = (rule(who(where="rank >= 3"), who(), SEE_ALL), HIDDEN)
    engine = engine_with(RulesSet(rules, {"ann": {"rank": 3}, "b*": {"rank": 2}}))
    assert sees(engine, "ann", "bob") == SEE_ALL
    assert sees(engine, "bob", "ann") == SEE_NOTHING


def test_what_is_granted_is_in_filters_of_nodes_that_said_nothing_of_themselves() -> None:
    engine = engine_with(
        RulesSet((), {"ann": {"rank": 3}, "chief-*": {"rank": 9}}),
        wants("ann", "me.rank = 3 AND publisher.rank > 5"),
        wants("bob", "me.rank IS NULL"),
    )
    assert got(engine.step([event("e", "chief-1")], 1.0)) == [("e", "ann"), ("e", "bob")]
    assert got(engine.step([event("f", "dee")], 2.0)) == [("f", "bob")]
    engine.step([RulesSet((), {"bob": {"rank": 3}})], 3.0)
    assert got(engine.step([event("g", "chief-1")], 4.0)) == []


def test_what_is_granted_stays_when_a_node_is_forgotten() -> None:
    engine = engine_with(RulesSet((), {"ann": {"rank": 3}}), wants("ann", "me.rank = 3"))
    engine.step([ContextPatched("ann", {"role": "x"}), Moved("ann", HERE), Forgot("ann")], 1.0)
    assert got(engine.step([event("e", "bob")], 2.0)) == [("e", "ann")]
    assert engine.rights.context("ann") == {"rank": 3}


@pytest.mark.parametrize(
    ("rules", "patch"),
    [
        (RulesSet(), {"rank": 9}),
        (RulesSet(protected=("badge",)), {"badge": 1}),
        (RulesSet((), {"ann": {"badge": 1}}), {"badge": 1}),
        (RulesSet((rule(who(where="role = 'medic'"), who(), SEE_ALL),)), {"role": "medic"}),
        (RulesSet((SightRule(same="team"),)), {"team": "red"}),
    ],
)
def test_what_carries_rights_cannot_be_set_by_nodes(
    rules: RulesSet, patch: dict[str, object]
) -> None:
    engine = engine_with(rules)
    outcome = engine.step([ContextPatched("bob", {"x": 1} | patch)], 1.0)  # type: ignore[arg-type]
    (refusal,) = outcome.refusals
    assert refusal.reason == f"{next(iter(patch))} carries rights: only rules set it"
    assert engine.nodes == {}


def test_what_rules_ask_of_others_or_leave_settable_can_be_set() -> None:
    rules = (
        rule(who(where="role = 'medic'"), who(where="shy"), SEE_ALL),
        rule(who(), who(where="shy"), SEE_NOTHING),
    )
    engine = engine_with(RulesSet(rules, settable=("role",)), ContextPatched("bob", {"shy": True}))
    assert sees(engine, "ann", "bob") == SEE_NOTHING
    assert engine.step([ContextPatched("ann", {"role": "medic"})], 1.0).refusals == []
    assert sees(engine, "ann", "bob") == SEE_ALL


def test_what_was_set_before_it_carried_rights_counts_no_more() -> None:
    engine = engine_with(ContextPatched("bob", {"badge": 1}), wants("bob", "me.badge = 1"))
    assert got(engine.step([event("e", "ann")], 1.0)) == [("e", "bob")]
    engine.step([RulesSet((rule(who(where="badge = 1"), who(), SEE_ALL), HIDDEN))], 2.0)
    assert sees(engine, "bob", "ann") == SEE_NOTHING
    assert got(engine.step([event("f", "ann")], 3.0)) == []
    engine.step([RulesSet()], 4.0)
    assert got(engine.step([event("g", "ann")], 5.0)) == [("g", "bob")]


def test_whoever_is_inside_a_place_is_hidden_but_to_staff_as_long_as_they_are() -> None:
    hospital = who(inside=place("St James", "hospital"))
    rules = (rule(who("staff-*"), hospital, SEE_ALL), rule(who(), hospital, SEE_NOTHING))
    engine = engine_with(HOSPITAL, RulesSet(rules), Moved("bob", HERE))
    assert (sees(engine, "ann", "bob"), sees(engine, "staff-1", "bob")) == (SEE_NOTHING, SEE_ALL)
    engine.step([Moved("bob", FAR)], 1.0)
    assert sees(engine, "ann", "bob") == SEE_ALL
    engine.step([Moved("bob", HERE)], 2.0)
    assert sees(engine, "ann", "bob") == SEE_NOTHING
    engine.step([], 10_000.0)  # nobody knows where bob is any more
    assert sees(engine, "ann", "bob") == SEE_ALL


def test_a_place_that_becomes_larger_hides_more_and_one_that_is_gone_hides_as_before() -> None:
    hospital = who(inside=place("St James", "hospital"))
    engine = engine_with(
        HOSPITAL, RulesSet((rule(who(), hospital, SEE_NOTHING),)), Moved("bob", NEAR)
    )
    assert sees(engine, "ann", "bob") == SEE_ALL
    engine.step([PlaceDefined("hospital", "St James", Circle(HERE, 2_000.0))], 1.0)
    assert sees(engine, "ann", "bob") == SEE_NOTHING
    engine.step([PlaceDefined("hospital", "St James", None), Moved("cy", HERE)], 2.0)
    assert sees(engine, "ann", "bob") == sees(engine, "ann", "cy") == SEE_NOTHING


def test_friends_are_those_whom_the_other_lists() -> None:
    rules = (SightRule(who(), who(), SEE_ALL, friend=True), HIDDEN)
    engine = engine_with(RulesSet(rules), ContextPatched("bob", {"friends": ["ann", "cy"]}))
    assert sees(engine, "ann", "bob") == sees(engine, "cy", "bob") == SEE_ALL
    assert sees(engine, "bob", "ann") == sees(engine, "dee", "bob") == SEE_NOTHING
    engine.step([ContextPatched("bob", {"friends": ["cy", "dee"]})], 1.0)
    assert sees(engine, "ann", "bob") == SEE_NOTHING
    assert sees(engine, "cy", "bob") == sees(engine, "dee", "bob") == SEE_ALL
    engine.step([Forgot("bob")], 2.0)
    assert sees(engine, "cy", "bob") == SEE_NOTHING
    engine.step([ContextPatched("bob", {"friends": ["ann"]}), RulesSet((HIDDEN,))], 3.0)
    assert sees(engine, "ann", "bob") == SEE_NOTHING


def test_what_friends_see_follows_what_both_of_them_are() -> None:
    rules = (
        SightRule(who(where="rank > 1"), who(where="open"), SEE_ALL, friend=True),
        HIDDEN,
    )
    grants = {"ann": {"rank": 2}}
    engine = engine_with(
        RulesSet(rules, grants),  # type: ignore[arg-type]
        ContextPatched("bob", {"friends": ["ann", "cy"]}),
    )
    assert sees(engine, "ann", "bob") == SEE_NOTHING
    engine.step([ContextPatched("bob", {"open": True})], 1.0)
    assert (sees(engine, "ann", "bob"), sees(engine, "cy", "bob")) == (SEE_ALL, SEE_NOTHING)
    engine.step([ContextPatched("bob", {"open": False})], 2.0)
    assert sees(engine, "ann", "bob") == SEE_NOTHING


def test_those_of_one_team_see_each_other() -> None:
    grants = {"ann": {"team": "red"}, "bob": {"team": "red"}, "cy": {"team": "blue"}}
    rules = (SightRule(same="team"), HIDDEN)
    engine = engine_with(RulesSet(rules, grants))  # type: ignore[arg-type]
    assert sees(engine, "ann", "bob") == SEE_ALL
    assert sees(engine, "ann", "cy") == SEE_NOTHING
    # Having none is not the same as having the same.
    assert sees(engine, "dee", "eve") == SEE_NOTHING


def test_an_exception_goes_before_rules_and_ends_in_them() -> None:
    rules = (SightRule(friend=True), HIDDEN)
    engine = engine_with(
        RulesSet(rules),
        ContextPatched("bob", {"friends": ["ann"]}),
        SightSet("ann", "bob", SEE_IDENTITY),
        SightSet("cy", "bob", SEE_POSITION),
    )
    assert (sees(engine, "ann", "bob"), sees(engine, "cy", "bob")) == (SEE_IDENTITY, SEE_POSITION)
    engine.step([SightSet("ann", "bob", None), SightSet("cy", "bob", None)], 1.0)
    assert (sees(engine, "ann", "bob"), sees(engine, "cy", "bob")) == (SEE_ALL, SEE_NOTHING)


# What is refused, and what there is too much of


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: NodeCondition(inside=circle("me", 5.0)), "fixed or a named place"),
        (lambda: NodeCondition(inside=place("here", "city")), "fixed or a named place"),
        (lambda: SightRule(see=8), "a mask of"),
        (lambda: mask_of(("positon",)), "did you mean position"),
    ],
)
def test_a_rule_that_means_nothing_cannot_be_made(wrong: object, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        wrong()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (RulesSet((SightRule(who(where="me.rank > 1")),)), "bare names are the node's own"),
        (RulesSet((SightRule(who(where="friend(publisher)")),)), "friend means nothing in a rule"),
        (RulesSet((SightRule(who(inside=place("Nowhere"))),)), "no place is called 'Nowhere'"),
        (RulesSet((), {"ann": {"position": [1, 2]}}), "position cannot be granted to 'ann'"),
        (RulesSet(default=9), "a mask of"),
    ],
)
def test_rules_that_cannot_be_in_force_are_refused_and_the_old_ones_stay(
    rules: RulesSet, said: str
) -> None:
    engine = engine_with(RulesSet((HIDDEN,)))
    (refusal,) = engine.step([rules], 1.0).refusals
    assert said in refusal.reason
    assert sees(engine, "ann", "bob") == SEE_NOTHING


def teams(count: int) -> dict[str, dict[str, object]]:
    return {f"n{i}": {"team": i} for i in range(count)}


def test_rules_that_tell_too_many_classes_apart_are_refused() -> None:
    engine = engine_with(*(wants(f"n{i}") for i in range(300)))
    few = RulesSet((SightRule(same="team"), HIDDEN), teams(250))  # type: ignore[arg-type]
    many = RulesSet((SightRule(same="team"), HIDDEN), teams(260))  # type: ignore[arg-type]
    assert engine.step([few], 1.0).refusals == []
    (refusal,) = engine.step([many], 2.0).refusals
    assert "tell 261 classes of nodes apart, and there can be 254" in refusal.reason


def test_whoever_is_of_one_class_too_many_sees_nobody_and_is_seen_by_nobody() -> None:
    rules = RulesSet((SightRule(same="team"),), settable=("team",))
    engine = engine_with(rules, RulesSet((SightRule(same="team"), HIDDEN), settable=("team",)))
    for i in range(300):
        engine.step([ContextPatched(f"n{i}", {"team": i // 2})], 1.0)
        engine.step([ContextPatched(f"m{i}", {"team": i // 2})], 1.0)
    assert sees(engine, "n7", "m7") == SEE_ALL
    engine.step([ContextPatched(f"o{i}", {"team": 1_000 + i}) for i in range(120)], 1.0)
    assert engine.rights.statistics()["closed"] > 0
    engine.step([ContextPatched("ann", {"team": "x"}), ContextPatched("bob", {"team": "x"})], 2.0)
    assert sees(engine, "ann", "bob") == SEE_NOTHING
    engine.step([Forgot(f"o{i}") for i in range(120)], 3.0)
    engine.step([ContextPatched("ann", {"team": "y"}), ContextPatched("bob", {"team": "y"})], 4.0)
    assert sees(engine, "ann", "bob") == SEE_ALL


# What comes into sight


def test_live_events_are_delivered_when_they_come_into_sight() -> None:
    hospital = who(inside=WARD)
    engine = engine_with(
        RulesSet((rule(who(), hospital, SEE_NOTHING),)),
        Moved("bob", HERE),
        wants("ann", "publisher.role = 'nurse'"),
        ContextPatched("bob", {"role": "nurse"}),
    )
    assert got(engine.step([event("e", "bob", valid_s=900.0)], 1.0)) == []
    assert got(engine.step([Moved("bob", FAR)], 2.0)) == [("e", "ann")]
    assert got(engine.step([Moved("bob", HERE), Moved("bob", FAR)], 3.0)) == []


def test_live_events_come_into_sight_when_nobody_knows_where_their_publisher_is() -> None:
    engine = engine_with(
        RulesSet((rule(who(), who(inside=WARD), SEE_NOTHING),)),
        wants("ann", "publisher.node = 'bob'"),
        Moved("bob", HERE),
    )
    assert got(engine.step([event("e", "bob", valid_s=9e9)], 1.0)) == []
    assert got(engine.step([], 9_000.0)) == [("e", "ann")]


def test_other_rules_bring_live_events_into_sight() -> None:
    engine = engine_with(
        RulesSet((HIDDEN,)),
        Moved("bob", HERE),
        wants("ann", from_=Circle(HERE, 100.0)),
        wants("cy", from_=circle("bob", 100.0)),
        event("e", "bob", valid_s=900.0),
        event("f", "bob", valid_s=900.0, to=circle("ann", 50.0)),
    )
    assert got(engine.step([RulesSet()], 1.0)) == [("e", "ann"), ("e", "cy")]
    assert got(engine.step([Moved("ann", NEAR)], 1.0)) == [("f", "ann")]


def test_what_is_round_a_node_comes_into_sight_with_it() -> None:
    engine = engine_with(
        RulesSet((rule(who(), who(where="shy"), SEE_NOTHING),)),
        Moved("bob", HERE),
        ContextPatched("bob", {"shy": True}),
        wants("ann", from_=circle("bob", 50.0)),
        event("e", "cy", position=HERE, at_given=True, valid_s=900.0),
    )
    assert got(engine.step([ContextPatched("bob", {"shy": None})], 1.0)) == [("e", "ann")]


def test_a_target_round_a_node_comes_to_life_when_its_publisher_may_see_it() -> None:
    engine = engine_with(
        SightSet("bob", "ann", SEE_NOTHING),
        Moved("ann", HERE),
        Moved("cy", HERE),
        wants("cy"),
        event("e", "bob", valid_s=900.0, to=circle("ann", 50.0)),
    )
    assert got(engine.step([SightSet("bob", "ann", None)], 1.0)) == [("e", "cy")]


def test_a_watched_area_counts_what_is_granted_and_nobody_who_was_hidden_just_before() -> None:
    hospital = who(inside=WARD)
    rules = RulesSet(
        (rule(who("staff"), hospital, SEE_ALL), rule(who(), hospital, SEE_NOTHING)),
        {"bob": {"rank": 4}},
    )
    watched = AreaWatched("a", "staff", WARD, parse("rank = 4"))
    engine = engine_with(rules, watched, Moved("bob", FAR), Moved("cy", FAR))
    (into,) = engine.step([Moved("bob", HERE), Moved("cy", HERE)], 1.0).notices
    assert isinstance(into, AreaNotice)
    assert (into.node, into.inside) == ("bob", True)
    assert not engine.rights.may_witness("ann", "bob")
    assert engine.rights.may_witness("staff", "bob")
    (out,) = engine.step([Moved("bob", FAR)], 2.0).notices
    assert isinstance(out, AreaNotice)
    assert (out.node, out.inside) == ("bob", False)
    assert sees(engine, "ann", "bob") == SEE_ALL
    assert not engine.rights.may_witness("ann", "bob")
    assert engine.rights.may_witness("staff", "bob")
    engine.step([], 3.0)
    assert engine.rights.may_witness("ann", "bob")


def test_rights_stand_when_an_engine_begins_where_another_left_off() -> None:
    engine = Engine()
    former = [
        NodeState("bob", HERE, 0.0, attributes={"shy": True}),
        NodeState("ann", attributes={"rank": 9}),
    ]
    rules = RulesSet((rule(who(), who(where="shy"), SEE_NOTHING),))
    inputs = EngineInputs(
        standing=(SightSet("cy", "bob", SEE_POSITION), rules),
        subscriptions=[
            Subscription("s", "ann", "#", parse("publisher.shy")),
            Subscription("t", "ann", "#", parse("me.rank IS NULL")),
        ],
        nodes=former,
        live=[LiveEvent(Event("e", "news", "bob", 0.0, valid_s=9.0), 99.0, ["ann"])],
    )
    engine.resume(9, inputs)
    assert (sees(engine, "ann", "bob"), sees(engine, "cy", "bob")) == (SEE_NOTHING, SEE_POSITION)
    assert sees(engine, "bob", "ann") == sees(engine, "ann", "cy") == SEE_ALL
    (delivery,) = engine.step([event("f", "bob")], 1.0).deliveries
    assert delivery.subscriptions == ("t",)


# What is hidden is unknown


@pytest.mark.parametrize(
    ("where", "needs"),
    [
        ("distance(me, publisher) < 1e6", SEE_POSITION),
        ("distance(me, event) < 1e6", SEE_POSITION),
        ("distance(me, publisher) > 1e6", None),
        ("approaching(publisher) OR NOT approaching(publisher)", SEE_POSITION),
        ("s_intersects(event.position, BBOX(-180, -90, 180, 90))", SEE_POSITION),
        ("publisher.position IS NULL", -SEE_POSITION),
        ("event.position IS NULL", -SEE_POSITION),
        ("friend(publisher)", SEE_ATTRIBUTES),
        ("NOT friend(publisher)", None),
        ("publisher.role = 'x'", SEE_ATTRIBUTES),
        ("publisher.role IS NULL", -SEE_ATTRIBUTES),
        ("publisher.node = 'bob'", SEE_IDENTITY),
        ("publisher.node IS NULL", -SEE_IDENTITY),
        ("count('#', '', 1e6) >= 1", SEE_POSITION),
        ("count('#', 'publisher.role = ''x''') >= 1", SEE_ATTRIBUTES),
        ("count('#', 'publisher.node = ''bob''') >= 1", SEE_IDENTITY),
    ],
)
@pytest.mark.parametrize("mask", range(8))
def test_what_is_hidden_is_unknown_to_kernels_and_reference(
    where: str, needs: int | None, mask: int
) -> None:
    engine = engine_with(
        RulesSet((rule(who("ann"), who("bob"), mask),)),
        Moved("ann", FAR),
        Moved("ann", NEAR),
        Moved("bob", FAR),
        Moved("bob", HERE),
        ContextPatched("bob", {"role": "x", "friends": ["ann"]}),
        wants("ann", where),
    )
    engine.step([event("before", "bob")], 1.0)
    expected = needs is not None and (bool(mask & needs) if needs > 0 else not mask & -needs)
    published = event("e", "bob")
    assert engine.explain(published.event, "ann")[0].passed is expected
    assert got(engine.step([published], 2.0)) == ([("e", "ann")] if expected else [])


def test_a_position_given_with_an_event_is_visible_and_a_borrowed_one_is_not() -> None:
    engine = engine_with(
        RulesSet((HIDDEN,)), Moved("bob", HERE), wants("ann", from_=Circle(HERE, 100.0))
    )
    assert got(engine.step([event("e", "bob")], 1.0)) == []
    assert got(engine.step([event("f", "bob", position=HERE, at_given=True)], 1.0)) == [
        ("f", "ann")
    ]


@pytest.mark.parametrize("mask", range(8))
def test_an_area_round_a_node_takes_the_right_to_its_position_and_name(mask: int) -> None:
    engine = engine_with(
        RulesSet((rule(who("ann"), who("bob"), mask),)),
        Moved("bob", HERE),
        Moved("cy", HERE),
        wants("ann", from_=circle("bob", 100.0)),
        wants("cy"),
    )
    named = SEE_POSITION | SEE_IDENTITY
    seen = mask & named == named
    at = {"position": HERE, "at_given": True}
    assert (("e", "ann") in got(engine.step([event("e", "dee", **at)], 1.0))) is seen
    assert (("f", "cy") in got(engine.step([event("f", "ann", to=circle("bob", 9.0))], 1.0))) is (
        seen
    )
