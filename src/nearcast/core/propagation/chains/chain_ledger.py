"""The broker's book of chains: who has confirmed what, and who gets it directly after all.

A message stays in the book until all its recipients have confirmed it or its time is over; whoever
has not confirmed then gets it directly. Where a chain broke, the peer before and the peer after are
under suspicion: after a few times they get everything directly for a while, and then are the last
of their chains. So a peer that is dead, slow or lies costs time, never a message.
"""

from collections.abc import Hashable, Iterable, Sequence, Set
from heapq import heappop, heappush
from typing import Generic, TypeVar

from msgspec import Struct

from nearcast.core.propagation.chains.chain_tree import parent
from nearcast.core.propagation.chains.propagation_cost import hop_count

MemberId = TypeVar("MemberId", bound=Hashable)
SUSPENDED_AT = 3
"""A peer that so many chains broke at is left out of chains for a while."""
SUSPENDED_S = 60.0
LONGEST_SUSPENSION_S = 3_600.0


class LedgerSettings(Struct, frozen=True):
    """How long confirmations may take, and how much may be open."""

    base_s: float = 2.0
    per_hop_s: float = 0.25
    most_open: int = 200_000
    """Recipients that have not confirmed; beyond, messages go directly."""


class Standing(Struct):
    """What is known of a peer."""

    breaks: int = 0
    suspensions: int = 0
    suspended_until: float = 0.0


class _OpenChain(Struct, Generic[MemberId]):
    number: int
    members: Sequence[MemberId]
    degree: int
    due: float
    missing: int


class ChainLedger(Generic[MemberId]):
    """All chains that are open."""

    def __init__(self, settings: LedgerSettings) -> None:
        self._settings = settings
        self._missing: dict[int, dict[MemberId, _OpenChain[MemberId]]] = {}
        """By the number of a message: who has not confirmed it, and in which chain they are."""
        self._by_due: list[tuple[float, int, _OpenChain[MemberId]]] = []
        self._begun = 0
        self._standings: dict[MemberId, Standing] = {}
        self.missing = 0
        """How many recipients have not confirmed."""
        self.sent_directly = 0
        """How often a message went directly in the end."""

    def has_room(self, recipients: int) -> bool:
        """Whether a message may be sent along chains."""
        return self.missing + recipients <= self._settings.most_open

    def may_pass_on(self, member: MemberId, now: float) -> bool:
        """Whether a peer may be in a chain now."""
        standing = self._standings.get(member)
        return standing is None or standing.suspended_until <= now

    def is_weak(self, member: MemberId) -> bool:
        """Whether a peer should be the last of its chain."""
        standing = self._standings.get(member)
        return standing is not None and (standing.breaks > 0 or standing.suspensions > 0)

    def begin(self, number: int, members: Sequence[MemberId], degree: int, now: float) -> None:
        """Note a chain on its way; a recipient is in one chain of a message."""
        settings, hops = self._settings, hop_count(len(members), degree)
        due = now + settings.base_s + settings.per_hop_s * hops
        chain = _OpenChain(number, members, degree, due, len(members))
        self._missing.setdefault(number, {}).update(dict.fromkeys(members, chain))
        self._begun += 1
        heappush(self._by_due, (due, self._begun, chain))
        self.missing += len(members)

    def confirm(self, member: MemberId, numbers: Iterable[int]) -> None:
        """Note what a recipient has, as it says on its own session."""
        for number in numbers:
            missing = self._missing.get(number, {})
            chain = missing.get(member)
            if chain is None:
                continue
            self._found(member, chain)
            if not chain.missing:
                self._judge(chain, frozenset(), chain.due)

    def leave(self, member: MemberId) -> None:
        """Expect nothing of a recipient whose session ended."""
        for missing in [*self._missing.values()]:
            if member in missing:
                self._found(member, missing[member])
        self._standings.pop(member, None)

    def due(self, now: float) -> list[tuple[MemberId, int]]:
        """Return who gets which message directly now; their chains are closed."""
        found: list[tuple[MemberId, int]] = []
        while self._by_due and self._by_due[0][0] <= now:
            chain = heappop(self._by_due)[2]
            if not chain.missing:
                continue
            missing = self._missing[chain.number]
            late = [member for member in chain.members if missing.get(member) is chain]
            self._judge(chain, frozenset(late), now)
            for member in late:
                self._found(member, chain)
            found += [(member, chain.number) for member in late]
        self.sent_directly += len(found)
        return found

    def is_open(self, number: int) -> bool:
        """Whether somebody has not confirmed a message."""
        return number in self._missing

    def next_due(self) -> float | None:
        """Return when `due` should be asked again; None if nothing is open."""
        return self._by_due[0][0] if self._by_due else None

    def _found(self, member: MemberId, chain: _OpenChain[MemberId]) -> None:
        missing = self._missing[chain.number]
        del missing[member]
        if not missing:
            del self._missing[chain.number]
        chain.missing -= 1
        self.missing -= 1

    def _judge(self, chain: _OpenChain[MemberId], late: Set[MemberId], now: float) -> None:
        """Blame both sides of each break, and forget older breaks of whoever passed it on."""
        blamed: set[MemberId] = set()
        passed: set[MemberId] = set()
        for place, member in enumerate(chain.members):
            above = parent(place, chain.degree)
            before = None if above is None else chain.members[above]
            if member not in late:
                passed |= set() if before is None else {before}
            elif before is None or before not in late:
                blamed |= {member} if before is None else {member, before}
        for member in blamed:
            self._blame(member, now)
        for member in passed - blamed:
            standing = self._standings.get(member)
            if standing is not None and standing.breaks:
                standing.breaks -= 1

    def _blame(self, member: MemberId, now: float) -> None:
        standing = self._standings.setdefault(member, Standing())
        standing.breaks += 1
        if standing.breaks >= SUSPENDED_AT:
            length = SUSPENDED_S * 2.0**standing.suspensions
            standing.suspended_until = now + min(length, LONGEST_SUSPENSION_S)
            standing.breaks, standing.suspensions = 0, min(standing.suspensions + 1, 10)
