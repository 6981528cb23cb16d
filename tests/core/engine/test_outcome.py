"""What an outcome says of changes: which input made each."""

from nearcast.core.engine.engine import Engine, EngineInputs, EngineSettings
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import ContextPatched, Forgot, Input, Moved

HERE, THERE = Position(53.35, -6.26), Position(53.36, -6.26)


def test_a_change_names_the_input_that_made_it() -> None:
    engine = Engine()
    inputs: list[Input] = [
        Moved("a", HERE),
        Moved("b", HERE),
        ContextPatched("b", {"role": "nurse"}),
        Moved("b", THERE),
        Forgot("a"),
    ]
    outcome = engine.play(inputs, [0.0, 1.0, 2.0, 3.0, 4.0])
    made_by = [(each.index, each.node, each.state is None) for each in outcome.node_changes]
    assert made_by == [
        (0, "a", False), (1, "b", False), (2, "b", False), (3, "b", False), (4, "a", True),
    ]  # fmt: skip


def test_what_time_changes_is_noticed_before_an_input() -> None:
    engine = Engine(EngineSettings(position_ttl_s=10.0))
    inputs = [Moved("a", HERE), Moved("b", HERE), Moved("c", HERE)]
    outcome = engine.play(inputs, [0.0, 1.0, 10.5])
    assert [(each.index, each.node) for each in outcome.node_changes] == [
        (0, "a"), (1, "b"), (2, "a"), (2, "c"),
    ]  # fmt: skip
    expired = outcome.node_changes[2]
    assert expired.before.position == HERE
    assert engine.position("a") is None
    assert outcome.timer == 11.0


def test_positions_from_before_grow_old_in_the_order_of_their_fixes() -> None:
    first = Engine(EngineSettings(position_ttl_s=10.0))
    first.play([Moved("late", HERE), Moved("early", HERE), Moved("late", THERE)], [0.0, 1.0, 5.0])
    engine = Engine(EngineSettings(position_ttl_s=10.0))
    engine.resume(first.seq, EngineInputs(nodes=list(first.nodes.values())))
    assert engine.next_timer() == 11.0
    assert [each.node for each in engine.step([], 12.0).node_changes] == ["early"]
    assert engine.next_timer() == 15.0
    assert [each.node for each in engine.step([], 15.0).node_changes] == ["late"]
