"""Plans of propagation: who gets a message directly, and in which chains the others pass it on.

Chains are planned anew for every message. Peers are put in order by context: along a curve that
keeps near neighbours together, and within each chain those with weak links last, where they delay
nobody.
"""

from collections.abc import Sequence
from math import ceil
from typing import TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Places: TypeAlias = NDArray[np.int64]
_CURVE_BITS = 16


class Peers(Struct, frozen=True):
    """Recipients that pass messages on, as columns; unknown positions are NaN."""

    lats: NDArray[np.float64]
    lons: NDArray[np.float64]
    weak: NDArray[np.bool_]
    """Their links are slow, or they were late to confirm."""

    def __len__(self) -> int:
        return len(self.lats)

    def order(self) -> Places:
        """Return their places in order along the curve; those without a position come last."""
        return np.argsort(self.curve_keys(), kind="stable")

    def curve_keys(self) -> NDArray[np.uint64]:
        """Return for each a number that is close for near neighbours (a Z-order curve)."""
        known = np.isfinite(self.lats) & np.isfinite(self.lons)
        rows = _spread(np.where(known, (self.lats + 90.0) / 180.0, 1.0))
        columns = _spread(np.where(known, (self.lons + 180.0) / 360.0, 1.0))
        return rows << np.uint64(1) | columns


def server_pushes(direct: int, peers: int, percent: float) -> int:
    """Return how often the broker sends a message: to each that is no peer, and once per chain."""
    return direct + (ceil(peers / chain_length(peers, percent)) if peers else 0)


def chain_length(peers: int, percent: float) -> int:
    """Return the number of recipients in a chain of `percent` of all peers."""
    return max(1, round(peers * percent / 100.0))


def plan_chains(peers: Peers, percent: float, order: Places | None = None) -> Sequence[Places]:
    """Return the chains: places of peers, in the order in which each passes the message on."""
    if not len(peers):
        return []
    along = peers.order() if order is None else order
    length = chain_length(len(peers), percent)
    chains = [along[first : first + length] for first in range(0, len(along), length)]
    return [_weak_last(chain, peers.weak) for chain in chains]


def _weak_last(chain: Places, weak: NDArray[np.bool_]) -> Places:
    is_weak = weak[chain]
    return np.concatenate((chain[~is_weak], chain[is_weak])) if is_weak.any() else chain


def _spread(shares: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return shares of 1 as integers with a zero between any two bits."""
    most = (1 << _CURVE_BITS) - 1
    bits = np.clip(shares * most, 0, most).astype(np.uint64)
    for shift, mask in ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)):
        bits = (bits | bits << np.uint64(shift)) & np.uint64(mask)
    return bits
