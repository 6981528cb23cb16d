"""The soak: one broker, clients that come and go, attackers in turns, and an honest client.

Clients are killed (SIGKILL) and started again all along. What the broker holds is sampled every few
seconds; at the end stated rules decide whether it stayed flat.
"""

import resource
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from nearcast.benchmarks.attacks.attacked_broker import AttackedBroker
from nearcast.benchmarks.attacks.catalogue.all_attacks import ATTACKS
from nearcast.benchmarks.attacks.child_process import ChildProcess
from nearcast.benchmarks.attacks.clients import Attacker, Honest
from nearcast.benchmarks.attacks.round_trips import HonestFigures
from nearcast.benchmarks.broker.peers import OURS
from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.soak.churn import ChurnOrder
from nearcast.benchmarks.soak.ledger import LedgerFigures, LedgerOrder
from nearcast.benchmarks.soak.samples import Sample, sample
from nearcast.benchmarks.soak.verdicts import SoakEvidence, Verdict, verdicts
from nearcast.benchmarks.this_machine import machine

PHASE_S = 60.0
WARM_S = 3.0
SETTLE_S = 3.0
PAUSE_S = 5.0
"""Between two attacks."""
ACT_WITHIN_S = 30.0
CONFIGURATION = "[log]\nmerge_after = 60\nkeep_s = 120\n"
"""Segments of the log go within minutes, so that an hour shows whether their number stays flat."""
TRACEBACK = "Traceback (most recent call last)"


class SoakSettings(Struct, frozen=True):
    """Settings of the soak."""

    minutes: float = 60.0
    attacks: tuple[str, ...] = tuple(ATTACKS)
    quick: bool = False
    """True for small attacks."""
    seed: int = 1
    sample_s: float = 5.0
    churn_processes: int = 2
    clients: int = 30
    """Clients of one such process."""
    steps_per_s: float = 50.0
    """What the clients of one process do in a second."""
    kill_every_s: float = 10.0


class AttackTurn(Struct, frozen=True):
    """One attack during the soak."""

    name: str
    at_s: float
    done: int
    wanted: int
    wall_s: float
    failed: str | None = None


class SoakResult(Struct, frozen=True):
    """The result of a soak."""

    benchmark: str
    started: str
    settings: SoakSettings
    machine: dict[str, str]
    verdicts: list[Verdict]
    overall: HonestFigures
    minutes: list[HonestFigures]
    ledger: LedgerFigures
    kills: int
    attacks: list[AttackTurn]
    base: Sample
    last: Sample
    samples: list[Sample]
    stopped_s: float | None

    @property
    def holds(self) -> bool:
        """True if all verdicts hold."""
        return all(each.holds for each in self.verdicts)


