"""Priorities follow class, role, task and policies; what was withheld and lives comes later."""

import random

import msgspec
import pytest
from msgspec.structs import replace

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.adaptation.priority_rules import NEVER, priority_of
from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.language import parse
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event, Relevance, Subscription
from nearcast.core.model.inputs import (
    Classified,
    ContextPatched,
    Input,
    PolicySet,
    Published,
    Subscribed,
    Unsubscribed,
)

UNITS = parse("(unit = 'infantry' OR unit = 'armor' OR unit = 'artillery') AND size <= 100")
RESTRICTION = {"rows": [[-1, -1, 1], [-1, 2, 1], [1, 1, 1]]}
BATTERY = {
    "modules": {"battery": {"attribute": "battery", "intervals": [[0, 20], [20, 50], [50, 100]]}}
}


def wants(name: str = "s", node: str = "ann", **details: object) -> Subscribed:
    given = {"where": UNITS, "relevance": Relevance((3, 2, 1, 3)), **details}
    return Subscribed(Subscription(name, node, "#", **given))  # type: ignore[arg-type]


def unit(name: str, kind: str = "artillery", **details: object) -> Published:
    said = {"unit": kind, "size": 30}
    return Published(Event(name, "unit", "bob", 0.0, said, **details))  # type: ignore[arg-type]


def policy(kind: str, name: str, document: object) -> PolicySet:
    return PolicySet(kind, name, msgspec.json.encode(document).decode())


def got(outcome: Outcome) -> list[tuple[str, str, int]]:
    return [(each.event.id, each.owner, each.priority) for each in outcome.deliveries]


def test_the_class_of_a_link_decides_the_priority() -> None:
    engine = Engine()
    engine.step([wants()], 0.0)
    assert got(engine.step([unit("a")], 1.0)) == [("a", "ann", 1)]
    outcome = engine.step([Classified("ann", "network", 1)], 2.0)
    assert list(outcome.reprioritised) == ["ann"]
    assert got(engine.step([unit("b"), unit("c", "armor")], 3.0)) == [
        ("b", "ann", 3),
        ("c", "ann", 2),
    ]
    engine.step([Classified("ann", "network", 2)], 4.0)
    assert got(engine.step([unit("d")], 5.0)) == [("d", "ann", 2)]
    engine.step([Classified("ann", "network", None)], 6.0)
    assert got(engine.step([unit("e")], 7.0)) == [("e", "ann", 1)]


def test_an_attribute_is_classified_when_the_context_changes() -> None:
    engine = Engine()
    engine.step([policy("awareness", "default", BATTERY), wants()], 0.0)
    assert engine.context_class("ann") == 3
    outcome = engine.step([ContextPatched("ann", {"battery": 10})], 1.0)
    assert list(outcome.reprioritised) == ["ann"]
    assert engine.context_class("ann") == 1
    assert got(engine.step([unit("a")], 2.0)) == [("a", "ann", 3)]


def test_what_is_withheld_is_not_delivered_and_comes_when_it_still_lives() -> None:
    engine = Engine()
    engine.step([policy("matrix", "default", RESTRICTION), wants()], 0.0)
    engine.step([Classified("ann", "network", 1)], 1.0)
    once, live = unit("once"), unit("live", valid_s=60.0)
    assert got(engine.step([once, live, unit("high", "infantry")], 2.0)) == [("high", "ann", 1)]
    assert engine.matcher.withheld == 2
    assert got(engine.step([Classified("ann", "network", 3)], 3.0)) == [("live", "ann", 1)]
    assert got(engine.step([Classified("ann", "network", 2)], 4.0)) == []


def test_a_matrix_of_a_role_is_for_that_role_alone() -> None:
    engine = Engine()
    engine.step([policy("matrix", "medic", RESTRICTION), wants(), wants("t", "cy")], 0.0)
    engine.step([Classified(node, "network", 1) for node in ("ann", "cy")], 1.0)
    engine.step([ContextPatched("cy", {"role": "medic"})], 2.0)
    assert got(engine.step([unit("a", "armor")], 3.0)) == [("a", "ann", 2)]
    engine.step([PolicySet("matrix", "medic", None)], 4.0)
    assert sorted(got(engine.step([unit("b", "armor")], 5.0))) == [
        ("b", "ann", 2),
        ("b", "cy", 2),
    ]


