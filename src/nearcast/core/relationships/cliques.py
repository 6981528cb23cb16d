"""k of n: whether some k members are linked, every two of them.

A set of members is an integer with a bit for each, and so are the members that one is linked to.
The answer is exact. The search is exponential in the worst case, so groups with such a condition
are small (`MOST_CHOSEN_FROM`).
"""

from collections.abc import Sequence

MOST_CHOSEN_FROM = 32
"""The largest group of which some, more than two and not all, may be asked for."""


def has_clique(links: Sequence[int], k: int) -> bool:
    """Return whether some `k` members are linked, every two of them."""
    return _has_clique(links, (1 << len(links)) - 1, k)


def _has_clique(links: Sequence[int], among: int, k: int) -> bool:
    if k <= 1:
        return k < 1 or among != 0
    among = _with_enough_links(links, among, k)
    if among.bit_count() < k or _colours(links, among) < k:
        return False
    while among.bit_count() >= k:
        # The member with the fewest links leaves the least to look at.
        place = min(_places(among), key=lambda each: (links[each] & among).bit_count())
        if _has_clique(links, links[place] & among, k - 1):
            return True
        among &= ~(1 << place)
    return False


def _with_enough_links(links: Sequence[int], among: int, k: int) -> int:
    """Return the members that are left without those that are linked to fewer than `k` - 1."""
    while True:
        left = among
        for place in _places(among):
            if (links[place] & left).bit_count() < k - 1:
                left &= ~(1 << place)
        if left == among:
            return left
        among = left


def _colours(links: Sequence[int], among: int) -> int:
    """Return a number of sets without links inside that cover all: no clique is larger."""
    colours = 0
    while among:
        colours += 1
        free = among
        while free:
            first = free & -free
            place = first.bit_length() - 1
            among &= ~first
            free &= ~first & ~links[place]
    return colours


def _places(members: int) -> list[int]:
    found = []
    while members:
        first = members & -members
        found.append(first.bit_length() - 1)
        members &= ~first
    return found