def run(settings: SoakSettings, step: Callable[[str], None]) -> SoakResult:
    """Run the soak; `step` gets progress texts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as directory:
        broker = AttackedBroker(OURS, Path(directory), CONFIGURATION)
        try:
            return Soak(broker, settings, step).run()
        finally:
            broker.close()


class Soak:
    """One run on one broker."""

    def __init__(
        self, broker: AttackedBroker, settings: SoakSettings, step: Callable[[str], None]
    ) -> None:
        self._broker = broker
        self._settings = settings
        self._step = step
        self._began = time.monotonic()
        self._samples: list[Sample] = []
        self._minutes: list[HonestFigures] = []

    def run(self) -> SoakResult:
        """Run until the time is up, and judge."""
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        broker, settings = self._broker, self._settings
        with ExitStack() as closing:
            honest = closing.enter_context(Honest(broker))
            time.sleep(WARM_S)
            base = self._sample()
            honest.begin()
            ledger: ChildProcess[LedgerFigures] = closing.enter_context(
                ChildProcess(
                    "nearcast.benchmarks.soak.ledger", LedgerOrder(broker.port), LedgerFigures
                )
            )
            crowd = closing.enter_context(Crowd(broker.port, settings))
            turns = closing.enter_context(AttackTurns(broker, settings, self._began))
            self._watch(honest, crowd, turns)
            turns.stop()
            crowd.stop()
            kept = ledger.finish()
            overall = honest.end()
            time.sleep(SETTLE_S)
            last = self._sample()
            said = broker.said
            stopped_s = broker.stop()
            honest.kill()
        evidence = SoakEvidence(
            self._samples, base, last, self._minutes, kept, said.count(TRACEBACK), stopped_s
        )
        return SoakResult(
            "soak",
            started,
            settings,
            machine(),
            verdicts(evidence),
            overall,
            self._minutes,
            kept,
            crowd.kills,
            turns.made,
            base,
            last,
            self._samples,
            stopped_s,
        )

    def _watch(self, honest: Honest, crowd: "Crowd", turns: "AttackTurns") -> None:
        """Take samples, kill clients and read the figures of every minute until time is up."""
        settings = self._settings
        end = time.monotonic() + 60.0 * settings.minutes
        kill = time.monotonic() + settings.kill_every_s
        phase = time.monotonic() + PHASE_S
        honest.begin()
        while (left := end - time.monotonic()) > 0.0:
            time.sleep(min(settings.sample_s, left))
            self._samples.append(self._sample(turns.current))
            self._step(f"{left / 60.0:.0f} minutes left; {turns.current or 'no attack'}")
            if time.monotonic() >= kill:
                kill += settings.kill_every_s
                crowd.kill_one()
            if phase <= time.monotonic() < end - PHASE_S / 2:
                phase += PHASE_S
                self._minutes.append(honest.turn())
        self._minutes.append(honest.end())

    def _sample(self, attack: str = "") -> Sample:
        at_s = time.monotonic() - self._began
        if not self._broker.alive:
            raise BenchmarkError(
                f"the broker ended after {at_s:.0f} s: {self._broker.said[-2000:]}"
            )
        return sample(self._broker.pid, self._broker.data, at_s, attack)


class Crowd:
    """Processes of clients, of which one at a time is killed and started again."""

    def __init__(self, port: int, settings: SoakSettings) -> None:
        self._port = port
        self._settings = settings
        self._started = 0
        self.kills = 0
        self._processes = [self._start() for _ in range(settings.churn_processes)]

    def kill_one(self) -> None:
        """Kill the process that has run longest, and start another."""
        self._end(self._processes.pop(0))
        self.kills += 1
        self._processes.append(self._start())

    def stop(self) -> None:
        """Kill all."""
        for process in self._processes:
            self._end(process)
        self._processes.clear()

    def __enter__(self) -> "Crowd":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, process: ChildProcess[None]) -> None:
        process.kill()
        process.close()

    def _start(self) -> ChildProcess[None]:
        settings = self._settings
        number = self._started
        self._started += 1
        order = ChurnOrder(
            self._port,
            # A process that replaces another comes back to its sessions.
            f"{number % settings.churn_processes}",
            settings.seed * 1_000_003 + number,
            settings.clients,
            settings.steps_per_s,
        )
        return ChildProcess("nearcast.benchmarks.soak.churn", order, None)


class AttackTurns(threading.Thread):
    """Makes one attack after the other, round and round."""

    def __init__(self, broker: AttackedBroker, settings: SoakSettings, began: float) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._settings = settings
        self._began = began
        self._stopping = threading.Event()
        self._attacker: Attacker | None = None
        self.current = ""
        """The attack that is under way; empty for none."""
        self.made: list[AttackTurn] = []

    def run(self) -> None:
        """Attack until it is stopped."""
        while self._settings.attacks:
            for name in self._settings.attacks:
                if self._stopping.wait(PAUSE_S):
                    return
                self.current = name
                self._attack(name)
                self.current = ""

    def stop(self) -> None:
        """Stop, in the middle of an attack if there is one."""
        self._stopping.set()
        if self._attacker is not None:
            self._attacker.kill()
        self.join()

    def __enter__(self) -> "AttackTurns":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _attack(self, name: str) -> None:
        at_s = time.monotonic() - self._began
        try:
            with Attacker(
                self._broker, ATTACKS[name], quick=self._settings.quick, within_s=ACT_WITHIN_S
            ) as attacker:
                self._attacker = attacker
                # Always the same turn: what it leaves behind takes the place of what it left.
                work = attacker.act(0)
            self.made.append(AttackTurn(name, at_s, work.done, work.wanted, work.wall_s))
        except BenchmarkError as error:
            if not self._stopping.is_set():
                self.made.append(AttackTurn(name, at_s, 0, 0, 0.0, str(error)))
        finally:
            self._attacker = None
