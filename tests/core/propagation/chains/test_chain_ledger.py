"""The book of chains knows who has what, beside a plain list of who has not."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.propagation.chains.chain_ledger import (
    SUSPENDED_AT,
    SUSPENDED_S,
    ChainLedger,
    LedgerSettings,
)

MEMBERS = [f"car-{each}" for each in range(8)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.permutations(MEMBERS), st.integers(1, 8)),
        st.tuples(st.just("confirm"), st.sampled_from(MEMBERS), st.sets(st.integers(1, 9))),
        st.tuples(st.just("leave"), st.sampled_from(MEMBERS), st.none()),
        st.tuples(st.just("wait"), st.floats(0.0, 4.0), st.none()),
    ),
    max_size=40,
)


@given(STEPS, st.integers(1, 3))
def test_who_has_not_confirmed_gets_it_directly_once(steps: list[tuple], degree: int) -> None:  # type: ignore[type-arg]
    settings = LedgerSettings(base_s=2.0, per_hop_s=0.5)
    ledger = ChainLedger[str](settings)
    open_: dict[tuple[str, int], float] = {}
    number, now = 0, 0.0
    for kind, first, second in steps:
        if kind == "send":
            number += 1
            chain = first[:second]
            ledger.begin(number, chain, degree, now)
            hops, place = 0, len(chain) - 1
            while place:
                place, hops = (place - 1) // degree, hops + 1
            open_ |= {(member, number): now + 2.0 + 0.5 * hops for member in chain}
        elif kind == "confirm":
            ledger.confirm(first, second)
            for each in second:
                open_.pop((first, each), None)
        elif kind == "leave":
            ledger.leave(first)
            open_ = {key: due for key, due in open_.items() if key[0] != first}
        else:
            now += first
            late = {key for key, due in open_.items() if due <= now}
            found = ledger.due(now)
            assert len(found) == len(set(found))
            assert {*found} == late
            open_ = {key: due for key, due in open_.items() if key not in late}
        assert ledger.missing == len(open_)
        assert all(ledger.is_open(each) == any(n == each for _, n in open_) for each in range(9))
        next_due = ledger.next_due()
        assert not open_ or (next_due is not None and next_due <= min(open_.values()))


def broken_chain(ledger: ChainLedger[str], number: int, now: float, last: int) -> None:
    ledger.begin(number, MEMBERS, 1, now)
    for member in MEMBERS[: last + 1]:
        ledger.confirm(member, [number])
    ledger.due(now + 100.0)


def test_both_sides_of_a_break_are_left_out_after_some() -> None:
    ledger = ChainLedger[str](LedgerSettings())
    for number in range(1, SUSPENDED_AT + 1):
        assert all(ledger.may_pass_on(member, 0.0) for member in MEMBERS)
        broken_chain(ledger, number, 0.0, last=2)
    now = 100.0
    out = [member for member in MEMBERS if not ledger.may_pass_on(member, now)]
    assert out == MEMBERS[2:4]
    assert all(ledger.may_pass_on(member, now + SUSPENDED_S) for member in MEMBERS)
    assert [member for member in MEMBERS if ledger.is_weak(member)] == MEMBERS[2:4]


def test_whoever_passes_on_again_is_trusted_again() -> None:
    ledger = ChainLedger[str](LedgerSettings())
    broken_chain(ledger, 1, 0.0, last=2)
    assert ledger.is_weak(MEMBERS[2])
    ledger.begin(2, MEMBERS, 1, 200.0)
    for member in MEMBERS:
        ledger.confirm(member, [2])
    assert not ledger.is_weak(MEMBERS[2])


def test_so_many_may_be_open() -> None:
    ledger = ChainLedger[str](LedgerSettings(most_open=10))
    assert ledger.has_room(8)
    ledger.begin(1, MEMBERS, 1, 0.0)
    assert not ledger.has_room(8)
    ledger.confirm(MEMBERS[0], [1])
    assert ledger.has_room(3)
