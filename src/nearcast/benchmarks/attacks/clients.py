"""The honest client and the attacker, each in a process of its own."""

from nearcast.benchmarks.attacks.attacked_broker import AttackedBroker
from nearcast.benchmarks.attacks.attacker import Acted, AttackAnswer, AttackFailed, AttackOrder
from nearcast.benchmarks.attacks.catalogue.attack import Attack, AttackSite, AttackWork
from nearcast.benchmarks.attacks.child_process import ChildProcess
from nearcast.benchmarks.attacks.round_trips import (
    BEGIN,
    END,
    HonestAnswer,
    HonestFailed,
    HonestFigures,
    HonestOrder,
)
from nearcast.benchmarks.broker.peers import OURS
from nearcast.benchmarks.errors import BenchmarkError

ATTACKER_ADDRESS = "127.0.0.2"


class Honest(ChildProcess[HonestAnswer]):
    """The honest client."""

    def __init__(self, broker: AttackedBroker) -> None:
        order = HonestOrder(broker.port, situated=broker.name == OURS)
        super().__init__("nearcast.benchmarks.attacks.round_trips", order, HonestAnswer)

    def begin(self) -> None:
        """Begin a phase."""
        self.send(BEGIN)

    def end(self) -> HonestFigures:
        """End the phase that was begun last and return its figures."""
        self.send(END)
        return self._figures()

    def turn(self) -> HonestFigures:
        """End a phase, begin the next at once, and return the figures of the first."""
        self.send(f"{END} {BEGIN}")
        return self._figures()

    def _figures(self) -> HonestFigures:
        answer = self.answer()
        if isinstance(answer, HonestFailed):
            raise BenchmarkError(answer.reason)
        return answer


class Attacker(ChildProcess[AttackAnswer]):
    """An attacker, which is ready to act."""

    def __init__(
        self, broker: AttackedBroker, attack: type[Attack], *, quick: bool, within_s: float
    ) -> None:
        site = AttackSite(broker.port, broker.http_port, ATTACKER_ADDRESS, quick, within_s)
        order = AttackOrder(attack.name, site)
        super().__init__("nearcast.benchmarks.attacks.attacker", order, AttackAnswer)
        try:
            answer = self.answer()
            if isinstance(answer, AttackFailed):
                raise BenchmarkError(answer.reason)
        except BaseException:
            self.kill()
            self.close()
            raise

    def begin(self, turn: int) -> None:
        """Let it act, without waiting for it."""
        self.send(str(turn))

    def act(self, turn: int) -> AttackWork:
        """Let it act, and return what it did."""
        self.begin(turn)
        answer = self.answer()
        if isinstance(answer, AttackFailed):
            raise BenchmarkError(answer.reason)
        assert isinstance(answer, Acted)
        return answer.work
