"""Shares of an uplink: all of it is given, in proportion, and what one leaves the others get."""

from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.propagation.uplink_shares import ShareClaim, divide

WEIGHTS = st.sampled_from([1.0, 2.0, 3.0, 11.0])
CLAIMS = st.lists(
    st.builds(ShareClaim, WEIGHTS, st.integers(0, 50_000), st.integers(-5_000, 0)), max_size=8
)


def fair_shares(limit: float, needs: list[float], weights: list[float]) -> list[float]:
    """The plain way: raise a level of water until all of it is given."""
    given = [0.0] * len(needs)
    open_ = {place for place, need in enumerate(needs) if need > 0}
    while open_ and limit > 1e-9:
        total = sum(weights[place] for place in open_)
        rise = min((needs[place] - given[place]) / weights[place] for place in open_)
        rise = min(rise, limit / total)
        for place in open_:
            given[place] += rise * weights[place]
        limit -= rise * total
        open_ = {place for place in open_ if needs[place] - given[place] > 1e-6}
    return given


@given(st.integers(0, 100_000), CLAIMS)
def test_shares_are_fair_and_all_of_the_limit_is_given(
    limit: int, claims: list[ShareClaim]
) -> None:
    balances = divide(limit, claims)
    owed = -sum(each.balance for each in claims if not each.waiting_bytes)
    budget = max(0, limit - owed)
    shares = [
        balance - each.balance if each.waiting_bytes else 0
        for balance, each in zip(balances, claims, strict=True)
    ]
    needs = [each.waiting_bytes - each.balance if each.waiting_bytes else 0 for each in claims]
    assert sum(shares) == min(budget, sum(needs))
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))
    assert all(not balance for balance, need in zip(balances, needs, strict=True) if not need)
    weights = [each.weight for each in claims]
    plain = fair_shares(float(budget), [float(need) for need in needs], weights)
    # Whole bytes: each step may leave one to the next.
    for share, fair in zip(shares, plain, strict=True):
        assert abs(share - fair) <= len(claims) + 1


def test_shares_are_in_proportion_to_weights() -> None:
    claims = [ShareClaim(1.0, 10**6), ShareClaim(2.0, 10**6), ShareClaim(5.0, 10**6)]
    assert divide(8_000, claims) == [1_000, 2_000, 5_000]


def test_what_one_does_not_need_goes_to_the_others() -> None:
    assert divide(8_000, [ShareClaim(7.0, 500), ShareClaim(1.0, 10**6)]) == [500, 7_500]


def test_what_was_not_used_is_given_again_once() -> None:
    stuck, other = ShareClaim(1.0, 10**6, balance=3_000), ShareClaim(1.0, 10**6)
    assert divide(6_000, [stuck, other]) == [4_500, 4_500]
    assert sum(divide(1_000, [ShareClaim(1.0, 10**6, balance=9_000)])) == 2_000


def test_what_was_exceeded_is_taken_off_the_next_share() -> None:
    claims = [ShareClaim(1.0, 10**6, balance=-400), ShareClaim(1.0, 10**6)]
    assert divide(2_000, claims) == [600, 1_000]
    # Who has nothing to send any more owes it to all.
    assert divide(2_000, [ShareClaim(1.0, 0, balance=-400), ShareClaim(1.0, 10**6)]) == [0, 1_600]
