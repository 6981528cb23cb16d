"""Equal shares: what a hundred honest publishers get through, alone and beside a flood."""

import time
from collections.abc import Sequence

from msgspec import Struct

from nearcast.benchmarks.attacks.attacked_broker import AttackedBroker
from nearcast.benchmarks.attacks.catalogue.floods import Flood
from nearcast.benchmarks.attacks.child_process import ChildProcess
from nearcast.benchmarks.attacks.clients import Attacker
from nearcast.benchmarks.attacks.equal_publishers import (
    ShareOrder,
    Shares,
    SharesAnswer,
    SharesFailed,
)
from nearcast.benchmarks.errors import BenchmarkError

FAIRNESS = "fairness"
"""Name of the row."""
WANTED_INDEX = 0.99


class FairnessFigures(Struct, frozen=True):
    """The shares of honest publishers, or the reason for which there are none."""

    seconds: float = 0.0
    alone: list[int] = []
    """Messages through, by publisher, without an attacker."""
    attacked: list[int] = []
    attacker_messages_per_s: float = 0.0
    failed: str | None = None

    @property
    def index_alone(self) -> float:
        """Jain's index of the shares without an attacker."""
        return jain_index(self.alone)

    @property
    def index_attacked(self) -> float:
        """Jain's index of the shares beside an attacker."""
        return jain_index(self.attacked)


def jain_index(shares: Sequence[float]) -> float:
    """1 if all shares are equal, 1/n if one has everything; 0 if there is nothing."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def measure_fairness(
    broker: AttackedBroker, publishers: int, seconds: float, quick: bool
) -> FairnessFigures:
    """Let honest publishers publish alone, and then beside a flood of QoS 0."""
    order = ShareOrder(broker.port, publishers, seconds)
    honest: ChildProcess[SharesAnswer]
    with (
        ChildProcess("nearcast.benchmarks.attacks.equal_publishers", order, SharesAnswer) as honest,
        Attacker(broker, Flood, quick=quick, within_s=seconds) as attacker,
    ):
        honest.send("alone")
        alone = _shares(honest)
        honest.send("attacked")
        began = time.monotonic()
        done = turn = 0
        while time.monotonic() - began < seconds:
            done += attacker.act(turn).done
            turn += 1
        rate = done / (time.monotonic() - began)
        return FairnessFigures(seconds, alone, _shares(honest), rate)


def _shares(honest: ChildProcess[SharesAnswer]) -> list[int]:
    answer = honest.answer()
    if isinstance(answer, SharesFailed):
        raise BenchmarkError(answer.reason)
    assert isinstance(answer, Shares)
    return answer.messages
