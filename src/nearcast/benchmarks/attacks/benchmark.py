"""The attack benchmark: how long an honest client waits, quiet and beside each attacker.

Every attack has a fresh broker with the settings that it comes with. The honest client and the
attacker are processes of their own, with addresses of their own. mosquitto is attacked in the same
way, in the same run, where it can be.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from nearcast.benchmarks.attacks.attacked_broker import AttackedBroker
from nearcast.benchmarks.attacks.catalogue.all_attacks import ATTACKS
from nearcast.benchmarks.attacks.catalogue.attack import Attack, AttackWork
from nearcast.benchmarks.attacks.clients import Attacker, Honest
from nearcast.benchmarks.attacks.fairness import FAIRNESS, FairnessFigures, measure_fairness
from nearcast.benchmarks.attacks.round_trips import HonestFigures
from nearcast.benchmarks.broker.peers import BROKERS, MOSQUITTO, OURS
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.this_machine import machine

WARM_S = 1.0
AFTERMATH_S = 1.0
"""The honest client is still watched after an attack: what it left to do may be done later."""
STOP_AFTER_S = 0.3
"""SIGTERM comes so long after the beginning of the last act."""


class AttackBenchSettings(Struct, frozen=True):
    """Settings of the attack benchmark."""

    attacks: tuple[str, ...] = ()
    """Names of attacks; empty for all."""
    quick: bool = False
    repeats: int = 1
    """How often each attack is made before memory is compared."""
    quiet_s: float = 5.0
    act_within_s: float = 60.0
    mosquitto: bool = True
    publishers: int = 100
    """Honest publishers whose shares are compared."""
    fairness_s: float = 10.0


class AttackFigures(Struct, frozen=True):
    """A broker under one attack, or the reason for which there are no figures."""

    quiet: HonestFigures | None = None
    attacked: HonestFigures | None = None
    repeated: HonestFigures | None = None
    """The honest client during all repeats after the first."""
    work: AttackWork | None = None
    cpu_s: float = 0.0
    """CPU of the broker, for the first attack."""
    memory_before: int = 0
    memory_after: int = 0
    memory_repeated: int = 0
    """Resident bytes after all repeats."""
    dropped: int = 0
    stopped_s: float | None = None
    """Seconds from SIGTERM, sent during an attack, until the broker had ended."""
    failed: str | None = None


class AttackRow(Struct, frozen=True):
    """One attack on all brokers."""

    name: str
    describe: str
    unit: str
    brokers: dict[str, AttackFigures]


class AttackResult(Struct, frozen=True):
    """The result of a whole run."""

    benchmark: str
    started: str
    settings: AttackBenchSettings
    machine: dict[str, str]
    versions: dict[str, str]
    skipped: dict[str, str]
    rows: list[AttackRow]
    fairness: dict[str, FairnessFigures]
    load: tuple[float, float]
    """Load averages of the machine over a minute, before and after: others may have used it too."""

    @property
    def failures(self) -> list[str]:
        """Descriptions of all failures."""
        return [
            f"{row.name}: {name}: {figures.failed}"
            for row in self.rows
            for name, figures in row.brokers.items()
            if figures.failed is not None
        ] + [
            f"{FAIRNESS}: {name}: {figures.failed}"
            for name, figures in self.fairness.items()
            if figures.failed is not None
        ]


def run(settings: AttackBenchSettings, step: Callable[[str], None]) -> AttackResult:
    """Run the benchmark; `step` gets progress texts."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    load = os.getloadavg()[0]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    names = (OURS, MOSQUITTO) if settings.mosquitto else (OURS,)
    missing = {name: BROKERS[name].missing() for name in names}
    present = [name for name in names if missing[name] is None]
    rows = []
    chosen = settings.attacks or row_names()
    for attack in (ATTACKS[name] for name in chosen if name != FAIRNESS):
        brokers = {}
        for name in present:
            if name == OURS or attack.on_mosquitto:
                step(f"{attack.describe}: {name}")
                brokers[name] = _attacked(name, attack, settings, step)
        rows.append(AttackRow(attack.name, attack.describe, attack.unit, brokers))
    fairness = {}
    for name in present if FAIRNESS in chosen else ():
        step(f"{settings.publishers} honest publishers: {name}")
        fairness[name] = _fairness(name, settings)
    return AttackResult(
        "attacks",
        started,
        settings,
        machine(),
        {name: BROKERS[name].version() for name in present},
        {name: lacks for name, lacks in missing.items() if lacks is not None},
        rows,
        fairness,
        (load, os.getloadavg()[0]),
    )


def row_names() -> list[str]:
    """The names that `AttackBenchSettings.attacks` accepts."""
    return [*ATTACKS, FAIRNESS]


def _fairness(name: str, settings: AttackBenchSettings) -> FairnessFigures:
    try:
        with started_broker(name) as broker:
            return measure_fairness(
                broker, settings.publishers, settings.fairness_s, settings.quick
            )
    except BenchmarkError as error:
        return FairnessFigures(failed=str(error))


def _attacked(
    name: str, attack: type[Attack], settings: AttackBenchSettings, step: Callable[[str], None]
) -> AttackFigures:
    try:
        with started_broker(name) as broker:
            return AttackedRun(broker, attack, settings, step).figures()
    except BenchmarkError as error:
        return AttackFigures(failed=str(error))


@contextmanager
def started_broker(name: str) -> Iterator[AttackedBroker]:
    """Run a broker on a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        broker = AttackedBroker(name, Path(directory))
        try:
            yield broker
        finally:
            broker.close()


class AttackedRun:
    """One attack on one broker."""

    def __init__(
        self,
        broker: AttackedBroker,
        attack: type[Attack],
        settings: AttackBenchSettings,
        step: Callable[[str], None],
    ) -> None:
        self._broker = broker
        self._attack = attack
        self._settings = settings
        self._step = step

    def figures(self) -> AttackFigures:
        """Measure; raise BenchmarkError if a client could not do its part."""
        broker, settings = self._broker, self._settings
        with ExitStack() as closing:
            honest = closing.enter_context(Honest(broker))
            time.sleep(WARM_S)
            honest.begin()
            time.sleep(settings.quiet_s)
            quiet = honest.end()
            attacker = closing.enter_context(self._attacker())
            before, dropped, cpu = broker.resident_bytes, broker.dropped, broker.cpu_s
            honest.begin()
            work = attacker.act(0)
            time.sleep(AFTERMATH_S)
            attacked = honest.end()
            after = broker.resident_bytes
            cpu, dropped = broker.cpu_s - cpu, broker.dropped - dropped
            repeated, memory = self._repeat(honest, attacker)
            attacker.begin(settings.repeats)
            time.sleep(STOP_AFTER_S)
            stopped = broker.stop()
            attacker.kill()
            honest.kill()
        return AttackFigures(
            quiet, attacked, repeated, work, cpu, before, after, memory, dropped, stopped
        )

    def _attacker(self) -> Attacker:
        settings = self._settings
        return Attacker(
            self._broker, self._attack, quick=settings.quick, within_s=settings.act_within_s
        )

    def _repeat(self, honest: Honest, attacker: Attacker) -> tuple[HonestFigures | None, int]:
        """Make the attack as often as is still to be made; return the memory after that."""
        if self._settings.repeats <= 1:
            return None, 0
        honest.begin()
        for turn in range(1, self._settings.repeats):
            self._step(f"{self._attack.describe}: {self._broker.name}, again ({turn + 1})")
            attacker.act(turn)
        return honest.end(), self._broker.resident_bytes
