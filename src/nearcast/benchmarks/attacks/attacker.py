"""The attacker's process: prepares an attack, and acts once for every line of standard input."""

import os
import resource
import sys

import msgspec
from msgspec import Struct

from nearcast.benchmarks.attacks.catalogue.all_attacks import ATTACKS
from nearcast.benchmarks.attacks.catalogue.attack import AttackSite, AttackWork
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.this_machine import cores_apart

NICENESS = 10
"""The honest client shares the core with the attacker, and must not wait for it."""


class AttackOrder(Struct, frozen=True):
    """Which attack to make, and where."""

    attack: str
    site: AttackSite


class Prepared(Struct, frozen=True, tag=True):
    """The attack can begin."""


class Acted(Struct, frozen=True, tag=True):
    """An act is over."""

    work: AttackWork


class AttackFailed(Struct, frozen=True, tag=True):
    """The attack could not be made."""

    reason: str


AttackAnswer = Prepared | Acted | AttackFailed


def answer(what: AttackAnswer) -> None:
    """Write one line to standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Read an order, prepare, and act until the end of input."""
    os.sched_setaffinity(0, cores_apart()[1])
    os.nice(NICENESS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=AttackOrder)
    attack = ATTACKS[order.attack](order.site)
    try:
        attack.set_up()
        answer(Prepared())
        for line in sys.stdin.buffer:
            answer(Acted(attack.act(int(line))))
    except (BenchmarkError, OSError) as error:
        answer(AttackFailed(f"{type(error).__name__}: {error}"))
    finally:
        attack.close()


if __name__ == "__main__":
    main()
