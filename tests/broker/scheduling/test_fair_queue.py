"""Shares of one queue, against a plain search for the least served."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from nearcast.broker.scheduling.fair_queue import FairQueue, Share


def served_in(queue: FairQueue[Share], turns: int, cost: float = 1.0) -> list[Share]:
    order = []
    for _ in range(turns):
        share = queue.first()
        assert share is not None
        order.append(share)
        queue.charge(share, cost)
    return order


def test_equal_work_is_served_in_turns() -> None:
    queue: FairQueue[Share] = FairQueue()
    shares = [Share(), Share(), Share()]
    for share in shares:
        queue.add(share)
    assert served_in(queue, 6) == shares * 2


def test_who_costs_more_gets_fewer_turns() -> None:
    queue: FairQueue[Share] = FairQueue()
    cheap, dear = Share(), Share()
    queue.add(cheap)
    queue.add(dear)
    turns = {cheap: 0, dear: 0}
    for _ in range(1_100):
        share = queue.first()
        assert share is not None
        turns[share] += 1
        queue.charge(share, 10.0 if share is dear else 1.0)
    assert turns[cheap] == 10 * turns[dear]


def test_a_newcomer_is_next_and_has_saved_nothing() -> None:
    queue: FairQueue[Share] = FairQueue()
    busy, late = Share(), Share()
    queue.add(busy)
    served_in(queue, 100)
    queue.add(late)
    assert served_in(queue, 4) in ([late, busy, late, busy], [busy, late, busy, late])


def test_what_was_used_alone_is_forgiven_once_nothing_waits() -> None:
    queue: FairQueue[Share] = FairQueue()
    busy, late = Share(), Share()
    queue.add(busy)
    served_in(queue, 100)
    queue.remove(busy)
    queue.forgive()
    queue.add(busy)
    queue.add(late)
    assert served_in(queue, 4) == [busy, late, busy, late]


def test_debts_of_one_who_left_for_a_moment_are_kept_while_others_wait() -> None:
    queue: FairQueue[Share] = FairQueue()
    greedy, other = Share(), Share()
    queue.add(greedy)
    queue.add(other)
    queue.charge(greedy, 50.0)
    queue.remove(greedy)
    queue.forgive()
    queue.add(greedy)
    assert set(served_in(queue, 50)) == {other}


@given(st.integers(0, 2**32))
def test_shares_that_always_wait_differ_by_one_piece_of_work(seed: int) -> None:
    chance = Random(seed)
    queue: FairQueue[Share] = FairQueue()
    shares = [Share() for _ in range(chance.randint(2, 8))]
    most = {share: chance.uniform(1.0, 100.0) for share in shares}
    used = dict.fromkeys(shares, 0.0)
    for share in shares:
        queue.add(share)
    for _ in range(300):
        first = queue.first()
        assert first is not None
        cost = chance.uniform(0.0, most[first])
        used[first] += cost
        queue.charge(first, cost)
        for one in shares:
            for other in shares:
                assert abs(used[one] - used[other]) <= most[one] + most[other] + 1e-6


@given(st.integers(0, 2**32))
def test_the_first_is_the_least_served_of_those_that_wait(seed: int) -> None:
    chance = Random(seed)
    queue: FairQueue[Share] = FairQueue()
    shares = [Share() for _ in range(5)]
    for _ in range(200):
        share = chance.choice(shares)
        what = chance.randrange(4)
        if what == 0:
            queue.add(share)
        elif what == 1:
            queue.remove(share)
        elif what == 2:
            queue.charge(share, chance.choice((0.0, 1.0, 20.0)))
        else:
            queue.forgive()
        waiting = [each for each in shares if each.is_waiting]
        first = queue.first()
        assert len(queue) == len(waiting)
        assert (first is None) == (not waiting)
        if first is not None:
            assert first.time == min(each.time for each in waiting)
