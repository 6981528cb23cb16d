"""A sequence chart in text: who said what to whom, and what each learned, by time."""

from nearcast.core.relationships.silence.pair_member import Transition
from nearcast.core.relationships.silence.pair_message import Crossing, PairMessage
from nearcast.simulation.virtual_clock import VirtualClock

COLUMN = 30


class SequenceChart:
    """Lines of a chart with one column for each host."""

    def __init__(self, clock: VirtualClock, hosts: list[str]) -> None:
        self._clock = clock
        self._column = {host: COLUMN * number for number, host in enumerate(hosts)}
        self.lines = [" " * 10 + "".join(host.ljust(COLUMN) for host in hosts).rstrip()]

    def message(self, sender: str, receiver: str, message: PairMessage) -> None:
        """Add a message when it is sent."""
        if isinstance(message, Crossing):
            what = f"{message.number} (of your {message.peer_number})"
            if message.regions is not None:
                what += " near" if message.regions.near else " apart"
        else:
            what = f"ack {message.peer_number}" + ("" if message.adopted else ", mine counts")
        self._arrow(sender, receiver, what)

    def transition(self, host: str, peer: str, transition: Transition) -> None:
        """Add what a host learned."""
        self.note(host, "knows: near" if transition.near else "knows: apart")

    def alarm(self, sender: str, receiver: str, text: str) -> None:
        """Add a notice to a third party."""
        self._arrow(sender, receiver, text)

    def note(self, host: str, text: str) -> None:
        """Add what happens at a host."""
        self._add(self._column[host], f"* {text}")

    def _arrow(self, sender: str, receiver: str, text: str) -> None:
        left, right = sorted((self._column[sender], self._column[receiver]))
        width = right - left - len(text) - 2
        line = "-" * max(width // 2, 1) + text + "-" * max(width - width // 2, 1)
        is_rightwards = self._column[sender] == left
        self._add(left, f"{line}>" if is_rightwards else f"<{line}")

    def _add(self, column: int, text: str) -> None:
        self.lines.append(f"{self._clock.elapsed_s:8.3f}  {' ' * column}{text}")

    def __str__(self) -> str:
        return "\n".join(self.lines)