def test_vectors_follow_role_and_task() -> None:
    roles = {
        "default": {"role": "scout", "task": "offense"},
        "roles": {
            "scout": {"offense": "levels:3,3,3,3", "defense": "levels:1,1,0,1"},
            "medic": {"offense": "levels:0,0,1,1"},
        },
    }
    engine = Engine()
    template = policy("template", "units", {"where": UNITS.to_text()})
    engine.step([template, policy("roles", "units", roles)], 0.0)
    relevance = Relevance(engine.role_levels("ann", "units"), "units")
    engine.step([wants(relevance=relevance), Classified("ann", "network", 1)], 1.0)
    assert got(engine.step([unit("a")], 2.0)) == [("a", "ann", 1)]
    engine.step([ContextPatched("ann", {"task": "defense"})], 3.0)
    assert got(engine.step([unit("b"), unit("c", "armor")], 4.0)) == [("c", "ann", 3)]
    engine.step([ContextPatched("ann", {"role": "medic", "task": None})], 5.0)
    assert got(engine.step([unit("d"), unit("e", "armor")], 6.0)) == [("d", "ann", 3)]
    outcome = engine.step([ContextPatched("ann", {"role": "cook"})], 7.0)
    assert [name for name, _ in outcome.warnings] == ["s"]
    assert "'scout', 'medic'" in outcome.warnings[0][1]
    assert got(engine.step([unit("f")], 8.0)) == [("f", "ann", 3)]


def test_a_subscription_cannot_have_a_vector_that_does_not_fit() -> None:
    with pytest.raises(ModelError, match=r"'s' has 1 levels; it needs 4"):
        wants(relevance=Relevance((1,)))
    with pytest.raises(ModelError, match="it needs 1"):
        wants(where=None, relevance=Relevance((1, 2)))
    with pytest.raises(ModelError, match="a level of -1"):
        wants(relevance=Relevance((1, 2, -1, 0)))
    with pytest.raises(ModelError, match="has 2 levels; it needs 4"):
        replace(wants().subscription, relevance=Relevance((1, 1)))


def test_a_vector_for_a_later_form_of_the_template_is_not_followed() -> None:
    engine = Engine()
    both = {"roles": {"scout": {"go": "levels:3,1,1,3"}}}
    template = policy("template", "units", {"where": UNITS.to_text()})
    engine.step([template, policy("roles", "units", both)], 0.0)
    engine.step([ContextPatched("ann", {"role": "scout", "task": "go"})], 1.0)
    relevance = Relevance(engine.role_levels("ann", "units"), "units")
    engine.step([wants(relevance=relevance), Classified("ann", "network", 1)], 1.0)
    shorter = [
        PolicySet("roles", "units", None),
        policy("template", "units", {"where": "size <= 100"}),
        policy("roles", "units", {"roles": {"scout": {"go": "levels:1"}}}),
    ]
    outcome = engine.step(shorter, 2.0)
    assert [name for name, _ in outcome.warnings[-1:]] == ["s"]
    assert "has 1 values, and the filter has 4 atoms" in outcome.warnings[-1][1]
    assert got(engine.step([unit("a"), unit("b", "infantry")], 3.0)) == [
        ("a", "ann", 3),
        ("b", "ann", 1),
    ]
    again = Engine()
    again.restore(engine.seq, engine.in_force())
    assert got(again.step([unit("c"), unit("d", "infantry")], 4.0)) == [
        ("c", "ann", 3),
        ("d", "ann", 1),
    ]


def test_a_publisher_lowers_a_priority_and_raises_it_only_by_right() -> None:
    engine = Engine()
    engine.step([wants(), Classified("ann", "network", 2)], 0.0)
    events = [
        unit("low", "infantry", priority=3),
        unit("high", priority=1),
        unit("raised", priority=1, raises=True),
    ]
    assert got(engine.step(events, 1.0)) == [("low", "ann", 3), ("high", "ann", 2),
                                             ("raised", "ann", 1)]  # fmt: skip


