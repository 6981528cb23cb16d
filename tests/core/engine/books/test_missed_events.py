"""What a session missed, against a list in the order of versions."""

from random import Random

import numpy as np
import pytest

from nearcast.core.engine.books.missed_events import MissedEvents
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import Event


@pytest.mark.parametrize("seed", range(20))
def test_the_oldest_are_taken_first_whatever_comes_and_goes(seed: int) -> None:
    chance, live = Random(seed), Matcher().live
    missed, expected = MissedEvents(live), set[int]()
    for turn in range(200):
        key = f"k{chance.randrange(40)}"
        row = live.row(key)
        if row is not None:
            missed.discard(row)
            expected.discard(row)
        live.put(key, Event(f"e{turn}", "s", "p", 0.0, retain=True))
        row = live.row(key)
        assert row is not None
        kind = chance.random()
        if kind < 0.4:
            missed.add(row)
            expected.add(row)
        elif kind < 0.5:
            some = chance.sample(sorted(live._rows.values()), chance.randint(1, len(live)))
            missed.add_in_order(live.in_order(np.array(some, np.int32)))
            expected |= set(some)
        in_order = sorted(expected, key=live.columns.version.__getitem__)
        assert missed.in_order().tolist() == in_order
        assert (row in missed, len(missed)) == (row in expected, len(expected))
        if kind > 0.8:
            taken = missed.take_oldest(chance.randint(1, 10)).tolist()
            assert taken == in_order[: len(taken)]
            expected -= set(taken)
        elif kind > 0.7:
            some = chance.choices(range(50), k=5)
            taken = missed.take(np.unique(np.array(some, np.int32))).tolist()
            assert taken == sorted(expected & set(some))
            expected -= set(taken)
    assert missed.take_oldest(1_000).tolist() == sorted(
        expected, key=live.columns.version.__getitem__
    )
