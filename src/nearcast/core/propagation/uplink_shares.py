"""Shares of a limited uplink, by weight: seed C's resource manager (3.6).

The bytes of an interval are divided among recipients that have something to send, in proportion to
their weights. Who needs less than its share leaves the rest to the others, and so does who did not
use what it was given. A message may exceed what is left of a share; that is taken off the next one.
"""

from collections.abc import Sequence

from msgspec import Struct


class ShareClaim(Struct, frozen=True):
    """What a recipient has to send, and what is left of its share of before."""

    weight: float
    waiting_bytes: int
    balance: int = 0
    """Negative: so much more was sent than it was given."""


def divide(limit_bytes: int, claims: Sequence[ShareClaim]) -> list[int]:
    """The new balances: the sum of what is given is the limit, or all that is needed.

    What was given and not used is divided again, once; so is what recipients without anything to
    send owe.
    """
    unused = sum(each.balance for each in claims if each.balance > 0)
    owed = sum(each.balance for each in claims if each.balance < 0 and not each.waiting_bytes)
    left = max(0, limit_bytes + min(unused, limit_bytes) + owed)
    balances = [0] * len(claims)
    needs = {
        place: each.waiting_bytes - min(0, each.balance)
        for place, each in enumerate(claims)
        if each.waiting_bytes
    }
    weights = sum(claims[place].weight for place in needs)
    # Who needs least for its weight comes first, so that what it leaves is known to the others.
    for number, place in enumerate(
        sorted(needs, key=lambda place: needs[place] / claims[place].weight), 1
    ):
        weight = claims[place].weight
        fair = left if number == len(needs) else int(left * weight / weights)
        given = min(needs[place], fair, left)
        balances[place] = given + min(0, claims[place].balance)
        left, weights = left - given, weights - weight
    return balances
