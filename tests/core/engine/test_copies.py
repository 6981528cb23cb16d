"""What goes out for matches as columns is what plain sorting and searching find."""

import random
from itertools import groupby

import numpy as np
import pytest

from nearcast.core.engine.copies import Draft, drafted, find_duplicates, gathered, order_by_owner


def drawn(draw: random.Random) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Matches (event, number, priority), those of an event together, and owners by number."""
    owners = [draw.randrange(draw.choice((5, 60, 100_000))) for _ in range(200)]
    events = draw.sample(range(30), draw.randrange(30))
    levels = draw.choice((1, 1, 3))
    matches = [
        (event, number, draw.randrange(levels))
        for event in events
        for number in draw.sample(range(200), draw.choice((1, 3, 20)))
    ]
    return matches, owners


def columns(
    matches: list[tuple[int, int, int]],
) -> list[np.ndarray[tuple[int], np.dtype[np.int32]]]:
    return [np.array([match[k] for match in matches], np.int32) for k in range(3)]


def told(draft: Draft) -> list[tuple[int, int, int, bool, bool]]:
    return list(zip(*(column.tolist() for column in draft), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_rows_are_those_of_sorted_matches(seed: int) -> None:
    matches, _ = drawn(random.Random(seed))
    if seed % 5 == 0:
        random.Random(seed).shuffle(matches)
    wanted = []
    in_order = sorted(matches, key=lambda match: (match[0], match[2]))
    for _, row in groupby(in_order, key=lambda match: (match[0], match[2])):
        wanted += [(*match, True, i == 0) for i, match in enumerate(row)]
    assert told(drafted(*columns(matches))) == wanted


@pytest.mark.parametrize("seed", range(60))
def test_a_session_gets_one_copy(seed: int) -> None:
    matches, owners = drawn(random.Random(seed))
    draft = drafted(*columns(matches))
    found = gathered(draft, np.array(owners, np.int32)[draft.number])
    wanted: list[tuple[int, int, int, bool, bool]] = []
    for _, some in groupby(told(draft), key=lambda each: each[0]):
        of_event = list(some)
        by_owner: dict[int, list[tuple[int, int, int, bool, bool]]] = {}
        for each in of_event:
            by_owner.setdefault(owners[each[1]], []).append(each)
        if len(by_owner) == len(of_event):
            wanted += of_event
            continue
        for wishes in by_owner.values():
            wanted += [(*each[:3], i == 0, i == 0) for i, each in enumerate(wishes)]
    assert told(found) == wanted
    crowded = np.zeros(30, np.bool_)
    assert find_duplicates(draft.event, np.array(owners, np.int32)[draft.number], crowded) == any(
        crowded
    )


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
    draft = gathered(drafted(none, none, none), none)
    assert [len(column) for column in draft] == [0] * 5
    assert [column.tolist() for column in draft.copies()] == [[], [], [0], [0], []]
