"""What a filter can come to without some of its values: a table, and a random twin."""

import random

import pytest

from nearcast.core.language import Filter, Value, parse
from nearcast.core.language.evaluation.possible_truth import (
    attribute_names,
    can_hold,
    possible_truths,
)

CANNOT = [
    "gone = 1",
    "gone > other",
    "NOT gone = 1",
    "gone",
    "NOT gone",
    "gone + 1 < 5",
    "gone LIKE 'a%'",
    "CASEI(gone) = 'a'",
    "gone IN (1, 2)",
    "NOT gone IN (1, 2)",
    "gone BETWEEN 1 AND 2",
    "other BETWEEN gone AND 2",
    "other = 1 AND gone = 1",
    "gone IS NOT NULL",
    "NOT (gone IS NULL)",
    "distance(gone_place.position, POINT(1 2)) < 5",
    "s_intersects(gone, POINT(1 2))",
    "t_after(gone, DATE('2020-01-01'))",
    "a_contains(gone, ('x'))",
    "(gone = 1 OR gone = 2) AND other = 1",
]
CAN = [
    "other = 1",
    "gone = 1 OR other = 1",
    "gone IS NULL",
    "NOT other = 1",
    "NOT (other BETWEEN gone AND 2)",
    "NOT (gone = 1 AND other = 1)",
    "other IN (1, gone)",
    "(gone = 1) IS NULL",
]


def is_gone(name: str) -> bool:
    return name.startswith("gone")


@pytest.mark.parametrize("text", CANNOT)
def test_it_cannot_hold(text: str) -> None:
    assert not can_hold(parse(text.replace("gone_place.position", "event.position")).root, _either)


def _either(name: str) -> bool:
    return is_gone(name) or name == "event.position"


@pytest.mark.parametrize("text", CAN)
def test_it_can_hold(text: str) -> None:
    assert can_hold(parse(text).root, is_gone)


def test_without_my_position_what_measures_from_me_is_unknown() -> None:
    def mine(name: str) -> bool:
        return name in ("me", "me.position")

    for text in ("distance(me, event) < 5", "approaching(event)", "count('a', '', 500) > 1"):
        assert not can_hold(parse(text).root, mine)
    assert can_hold(parse("count('a', '') > 1").root, mine)


def test_the_attributes_of_events_are_told_from_contexts() -> None:
    root = parse(
        "a = 1 AND b.c = me.d AND publisher.e = event.subject AND event.attributes.me = 1"
    ).root
    assert attribute_names(root) == {"a", "b.c", "me"}


def test_random_filters_never_come_to_what_they_cannot() -> None:
    chance = random.Random(32)
    names = ("gone1", "gone2", "x", "y")
    values: tuple[Value, ...] = (0, 1, 2, True, False, "a", None)

    def atom() -> str:
        first, second = chance.choice(names), chance.choice((*names, "0", "1", "'a'"))
        forms = (
            f"{first} = {second}", f"{first} <= {second}", f"{first} IS NULL", first,
            f"{first} IN (1, {second})", f"{first} BETWEEN {second} AND 2", f"{first} + 1 = 2",
        )  # fmt: skip
        return chance.choice(forms)

    def condition(depth: int) -> str:
        if not depth or chance.random() < 0.3:
            return f"({atom()})"
        if chance.random() < 0.3:
            return f"(NOT {condition(depth - 1)})"
        word = chance.choice((" AND ", " OR "))
        return f"({word.join(condition(depth - 1) for _ in range(chance.randint(2, 3)))})"

    for _ in range(500):
        found: Filter = parse(condition(3))
        possible = possible_truths(found.root, is_gone)
        for _ in range(10):
            known = {name: chance.choice(values) for name in names if not is_gone(name)}
            assert found.evaluate(known) in possible, found.to_text()
