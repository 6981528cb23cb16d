"""What a broker does about its disk: the condition in force, and rows that say what is missing.

While events of QoS 0 are not recorded, the log has a row of kind `gap` where that began and one
where it ended, with the number of events. Contexts, subscriptions, sessions, places and rules are
recorded whatever the condition: decisions depend on them.
"""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.durability.disk_space import DiskCondition, DiskStage
from nearcast.store import gap_row


class DiskPolicy:
    """Puts conditions of the disk in force."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._counted = 0

    def apply(self, condition: DiskCondition, now: float) -> None:
        """Put a condition in force, between two ticks."""
        state, policy = self._state, self._state.engine.policy
        state.disk = condition
        records = condition.stage < DiskStage.UNRECORDED
        if records == policy.records_unpromised or not state.journal.keeps:
            return
        policy.records_unpromised = records
        if records:
            missed = policy.left_out - self._counted
            self._note(f"{missed} events of QoS 0 were not recorded: the disk was full", now)
        else:
            self._counted = policy.left_out
            self._note(f"events of QoS 0 are not recorded from here on: {condition.why}", now)

    def _note(self, reason: str, now: float) -> None:
        state = self._state
        row = gap_row(state.name, state.engine.next_seq(), now, reason)
        state.journal.rows.append(row)
