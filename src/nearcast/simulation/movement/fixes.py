"""Fixes: what a receiver tells of a course, with noise, gaps and a clock that is off."""

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from nearcast.core.model.geometry.position import Position
from nearcast.simulation.movement.city import metres, spot
from nearcast.simulation.movement.population import MovingNode


class FixQuality(Struct, frozen=True):
    """How good fixes are."""

    every_s: float = 1.0
    jitter: float = 0.0
    """Intervals vary by this share; with any, nodes do not sample at common instants."""
    noise_m: float = 0.0
    """The standard deviation of each axis."""
    gap_share: float = 0.0
    """The probability that a fix is followed by a gap."""
    gap_s: float = 30.0
    """The mean length of gaps."""
    clock_error_s: float = 0.0
    """The standard deviation of the clocks of nodes."""


PERFECT = FixQuality()


class Fix(Struct, frozen=True):
    """A fix: the true time at which it was taken, and where the receiver says it was."""

    time_s: float
    position: Position


def fixes_of(node: MovingNode, quality: FixQuality, seconds: float, seed: int) -> Iterator[Fix]:
    """Yield the fixes of a node."""
    random = Random(f"{seed}/fixes/{node.name}")
    time_s = random.uniform(0.0, quality.every_s) if quality.jitter else 0.0
    while time_s <= seconds:
        yield Fix(time_s, noisy(node.course.at(time_s), quality.noise_m, random))
        time_s += quality.every_s * random.uniform(1.0 - quality.jitter, 1.0 + quality.jitter)
        if quality.gap_share and random.random() < quality.gap_share:
            time_s += random.expovariate(1.0 / quality.gap_s)


def clock_error_s(node: MovingNode, quality: FixQuality, seed: int) -> float:
    """Return by how much the clock of a node is off."""
    return Random(f"{seed}/clock/{node.name}").gauss(0.0, quality.clock_error_s)


def noisy(position: Position, noise_m: float, random: Random) -> Position:
    """Return a position with the noise of a receiver."""
    if noise_m == 0.0:
        return position
    east_m, north_m = metres(position)
    return spot(east_m + random.gauss(0.0, noise_m), north_m + random.gauss(0.0, noise_m))
