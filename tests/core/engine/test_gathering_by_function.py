"""Needs that functions say: an input like any other, on which decisions depend."""

import json

import pytest

from nearcast.core.engine.engine import Engine
from nearcast.core.gathering.needs.aggregability import parse_aggregability
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    NeedTold,
    Published,
    Restarted,
    Subscribed,
    TimePassed,
)

FUNCTION = {"function": "def aggregability(me, other): return 'volume 3'", "else": "volume 2"}


def wanted(node: str = "w", qos: int = 1) -> Subscribed:
    return Subscribed(Subscription(f"{node}\0s", node, "s", qos=qos, aggregate=FUNCTION))


def said(number: int) -> Published:
    return Published(Event(f"e{number}", "s", "p", 1.0, payload=b'{"n": 1}', qos=1))


def told(number: int, need: str = "volume 3", node: str = "w") -> NeedTold:
    return NeedTold(node, f"{node}\0s", "p", f"e{number}", need)


def counts(engine: Engine, *inputs: Input | TimePassed, now: float = 1.0) -> list[int]:
    found = engine.play(inputs, [now] * len(inputs), now)
    assert not found.refusals
    return [each.event.gathered or 1 for each in found.deliveries]


def test_an_event_waits_until_its_function_has_spoken() -> None:
    engine = Engine()
    engine.step([wanted()], 0.0)
    outcome = engine.step([said(1)], 1.0)
    (question,) = outcome.need_questions
    assert (question.subscription, question.event.id) == ("w\0s", "e1")
    assert not outcome.deliveries
    assert counts(engine, told(1, "volume 1")) == [1]


def test_what_was_not_spoken_of_does_not_count_yet() -> None:
    engine = Engine()
    assert counts(engine, wanted(), said(1), told(1), said(2), told(2), said(3)) == []
    assert counts(engine, told(3)) == [3]


def test_where_the_function_fails_the_need_beside_else_applies() -> None:
    engine = Engine()
    assert counts(engine, wanted(), said(1), said(2), told(1, "")) == []
    assert counts(engine, told(2, "")) == [2]


def test_what_is_never_spoken_of_leaves_after_the_longest_wait() -> None:
    engine = Engine()
    engine.step([wanted(), said(1)], 0.0)
    assert counts(engine, now=3600.0) == [1]


def test_a_change_of_context_asks_again() -> None:
    engine = Engine()
    engine.step([wanted(), said(1), told(1)], 0.0)
    outcome = engine.step([ContextPatched("p", {"mood": "urgent"})], 1.0)
    assert [each.event.id for each in outcome.need_questions] == ["e1"]
    assert counts(engine, told(1, "volume 1")) == [1]


def test_each_subscriber_hears_what_its_own_function_said() -> None:
    engine = Engine()
    inputs = (wanted("v"), wanted("w"), said(1), told(1), told(1, "volume 2", "v"), said(2))
    assert counts(engine, *inputs, told(2)) == []
    outcome = engine.step([told(2, "volume 2", "v")], 1.0)
    assert [(each.node, each.event.gathered) for each in outcome.deliveries] == [("v", 2)]
    assert counts(engine, said(3), told(3)) == [3]


def test_an_engine_restored_knows_what_was_said() -> None:
    engine = Engine()
    engine.step([wanted(), said(1), told(1), said(2), told(2)], 1.0)
    other = Engine()
    other.restore(engine.seq, engine.in_force())
    assert not other.unanswered_needs()
    assert counts(other, said(3), told(3)) == [3]


def test_after_a_restart_everything_is_asked_again() -> None:
    engine = Engine()
    engine.step([wanted(), said(1), told(1), Restarted(("w",))], 1.0)
    assert [each.event.id for each in engine.unanswered_needs()] == ["e1"]
    assert counts(engine, told(1, "volume 1")) == [1]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"function": 5}, "Starlark that defines aggregability"),
        ({"function": "def other(): pass"}, "Starlark that defines aggregability"),
        (FUNCTION | {"case": []}, "beside function"),
        (FUNCTION | {"else": 5}, "is a need such as"),
        (FUNCTION | {"else": "volum 5"}, "did you mean volume"),
    ],
)
def test_a_wrong_form_is_refused(given: object, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        parse_aggregability(json.dumps(given))


def test_clauses_stand_beside_the_function() -> None:
    found = parse_aggregability(FUNCTION | {"per": "cell 500", "wait": 60})
    assert (found.per.kind, found.wait_s) == ("cell", 60.0)
    assert not found.is_immediate
