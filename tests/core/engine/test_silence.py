"""Silent nodes: their position does not age, and relationships wait until reports are settled."""

from nearcast.core.engine.engine import Engine, EngineSettings, Outcome
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Input,
    Left,
    Moved,
    Presence,
    RelationshipDefined,
    RelationshipSettled,
    RelationshipSilenced,
    Restarted,
    SilenceTold,
)

HERE, NEAR_BY, FAR = Position(53.0, 0.0), Position(53.0005, 0.0), Position(53.1, 0.0)
PAIR = RelationshipDefined("pair", "a", ("a", "b"), 2, within=100.0)


def engine() -> Engine:
    return Engine(EngineSettings(position_ttl_s=60.0))


def told(outcome: Outcome) -> list[bool]:
    return [each.near for each in outcome.notices if isinstance(each, RelationshipNotice)]


def test_a_silent_node_with_a_connection_has_a_position_that_does_not_age() -> None:
    one = engine()
    one.step([Presence("a", True), SilenceTold("a", True), Moved("a", HERE)], 0.0)
    one.step([Moved("b", HERE)], 0.0)
    one.step([], 1_000.0)
    assert one.position("a") == HERE
    assert one.position("b") is None


def test_its_position_ages_from_the_end_of_its_silence() -> None:
    for end in (SilenceTold("a", False), Presence("a", False), Left("a")):
        one = engine()
        one.step([Presence("a", True), SilenceTold("a", True), Moved("a", HERE)], 0.0)
        one.step([end], 1_000.0)
        one.step([], 1_059.0)
        assert one.position("a") == HERE
        one.step([], 1_061.0)
        assert one.position("a") is None


def test_of_two_silent_parts_the_last_one_ends_the_silence() -> None:
    one = engine()
    one.step([SilenceTold("a", True), SilenceTold("a", True, "a~2"), Moved("a", HERE)], 0.0)
    one.step([Presence("a", False)], 10.0)
    one.step([], 1_000.0)
    assert one.position("a") == HERE
    one.step([Left("a", "a~2")], 1_001.0)
    one.step([], 1_100.0)
    assert one.position("a") is None


def test_a_silent_relationship_is_judged_when_it_is_settled() -> None:
    one = engine()
    one.step([Moved("a", HERE), Moved("b", FAR), PAIR, RelationshipSilenced("pair", True)], 0.0)
    assert told(one.step([Moved("b", NEAR_BY)], 1.0)) == []
    # A reader takes the values of now, which is no judgement.
    assert one.relationship("pair").states[0].near is False
    assert told(one.step([RelationshipSettled("pair")], 2.0)) == [True]
    assert told(one.step([RelationshipSettled("pair")], 3.0)) == []
    assert told(one.step([Moved("b", FAR)], 4.0)) == []
    assert told(one.step([RelationshipSilenced("pair", False)], 5.0)) == [False]
    assert told(one.step([Moved("b", NEAR_BY)], 6.0)) == [True]


def test_a_member_that_is_nowhere_is_noticed_at_once() -> None:
    one = engine()
    inputs: list[Input] = [
        Moved("a", HERE),
        Moved("b", NEAR_BY),
        PAIR,
        RelationshipSilenced("pair", True),
    ]
    assert told(one.step(inputs, 0.0)) == [True]
    assert told(one.step([Moved("b", None)], 1.0)) == [False]


def test_what_does_not_exist_is_neither_silenced_nor_settled() -> None:
    one = engine()
    inputs: list[Input] = [
        RelationshipSettled("pair"),
        RelationshipSilenced("pair", True),
        RelationshipSettled("pair"),
        RelationshipSilenced("pair", False),
        SilenceTold("a", False),
    ]
    outcome = one.step(inputs, 0.0)
    assert not outcome.notices
    assert not outcome.refusals


def test_an_engine_restored_from_what_is_in_force_goes_on_alike() -> None:
    one = engine()
    one.step(
        [
            Presence("a", True), SilenceTold("a", True), Moved("a", HERE), Moved("b", FAR), PAIR,
            RelationshipSilenced("pair", True), Moved("b", NEAR_BY),
        ],
        0.0,
    )  # fmt: skip
    other = engine()
    other.restore(one.seq, one.in_force())
    for each in (one, other):
        assert told(each.step([RelationshipSettled("pair")], 50.0)) == [True]
        # The other one has no fix that does not age.
        assert told(each.step([], 1_000.0)) == [False]
        assert each.position("a") == HERE


def test_nobody_is_silent_after_a_restart() -> None:
    one = engine()
    one.step([SilenceTold("a", True), Moved("a", HERE), Moved("b", FAR), PAIR], 0.0)
    one.step([RelationshipSilenced("pair", True), Restarted(("a",), 60.0)], 1.0)
    assert told(one.step([Moved("b", NEAR_BY)], 2.0)) == [True]
    one.step([], 100.0)
    assert one.position("a") is None


def test_a_restart_counts_as_the_end_of_a_silence() -> None:
    one, other = engine(), engine()
    one.step([SilenceTold("a", True), Moved("a", HERE)], 0.0)
    # As a broker starts again, and as its log is played.
    other.restore(one.seq, one.in_force())
    other.restarted(("a",), 1_000.0)
    one.step([Restarted(("a",), 60.0)], 1_000.0)
    for each in (one, other):
        each.step([], 1_059.0)
        assert each.position("a") == HERE
        each.step([], 1_061.0)
        assert each.position("a") is None


def test_who_parts_because_a_report_grew_old_parted_then_whenever_the_host_looks() -> None:
    for looks in ([70.0], [60.0, 70.0], [61.5]):
        one = engine()
        one.step([PAIR, Moved("a", HERE)], 0.0)
        one.step([Moved("b", NEAR_BY)], 30.0)
        found = [notice for now in looks for notice in one.step([], now).notices]
        assert [
            (each.near, each.time) for each in found if isinstance(each, RelationshipNotice)
        ] == [(False, 60.0)]
