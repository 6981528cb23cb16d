"""Slow ticks: who caused them and what they were spent on, in the log and in metrics.

While a tick runs nothing else does, so a slow one delays every client. The line in the log names
the sessions that were charged most; lines that come too fast are counted by the log handler.
"""

import heapq
import logging
from collections.abc import Iterator, Mapping

from nearcast.broker.operations.tick_window import RecentMaximum
from nearcast.broker.scheduling.cost_account import CostAccount
from nearcast.broker.scheduling.cost_ledger import CostLedger, TickCosts
from nearcast.broker.scheduling.phase_timer import Phase, TickTimes
from nearcast.broker.sessions.session import Session
from nearcast.logs import log_event

MOST_SESSIONS = 5
LONGEST_NAME = 80
LEAST_SHARE = 0.005
"""Smaller shares are not listed."""

log = logging.getLogger("nearcast.broker")


class SlowTicks:
    """Counts and logs the ticks that took longer than a limit."""

    def __init__(self, limit_s: float, sessions: Mapping[str, Session]) -> None:
        self._limit_s = limit_s
        self._sessions = sessions
        self._slowest = RecentMaximum()
        self.count = 0
        self.seconds = 0.0
        """Seconds of all slow ticks together."""
        self.least_s, self.ends_at = 0.0, 0.0
        """Ticks that take no longer need not be noted before this time."""

    def note(self, times: TickTimes, ledger: CostLedger, now: float) -> None:
        """Note a tick, slow or not, after which its costs are the latest of the ledger."""
        took_s, slowest = times.took_s, self._slowest
        slowest.note(took_s, now)
        self.least_s, self.ends_at = min(slowest.floor, self._limit_s), slowest.ends_at
        if took_s <= self._limit_s:
            return
        costs = ledger.latest
        self.count += 1
        self.seconds += took_s
        log_event(
            log,
            logging.WARNING,
            "slow tick",
            took_s=round(took_s, 3),
            phases=_listed(times.shares()),
            costs=_listed(_shares_of_kinds(costs)),
            collection_s=round(times.collection_s, 3),
            disk_s=round(times.seconds[Phase.DISK], 3),
            **dict(self._charged(costs)),
        )

    def slowest_s(self, now: float) -> float:
        """Return the duration of the slowest tick of the last minute."""
        return self._slowest.value(now)

    def statistics(self, now: float) -> dict[str, float]:
        """Counts since the start, and the slowest tick of the last minute."""
        return {
            "slow_ticks_total": self.count,
            "slow_tick_seconds_total": self.seconds,
            "slowest_tick_seconds": self.slowest_s(now),
        }

    def _charged(self, costs: TickCosts) -> Iterator[tuple[str, str]]:
        """Yield the sessions that were charged most, each as a field of the log."""
        by_account = costs.by_account
        most = heapq.nlargest(MOST_SESSIONS, by_account, key=by_account.__getitem__)
        for number, account in enumerate(most, 1):
            share = by_account[account] / costs.spent
            if share >= LEAST_SHARE:
                yield f"session_{number}", f"{self._name(account)} {share:.0%}"
        if len(by_account) > MOST_SESSIONS:
            yield "other_sessions", str(len(by_account) - MOST_SESSIONS)

    def _name(self, account: CostAccount) -> str:
        """The client id of a session and its user or address, each cut if it is long."""
        client_id = account.client_id
        if not client_id:
            return "(not connected yet)"
        session = self._sessions.get(client_id)
        who = "" if session is None else share_name(session)
        return f"{client_id[:LONGEST_NAME]} ({who[:LONGEST_NAME]})"


def share_name(session: Session) -> str:
    """Return whom the work of a session is charged to: `user NAME`, or `address IP`."""
    connection, owner = session.connection, session.owner
    if connection is not None and connection.flow is not None:
        return connection.flow.user.name
    if owner is not None and owner.user is not None:
        return f"user {owner.user}"
    return "" if owner is None else f"address {owner.address}"


def _shares_of_kinds(costs: TickCosts) -> dict[str, float]:
    if not costs.spent:
        return {}
    shares = {str(kind): cost / costs.spent for kind, cost in costs.by_kind.items()}
    return shares | {"other": 1.0 - sum(shares.values())}


def _listed(shares: Mapping[str, float]) -> str:
    """Return shares as text, the largest first."""
    found = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {share:.0%}" for name, share in found if share >= LEAST_SHARE)
