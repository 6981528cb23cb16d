"""Faults: what fails in a run, when, at which host and for how long, all from one seed.

A plan is a value: it can be printed, stored, shortened by hand and applied to a world again.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from random import Random

from msgspec import Struct


class FaultKind(Enum):
    """The kinds of faults."""

    LOST = "loses its connection"
    HALF_OPEN = "loses its connection, and the broker does not learn of it"
    UNHEARD = "loses its connection without learning of it"
    PARTED = "is parted from the broker"
    SLOW = "has a slow link"
    DEAF = "reads nothing"
    CLIENT_CRASH = "crashes and comes back"
    CLIENT_AMNESIA = "crashes and comes back without its state"
    BROKER_CRASH = "crashes and restarts"
    POWER_CUT = "loses its power, and what was not synced"

    @property
    def of_broker(self) -> bool:
        """True if it happens to the broker."""
        return self in (FaultKind.BROKER_CRASH, FaultKind.POWER_CUT)


ALL_KINDS: Mapping[FaultKind, float] = {
    FaultKind.LOST: 4.0,
    FaultKind.HALF_OPEN: 2.0,
    FaultKind.UNHEARD: 2.0,
    FaultKind.PARTED: 2.0,
    FaultKind.SLOW: 1.5,
    FaultKind.DEAF: 1.0,
    FaultKind.CLIENT_CRASH: 2.0,
    FaultKind.BROKER_CRASH: 1.5,
    FaultKind.POWER_CUT: 1.0,
}
"""Relative probabilities; clients lose their state only if a plan requests it."""


class Fault(Struct, frozen=True):
    """One fault, `at_s` after the start of the world."""

    at_s: float
    kind: FaultKind
    host: str
    lasts_s: float

    def __str__(self) -> str:
        return f"{self.at_s:.3f} s: {self.host} {self.kind.value} ({self.lasts_s:.3f} s)"


def plan_faults(
    seed: int | str,
    clients: Sequence[str],
    broker: str = "broker",
    *,
    from_s: float = 0.0,
    until_s: float,
    count: int,
    longest_s: float = 5.0,
    kinds: Mapping[FaultKind, float] = ALL_KINDS,
) -> tuple[Fault, ...]:
    """Return `count` faults ordered by time; all of them end by `until_s`."""
    assert from_s < until_s, "there is no time for faults"
    chance = Random(f"{seed}/faults")
    found = []
    for kind in chance.choices(list(kinds), list(kinds.values()), k=count):
        at_s = chance.uniform(from_s, until_s)
        lasts_s = min(chance.expovariate(3.0 / longest_s), longest_s, until_s - at_s)
        host = broker if kind.of_broker else chance.choice(clients)
        found.append(Fault(round(at_s, 6), kind, host, round(lasts_s, 6)))
    return tuple(sorted(found, key=lambda fault: fault.at_s))
