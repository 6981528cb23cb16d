"""What parts of the broker do that depend on decisions and on time."""

from collections.abc import Sequence

from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input


class OutcomeFollower:
    """Told of every step of the engine, and when its timer is due."""

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Take note of a step; `others` are its inputs but events and moves."""

    def remind(self, now: float) -> None:
        """Do what is due."""

    def next_timer(self) -> float | None:
        """When something is due next."""
        return None
