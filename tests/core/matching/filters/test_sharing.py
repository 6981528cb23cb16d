"""What is the same is kept and evaluated once, and nothing is left behind."""

import numpy as np
import pytest

from nearcast.core.language import Filter, parse
from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.reference import EventScope
from nearcast.core.model import Circle, Event, Position, Subscription, circle
from nearcast.core.model.event import Relevance
from nearcast.core.model.event_batch import EventBatch

HERE = Position(10.0, 10.0)


def event(**attributes: object) -> EventBatch:
    return EventBatch.of([Event("e", "a", "p", 0.0, attributes, HERE, True)])  # type: ignore[arg-type]


def test_equal_filters_are_one_rule_and_equal_predicates_one_atom() -> None:
    matcher = Matcher()
    for i in range(50):
        matcher.add(Subscription("", f"n{i}", "a", parse("speed > 5 AND kind = 'bus'")))
    matcher.add(Subscription("", "n", "a", parse("kind = 'bus' OR speed > 5")))
    statistics = matcher.statistics()
    assert (statistics["rules"], statistics["atoms"]) == (2, 3)
    assert len(matcher.match(event(speed=6, kind="bus")).event) == 51


def test_a_predicate_that_kernels_do_not_know_is_evaluated_once_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = Matcher()
    for i in range(40):
        matcher.add(Subscription("", f"n{i}", "a", parse(f"name LIKE '%x%' AND level > {i}")))
    asked: list[str] = []
    evaluate = Filter.evaluate_in

    def counted(self: Filter, scope: EventScope) -> bool | None:
        asked.append(self.to_text())
        return evaluate(self, scope)

    monkeypatch.setattr(Filter, "evaluate_in", counted)
    assert len(matcher.match(event(name="axb", level=100)).event) == 40
    assert len([text for text in asked if "LIKE" in text]) == 1


def test_priorities_of_subscribers_with_the_same_levels_are_decided_together() -> None:
    matcher = Matcher()
    where = parse("level > 8 OR level > 4 OR TRUE")
    wanted = [
        Subscription("", f"n{i}", "a", where, relevance=Relevance((3, 2, 1))) for i in range(9)
    ]
    numbers = matcher.add_many(wanted).tolist()
    matcher.priorities.set_row(numbers, (3, 2, 1))
    assert matcher.statistics()["rules"] == 1
    matches = matcher.match(event(level=5))
    assert sorted(matches.subscription.tolist()) == numbers
    assert set(matches.priority.tolist()) == {2}
    assert matcher.priorities.rules.evaluated == 1


def test_a_stream_of_subscriptions_leaves_no_garbage_behind() -> None:
    matcher = Matcher()
    rng = np.random.default_rng(3)

    def wave(first: int) -> np.ndarray:
        return matcher.add_many(
            [
                Subscription(
                    "", f"n{i}", f"s/{i % 50}/#",
                    parse(f"attribute{i % 300} = 'value {i}' AND me.role = 'r{i % 7}'"),
                    circle("me", 100.0 + i % 900) if i % 2 else Circle(HERE, float(i % 5000)),
                )
                for i in range(first, first + 2000)
            ]
        )  # fmt: skip

    old = wave(0)
    for i in range(2000):
        matcher.move(f"n{i}", Position(float(rng.uniform(-80, 80)), float(rng.uniform(-180, 180))))
    size = 0
    for turn in range(1, 8):
        new = wave(2000 * turn)
        matcher.remove_many(old)
        old = new
        if turn == 2:
            size = matcher.nbytes
    assert matcher.nbytes <= 1.5 * size
    matcher.remove_many(old)
    for i in range(2000):
        matcher.forget(f"n{i}")
    statistics = matcher.statistics()
    del statistics["bytes"]
    assert statistics.pop("atoms") == 1
    assert set(statistics.values()) == {0}
    vocabulary = matcher._index.vocabulary
    assert (len(vocabulary.strings), len(vocabulary.slots), len(vocabulary.paths)) == (0, 0, 0)
