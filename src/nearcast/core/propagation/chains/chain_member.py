"""A recipient in chains: what it takes, passes on and confirms (seed E).

Only what the broker signed for it is taken, each number once, and never one from before this member
came. It is passed on once as well, even if the content came directly before: others wait for it.
Nothing here depends on a clock.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from nearcast.core.propagation.chains.chain_message import ChainMessage, signed_bytes
from nearcast.core.propagation.chains.chain_tree import children

Verify = Callable[[bytes, bytes], bool]
"""Whether a signature of some bytes is the broker's."""
MOST_NUMBERS = 16_384
"""So many numbers are remembered; older ones count as known."""


class Reception(Struct, frozen=True):
    """What follows from a message of a peer."""

    content: bytes | None = None
    """What is new; None: nothing."""
    next_members: Sequence[bytes] = ()
    """Addresses of those whom the same message is passed on to."""
    refused: str = ""
    """Why it was not taken."""


class ChainMember:
    """One recipient, from its joining to its leaving."""

    def __init__(self, verify: Verify, first_number: int, own_address: bytes) -> None:
        self._verify = verify
        self._own_address = own_address
        self._had = _Numbers(first_number)
        self._passed = _Numbers(first_number)
        self._unconfirmed: list[int] = []

    def receive(self, message: ChainMessage) -> Reception:
        """Take a message that the broker or a peer passed on."""
        number, members, degree = message.number, message.members, message.degree
        if number in self._passed:
            return Reception(refused="it was passed on before, or is from before this member came")
        if self._own_address not in members:
            return Reception(refused="it is for others")
        signed = signed_bytes(number, message.content, members, degree)
        if not self._verify(signed, message.signature):
            return Reception(refused="the broker did not sign it")
        self._passed.add(number)
        place = members.index(self._own_address)
        following = [members[each] for each in children(place, len(members), degree)]
        return Reception(message.content if self._take(number) else None, following)

    def receive_directly(self, number: int) -> bool:
        """Note a message that came from the broker itself; return whether it is new."""
        return self._take(number)

    def confirmation(self) -> Sequence[int]:
        """Return all numbers that came since the last call."""
        found, self._unconfirmed = self._unconfirmed, []
        return sorted(found)

    def _take(self, number: int) -> bool:
        # What the broker sent again was not confirmed in time: that is said again, too.
        self._unconfirmed.append(number)
        if number in self._had:
            return False
        self._had.add(number)
        return True


class _Numbers:
    """Numbers that were seen: the newest one by one, and all below a floor."""

    def __init__(self, floor: int) -> None:
        self._floor = floor
        self._seen: set[int] = set()
        self._heap: list[int] = []

    def __contains__(self, number: int) -> bool:
        return number < self._floor or number in self._seen

    def add(self, number: int) -> None:
        self._seen.add(number)
        heappush(self._heap, number)
        if len(self._heap) > MOST_NUMBERS:
            oldest = heappop(self._heap)
            self._seen.discard(oldest)
            self._floor = oldest + 1
