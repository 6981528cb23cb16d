"""Policies in an engine: in force until replaced, and after restarts and from snapshots."""

import pytest

from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.priority_matrix import delay_matrix, restriction_matrix
from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.model.inputs import Input, PolicySet, Restarted

TWO = PolicySet("template", "t", '{"where": "a = 1 OR b = 2"}')
THREE = PolicySet("template", "t", '{"where": "a = 1 OR b = 2 OR c = 3"}')
ROLES = PolicySet("roles", "t", '{"roles": {"medic": {"rest": [1, 0.5]}}}')
RESTRICTION = PolicySet("matrix", "medic", '{"rows": [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]]}')
BATTERY = PolicySet(
    "awareness",
    "default",
    '{"modules": {"battery": {"attribute": "battery", '
    '"intervals": [[null, 20], [20, 50], [50, null]]}}}',
)


def engine_with(*inputs: Input) -> Engine:
    engine = Engine()
    assert engine.step(inputs, 0.0).refusals == []
    return engine


def refusals(engine: Engine, *inputs: Input) -> list[str]:
    return [each.reason for each in engine.step(inputs, 1.0).refusals]


def test_policies_of_a_role_come_before_the_default_ones() -> None:
    policies = engine_with(RESTRICTION, BATTERY).policies
    assert policies.matrix_for("medic") == restriction_matrix(3)
    assert policies.matrix_for("cook") == policies.matrix_for(None) == delay_matrix(3)
    assert policies.awareness_for("medic").attributes == {"battery"}
    assert [module.name for module in Engine().policies.awareness_for(None).modules] == ["network"]


def test_a_wrong_policy_leaves_the_one_before() -> None:
    engine = engine_with(TWO, RESTRICTION)
    wrong = PolicySet("matrix", "medic", '{"rows": [[1]]}')
    (said,) = refusals(engine, wrong)
    assert "A matrix has 3 rows" in said
    assert engine.policies.matrix_for("medic") == restriction_matrix(3)
    assert engine.policies.document("matrix", "medic") == RESTRICTION.document


def test_a_removed_policy_is_gone() -> None:
    engine = engine_with(TWO, RESTRICTION, PolicySet("matrix", "medic", None))
    assert engine.policies.matrix_for("medic") == delay_matrix(3)
    assert list(engine.policies) == [TWO]
    assert refusals(engine, PolicySet("matrix", "never", None)) == []


def test_roles_fit_their_template_whichever_changes() -> None:
    engine = engine_with(TWO, ROLES)
    (said,) = refusals(engine, THREE)
    assert "roles/t does not fit template/t: role 'medic', task 'rest'" in said
    wrong = PolicySet("roles", "t", '{"roles": {"medic": {"rest": [1]}}}')
    (said,) = refusals(engine, wrong)
    assert "1 values" in said
    assert "2 atoms" in said
    assert len(engine.policies.roles("t").vector("medic", "rest")) == 2


def test_roles_may_come_before_their_template() -> None:
    engine = engine_with(ROLES)
    assert len(refusals(engine, THREE)) == 1
    assert refusals(engine, TWO) == []


def test_a_template_may_be_removed_from_under_its_roles() -> None:
    engine = engine_with(TWO, ROLES, PolicySet("template", "t", None))
    with pytest.raises(AdaptationError, match="no template/t: no template is set"):
        engine.policies.template("t")
    assert engine.policies.roles("t").vector("medic", "rest") == (3, 2)


def test_who_asks_for_an_unknown_template_hears_of_those_there_are() -> None:
    policies = engine_with(TWO, PolicySet("template", "flat", '{"where": "a = 1"}')).policies
    with pytest.raises(AdaptationError, match=r"no template/flatt; there are flat, t; did you"):
        policies.template("flatt")
    with pytest.raises(AdaptationError, match="no roles/t"):
        policies.roles("t")


def test_policies_are_in_force_after_a_restart_and_from_a_snapshot() -> None:
    every = [TWO, ROLES, BATTERY, RESTRICTION]
    engine = engine_with(*every)
    restored = Engine()
    restored.restore(engine.seq, engine.in_force())
    engine.step([Restarted(())], 5.0)
    for each in (engine, restored):
        assert list(each.policies) == every
        assert each.policies.matrix_for("medic") == restriction_matrix(3)
        assert each.policies.roles("t").vector("medic", "rest") == (3, 2)


def test_after_a_restart_with_other_levels_what_does_not_fit_has_no_effect() -> None:
    engine = engine_with(TWO, ROLES, RESTRICTION)
    engine.step([Restarted((), levels=5)], 5.0)
    assert engine.policies.levels == 5
    assert engine.policies.matrix_for("medic") == delay_matrix(5)
    assert "A matrix has 5 rows" in engine.policies.unfit["matrix", "medic"]
    assert engine.policies.roles("t").vector("medic", "rest") == (5, 3)
    engine.step([Restarted(())], 6.0)
    assert engine.policies.matrix_for("medic") == restriction_matrix(3)
    assert engine.policies.unfit == {}


def test_what_is_in_force_follows_from_documents_and_levels_alone() -> None:
    """Roles by levels have no effect at two levels; their template changes meanwhile."""
    by_levels = PolicySet("roles", "t", '{"roles": {"medic": {"rest": "levels:3,1"}}}')
    engine = engine_with(TWO, by_levels)
    engine.step([Restarted((), levels=2), THREE, Restarted(())], 5.0)
    assert "does not fit" in engine.policies.unfit["roles", "t"]
    told: list[tuple[str, str]] = []
    engine.policies.changed.append(lambda *key: told.append(key))
    engine.step([TWO], 6.0)
    assert engine.policies.roles("t").vector("medic", "rest") == (3, 1)
    assert told == [("template", "t"), ("roles", "t")]


def test_the_levels_are_recorded_when_a_broker_starts() -> None:
    record = Engine(EngineSettings(levels=5)).restarted((), 0.0)
    assert record is not None
    assert isinstance(record.input, Restarted)
    assert record.input.levels == 5
    assert EngineSettings().after(record.input).levels == 5
