"""The interface of broker parts that depend on engine decisions and on time."""

from collections.abc import Sequence

from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input


class OutcomeFollower:
    """Called after every step of the engine, and when its timer is due."""

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Process a step; `others` are its inputs except events and moves."""

    def remind(self, now: float) -> None:
        """Do what is due."""

    def next_timer(self) -> float | None:
        """The time when something is due next."""
        return None
