"""Whatever happens, relationships are decided as the plain reference decides them."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.core.engine.engine import Engine, EngineSettings, Outcome
from nearcast.core.engine.outcome import Notice, RelationshipNotice
from nearcast.core.language import parse
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    ContextPatched,
    Forgot,
    Input,
    Moved,
    NodeExpired,
    RelationshipDefined,
    RelationshipEnded,
    SightSet,
)
from nearcast.core.model.relationship_state import RelationshipState
from nearcast.pipeline.decide.player import Player
from nearcast.store import record_row
from tests.core.engine.plain_relationships import Change, PlainRelationships

NODES = ("a", "b", "c", "d", "e", "f")
TTL_S = 30.0
WHERE = (None, None, None, parse("role = 'driver'"), parse("NOT role = 'driver'"))
SIZES = (0.0, 1.0, 2.0, 60.0, 130.0, 250.0)
nodes = st.sampled_from(NODES)
sizes = st.sampled_from(SIZES)
positions = st.builds(
    lambda north, east: Position(53.35 + north * 0.0005, -6.26 + east * 0.0008),
    st.integers(0, 4), st.integers(0, 2),
)  # fmt: skip


@st.composite
def definitions(draw: st.DrawFn) -> RelationshipDefined:
    members = tuple(draw(st.lists(nodes, min_size=2, max_size=6, unique=True)))
    kind = draw(st.sampled_from(("within", "within", "beyond", "metres")))
    size = draw(sizes)
    return RelationshipDefined(
        draw(st.sampled_from(("r", "s", "t"))), draw(nodes), members,
        draw(st.integers(2, len(members))),
        size if kind == "within" else None,
        size if kind == "beyond" else None,
        tuple(draw(sizes) for _ in members) if kind == "metres" else (),
        draw(st.sampled_from((None, None, "tank.level", "x"))), draw(st.sampled_from(WHERE)),
    )  # fmt: skip


values = st.sampled_from((0, 1, 1.5, 3, 60, True, "1", 1e300, -1e300))
patches = st.fixed_dictionaries(
    {},
    optional={
        "x": values,
        "tank": st.fixed_dictionaries({}, optional={"level": values}),
        "role": st.sampled_from(("driver", "cook")),
    },
)
inputs: st.SearchStrategy[Input] = st.one_of(
    definitions(),
    definitions(),
    st.builds(Moved, nodes, positions),
    st.builds(Moved, nodes, positions),
    st.builds(Moved, nodes, positions),
    st.builds(Moved, nodes, st.none()),
    st.builds(ContextPatched, nodes, patches),
    st.builds(SightSet, nodes, nodes, st.none() | st.integers(0, 7)),
    st.builds(Forgot, nodes),
    st.builds(NodeExpired, nodes),
    st.builds(RelationshipEnded, st.sampled_from(("r", "s", "t"))),
)
ticks = st.lists(
    st.tuples(st.sampled_from((0.5, 10.0, 25.0, 31.0)), st.lists(inputs, min_size=1, max_size=8)),
    max_size=8,
)


def changes(outcome: Outcome) -> list[Change]:
    return [
        (each.relationship, each.by, each.near, each.distance)
        for each in outcome.notices
        if isinstance(each, RelationshipNotice) and not each.is_old and not each.ended
    ]


def states(engine: Engine) -> dict[tuple[str, str], bool]:
    return {
        (each.name, by): state.near
        for each in engine.relationships
        for by, state in zip(each.members if each.metres else ("",), each.states, strict=True)
    }


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(ticks)
def test_relationships_are_decided_as_the_plain_reference_decides_them(
    happened: list[tuple[float, list[Input]]],
) -> None:
    engine = Engine(EngineSettings(position_ttl_s=TTL_S))
    plain, now = PlainRelationships(TTL_S), 0.0
    for pause, tick in happened:
        now += pause
        outcome = engine.step(tick, now)
        assert not outcome.refusals
        assert changes(outcome) == [change for each in tick for change in plain.apply(each, now)]
        assert states(engine) == plain.states
        # What goes on from here decides alike.
        seq, in_force = engine.seq, engine.in_force()
        engine = Engine(EngineSettings(position_ttl_s=TTL_S))
        engine.restore(seq, in_force)
        assert list(engine.relationships) == [
            each for each in in_force.standing if isinstance(each, RelationshipDefined)
        ]


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((1.0, 5.0, 40.0, 400.0)))
def test_members_that_go_small_steps_are_compared_in_time(seed: int, step_m: float) -> None:
    draw = random.Random(seed)
    engine, plain = Engine(), PlainRelationships(600.0)
    at = {node: [draw.uniform(0, 300), draw.uniform(0, 300)] for node in NODES}
    made: list[Input] = []
    for number in range(8):
        members, size = tuple(draw.sample(NODES, 2)), draw.choice((50.0, 100.0, 500.0))
        kind = draw.randrange(3)
        made.append(
            RelationshipDefined(
                f"r{number}", "a", members, 2, size if kind == 0 else None,
                size if kind == 1 else None, (size, size / 2) if kind == 2 else (),
            )
        )  # fmt: skip
    now = 0.0
    for tick in range(60):
        now += 1.0
        inputs, made = made, []
        for node in draw.sample(NODES, draw.randrange(1, 5)):
            place = at[node]
            place[0] += draw.uniform(-step_m, step_m)
            place[1] += draw.uniform(-step_m, step_m)
            here = Position(53.35 + place[0] / 111_200, -6.26 + place[1] / 66_500)
            gone = draw.random() < 0.02
            inputs.append(Moved(node, None if gone else here))
        assert changes(engine.step(inputs, now)) == [
            change for each in inputs for change in plain.apply(each, now)
        ], tick
        assert states(engine) == plain.states


@given(ticks)
def test_inputs_of_one_tick_are_decided_one_after_the_other(
    happened: list[tuple[float, list[Input]]],
) -> None:
    together, alone, now = Engine(), Engine(), 0.0
    for pause, tick in happened:
        now += pause
        one = together.step(tick, now).notices
        assert one == [each for value in tick for each in alone.step([value], now).notices]


@settings(deadline=None)
@given(ticks, st.integers(0, 100))
def test_a_player_gives_the_same_notices(
    happened: list[tuple[float, list[Input]]], percent: int
) -> None:
    engine, now = Engine(EngineSettings(position_ttl_s=TTL_S)), 0.0
    begun = engine.restarted((), now)
    assert begun is not None
    notices: list[tuple[int, Notice]] = []
    rows = [record_row(begun, "broker")]
    for pause, tick in happened:
        now += pause
        for value in tick:
            outcome = engine.step([value], now)
            notices += [(len(rows), each) for each in outcome.notices]
            rows += [record_row(record, "broker") for record in outcome.records]
    cut = len(rows) * percent // 100
    player = Player("broker")
    player.apply(rows[:cut])
    found = [each for part in player.decide(rows[cut:]) for each in part.notices]
    assert found == [each for row, each in notices if row >= cut]


def test_near_and_apart_alternate_within_a_tick() -> None:
    engine, at = Engine(), Position(53.35, -6.26)
    engine.step([RelationshipDefined("r", "a", ("a", "b"), 2, 100.0), Moved("a", at)], 1.0)
    away = Position(53.36, -6.26)
    outcome = engine.step([Moved("b", at), Moved("b", away), Moved("b", at)], 2.0)
    assert [near for _, _, near, _ in changes(outcome)] == [True, False, True]
    assert engine.relationships.relationship("r").states == [RelationshipState(True, 2.0)]
