"""Who has seen what, against a set of pairs."""

from random import Random

import numpy as np
import pytest

from nearcast.core.matching.live.seen_table import PAGE_ROWS, SeenTable

SESSIONS = [f"s{i}" for i in range(40)]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("most_listed", [0, 10, 2_000])
def test_pairs_are_those_that_were_marked_and_not_forgotten(seed: int, most_listed: int) -> None:
    chance = Random(seed)
    table, pairs = SeenTable(most_listed), set[tuple[int, str]]()
    rows = [chance.randrange(5 * PAGE_ROWS) for _ in range(60)]
    for _ in range(150):
        kind = chance.random()
        row, session = chance.choice(rows), chance.choice(SESSIONS)
        some = chance.choices(rows, k=chance.randint(0, 30))
        if kind < 0.3:
            table.mark_for(np.array(some, np.int32), session)
            pairs |= {(each, session) for each in some}
        elif kind < 0.6:
            by = [chance.choice(SESSIONS) for _ in some]
            table.mark(np.array(some, np.int32), by)
            pairs |= set(zip(some, by, strict=True))
        elif kind < 0.65:
            table.unmark(row, session)
            pairs.discard((row, session))
        elif kind < 0.75:
            table.unmark_for(np.unique(np.array(some, np.int32)), session)
            pairs -= {(each, session) for each in some}
        elif kind < 0.9:
            table.forget_event(row)
            pairs = {pair for pair in pairs if pair[0] != row}
        else:
            table.forget_session(session)
            pairs = {pair for pair in pairs if pair[1] != session}
        assert table.sessions(row) == {each for at, each in pairs if at == row}
        assert table.rows(session) == sorted(at for at, each in pairs if each == session)
        numbers = table.numbers([session] * len(rows))
        unseen = table.unseen(np.array(rows, np.int32), numbers).tolist()
        assert unseen == [(at, session) not in pairs for at in rows]
        assert table.has(row, session) == ((row, session) in pairs)
    for row in rows:
        table.forget_event(row)
    assert all(table.number(session) == -1 for session in SESSIONS)
    assert not table.arrays.bits.any()


def test_pages_and_numbers_are_used_again() -> None:
    table = SeenTable()
    for turn in range(2_000):
        table.mark(np.array([turn % 7, 4_000], np.int32), [f"s{turn}", f"s{turn}"])
        table.forget_session(f"s{turn}")
    assert len(table.arrays.bits) < 100
    assert len(table.arrays.page_of) < 100


def test_a_session_that_saw_very_many_events_is_not_listed_with_each() -> None:
    table = SeenTable(most_listed=100)
    table.mark(np.array([3, 5], np.int32), ["ann", "bob"])
    table.mark_for(np.arange(200, dtype=np.int32), "ann")
    assert table.sessions(3) == {"ann"}
    assert table.sessions(5) == {"ann", "bob"}
    assert len(table._seen_by) == 1
    table.forget_session("ann")
    assert table.sessions(5) == {"bob"}
    table.mark_for(np.arange(50, dtype=np.int32), "cy")
    assert len(table._seen_by) == 50
