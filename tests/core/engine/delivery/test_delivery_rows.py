"""What goes out for matches as columns is what plain sorting and searching find."""

import random
from itertools import groupby

import numpy as np
import pytest

from nearcast.core.engine.delivery.deliveries import Rows, merged_copies, sorted_rows
from nearcast.core.engine.delivery.match_order import find_duplicates, order_by_owner
from nearcast.core.matching.matcher import Matches


def drawn(draw: random.Random) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Matches (event, number, priority), those of an event together, and owners by number."""
    owners = [draw.randrange(draw.choice((5, 60, 100_000))) for _ in range(200)]
    events = draw.sample(range(30), draw.randrange(30))
    levels = draw.choice((1, 1, 3, 3, 100))
    matches = [
        (event, number, draw.randrange(levels))
        for event in events
        for number in draw.sample(range(200), draw.choice((1, 3, 20)))
    ]
    return matches, owners


def columns(
    matches: list[tuple[int, int, int]],
) -> Matches:
    event, number, priority = (np.array([m[k] for m in matches], np.int32) for k in range(3))
    return Matches(event, number, priority)


def told(rows: Rows) -> list[tuple[int, int, int, bool]]:
    return list(zip(*(column.tolist() for column in rows[:4]), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_those_of_sorted_matches(seed: int) -> None:
    matches, _ = drawn(random.Random(seed))
    if seed % 5 == 0:
        random.Random(seed).shuffle(matches)
    in_order = sorted(matches, key=lambda match: (match[0], match[2]))
    wanted = [(*match, True) for match in in_order]
    assert told(sorted_rows(columns(matches))) == wanted


@pytest.mark.parametrize("seed", range(60))
def test_a_session_gets_one_copy(seed: int) -> None:
    matches, owners = drawn(random.Random(seed))
    rows = sorted_rows(columns(matches))
    found = merged_copies(rows, np.array(owners, np.int32)[rows.subscription])
    wanted: list[tuple[int, int, int, bool]] = []
    for _, some in groupby(told(rows), key=lambda each: each[0]):
        of_event = list(some)
        by_owner: dict[int, list[tuple[int, int, int, bool]]] = {}
        for each in of_event:
            by_owner.setdefault(owners[each[1]], []).append(each)
        if len(by_owner) == len(of_event):
            wanted += of_event
            continue
        for own in by_owner.values():
            wanted += [(*each[:3], i == 0) for i, each in enumerate(own)]
    assert told(found) == wanted
    crowded = np.zeros(30, np.bool_)
    assert find_duplicates(
        rows.event, np.array(owners, np.int32)[rows.subscription], crowded
    ) == any(crowded)


@pytest.mark.parametrize("seed", range(60))
def test_those_of_a_session_lie_together(seed: int) -> None:
    draw = random.Random(seed)
    most = draw.choice((1, 3, 50, 1 << 31))
    owners = [draw.randrange(most) for _ in range(draw.choice((0, 1, 2, 30, 500)))]
    first = {owner: place for place, owner in reversed(list(enumerate(owners)))}
    wanted = sorted(range(len(owners)), key=lambda place: first[owners[place]])
    order = np.empty(len(owners), np.int64)
    order_by_owner(np.array(owners, np.int32), order)
    assert order.tolist() == wanted


def test_nothing_makes_no_copies() -> None:
    none = np.zeros(0, np.int32)
    rows = merged_copies(sorted_rows(Matches(none, none, none)), none)
    assert [len(column) for column in rows[:4]] == [0] * 4
