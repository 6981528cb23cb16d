"""What propagation costs: bytes and time of the broker's link, delay among peers.

The model decides between direct delivery and chains, and among chains by their length and degree.
Addresses are IPv4 with a port, 6 bytes a recipient, without a token for each: peers prove who they
are to each other by credentials that they got before.
"""

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from nearcast.core.propagation.chains.chain_message import ADDRESS_BYTES
from nearcast.core.propagation.chains.chain_plan import chain_length, server_pushes


class LinkModel(Struct, frozen=True):
    """The broker's way out: what a push costs beside its bytes, and how many bytes it carries."""

    push_s: float = 20e-6
    bytes_per_s: float = 125e6

    def busy_s(self, pushes: int, size: float) -> float:
        """Return how long it takes to push so many bytes in all."""
        return pushes * self.push_s + size / self.bytes_per_s


class PeerModel(Struct, frozen=True):
    """The link of a peer: how long a message is on its way, and how many bytes it carries up."""

    hop_s: float = 0.02
    bytes_per_s: float = 1.25e6


class PropagationChoice(Struct, frozen=True, order=True):
    """A way to propagate, and what it costs; the cheapest comes first."""

    server_bytes: float
    mean_delay_s: float
    percent: float
    """The share of the peers in a chain; 0: directly to each."""
    degree: int


class ChainDelays(Struct, frozen=True):
    """When each of a chain gets a message, as multiples of what varies between messages."""

    hops: NDArray[np.float64]
    copies: NDArray[np.float64]
    """How many copies of the message were sent one after the other until it has it."""

    def seconds(self, model: PeerModel, size: float) -> NDArray[np.float64]:
        """Return the delays behind the first of the chain, for a message of a size."""
        return self.hops * model.hop_s + self.copies * size / model.bytes_per_s


@lru_cache(256)
def chain_delays(count: int, degree: int) -> ChainDelays:
    """Return the delays within a chain of so many recipients."""
    hops, copies = [0.0] * count, [0.0] * count
    for place in range(1, count):
        above = (place - 1) // degree
        # A peer sends to the next ones one after the other.
        before = above if place == degree * above + 1 else place - 1
        hops[place], copies[place] = hops[above] + 1, copies[before] + 1
    return ChainDelays(np.array(hops), np.array(copies))


def choices(
    peers: int,
    payload: int,
    link: LinkModel,
    peer: PeerModel,
    percents: Iterable[float],
    degrees: Iterable[int],
) -> list[PropagationChoice]:
    """Return what each setting costs for one message to all peers, the cheapest first."""
    found = [
        PropagationChoice(float(peers * payload), link.busy_s(peers, peers * payload) / 2, 0.0, 1)
    ]
    for percent in percents:
        pushes, length = server_pushes(0, peers, percent), chain_length(peers, percent)
        size = pushes * payload + ADDRESS_BYTES * peers
        for degree in degrees:
            carried = payload + ADDRESS_BYTES * length
            within = chain_delays(length, degree).seconds(peer, carried).mean()
            delay = link.busy_s(pushes, size) / 2 + float(within)
            found.append(PropagationChoice(float(size), delay, percent, degree))
    return sorted(found)


def best_choice(found: Iterable[PropagationChoice], most_delay_s: float) -> PropagationChoice:
    """Return the cheapest whose delay is no more than allowed, else the one of least delay."""
    listed = list(found)
    allowed = [each for each in listed if each.mean_delay_s <= most_delay_s]
    return min(allowed) if allowed else min(listed, key=lambda each: each.mean_delay_s)


def least_bytes(peers: int) -> int:
    """Return the bytes that naming every recipient once takes: no chain sends fewer."""
    return ADDRESS_BYTES * peers


def hop_count(length: int, degree: int) -> int:
    """Return how many peers a message passes until the last of a chain has it."""
    if degree == 1:
        return max(0, length - 1)
    reached, level = 1, 0
    while reached < length:
        reached, level = reached * degree + 1, level + 1
    return level