def test_without_relevance_all_is_most_urgent() -> None:
    engine = Engine()
    engine.step([wants(), Subscribed(Subscription("p", "ann", "#"))], 0.0)
    engine.step([Classified("ann", "network", 1)], 1.0)
    (sent,) = engine.step([unit("a", priority=3)], 2.0).sent
    ((recipient, place, priority),) = sent.copies()
    assert priority == 1
    assert engine.priority_basis(sent, place, recipient) is None


def test_what_waits_is_prioritised_by_the_truth_of_then_and_the_class_of_now() -> None:
    engine = Engine()
    engine.step([wants()], 0.0)
    (sent,) = engine.step([unit("a", "armor", priority=2)], 1.0).sent
    ((recipient, place, _),) = sent.copies()
    basis = engine.priority_basis(sent, place, recipient)
    assert basis is not None
    assert engine.priorities("ann")(basis) == 2
    engine.step([policy("matrix", "default", RESTRICTION), Classified("ann", "network", 1)], 2.0)
    assert engine.priorities("ann")(basis) == -1
    # A subscription that ended leaves it as it was.
    engine.step([Unsubscribed("s")], 3.0)
    assert engine.priorities("ann")(basis) == -1
    engine.step([Classified("ann", "network", 3)], 4.0)
    assert engine.priorities("ann")(basis) == 2


def test_a_wrong_policy_changes_nothing() -> None:
    engine = Engine()
    engine.step([policy("matrix", "default", RESTRICTION), wants()], 0.0)
    outcome = engine.step([policy("matrix", "default", {"rows": [[1]]})], 1.0)
    assert [refusal.index for refusal in outcome.refusals] == [0]
    engine.step([Classified("ann", "network", 1)], 2.0)
    assert got(engine.step([unit("a")], 3.0)) == []


def some_input(chance: random.Random, number: int) -> Input:
    node = chance.choice("abc")
    kind = chance.randrange(8)
    if kind < 3:
        kind_of_unit = chance.choice(("infantry", "armor", "artillery", "air"))
        valid_s, said = chance.choice((None, 5.0)), chance.choice((None, 2))
        return unit(f"e{number}", kind_of_unit, valid_s=valid_s, priority=said)
    if kind == 3:
        where = chance.choice((UNITS, parse("size > 10 OR unit = 'armor'"), None))
        atoms = len(FormFunction(where).atoms)
        levels = (*(chance.randrange(4) for _ in range(atoms - 1)), chance.randint(1, 3))
        relevance = chance.choice((None, Relevance(levels), Relevance(levels)))
        return wants(f"{node}{chance.randrange(3)}", node, where=where, relevance=relevance)
    if kind == 4:
        return Unsubscribed(f"{node}{chance.randrange(3)}")
    if kind == 5:
        return Classified(node, "network", chance.choice((None, 1, 2, 3)))
    if kind == 6:
        return ContextPatched(node, {"battery": chance.randrange(100),
                                     "role": chance.choice((None, "medic"))})  # fmt: skip
    name = chance.choice(("default", "medic"))
    if chance.random() < 0.3:
        return PolicySet(chance.choice(("matrix", "awareness")), name, None)
    if chance.random() < 0.4:
        return policy("awareness", name, BATTERY)
    other = {"rows": [[3, 3, 1], [2, 2, 2], [1, -1, 1]]}
    return policy("matrix", name, chance.choice((RESTRICTION, other)))


@pytest.mark.parametrize("seed", range(40))
def test_a_restored_engine_decides_the_same(seed: int) -> None:
    chance = random.Random(seed)
    engine, twin = Engine(), Engine()
    for number in range(120):
        value = some_input(chance, number)
        first = engine.step([value], float(number))
        second = twin.step([value], float(number))
        assert sorted(got(first)) == sorted(got(second))
        assert first.reprioritised == second.reprioritised
        for sent in first.sent:
            for recipient, place, priority in sent.copies():
                basis = engine.priority_basis(sent, place, recipient)
                if basis is not None:
                    assert engine.priorities(recipient.owner)(basis) == priority
                    row = engine._state.contexts.row(recipient.owner)
                    best = min(
                        priority_of(each.weighted.form, each.weighted.levels, row, each.truths)
                        for each in basis.judged
                    )
                    assert best != NEVER
                    assert priority == max(best, sent.events[place].priority or 1)
        if chance.random() < 0.1:
            inputs = twin.in_force()
            twin = Engine()
            twin.restore(engine.seq, inputs)
