"""Budgets of filters: a user whose filters cost too much has the most expensive ones suspended.

What no kernel decides (`count`, arithmetic, calendars) is evaluated for each candidate, and who
subscribed pays for it: a bucket per user that leaks at the budget. A subscription that makes it
overflow is suspended by a recorded input, its owner is told, and it is resumed after a while, each
time after a longer one. Nobody else notices.
"""

import logging
from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.errors import ErrorReports
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Input, Resumed, Suspended
from nearcast.logs import log_event

BURST_S = 4.0
"""A user may use the budget of so many seconds at once."""
FIRST_S, LONGEST_S = 10.0, 640.0
"""How long a subscription is suspended: doubled each time."""
FORGIVEN_AFTER = 10.0
"""After so many times the last suspension without another one, it begins anew."""
CANDIDATES_EVERY_S = 1.0

log = logging.getLogger("nearcast.broker")


class FilterBucket(Struct):
    """What the filters of a user cost, less what the budget has paid since."""

    level: float = 0.0
    at: float = 0.0
    held_s: float = 0.0
    """The duration of the last suspension."""
    until: float = 0.0
    """When it ends or ended."""


class FilterBudgets(OutcomeFollower):
    """Suspends and resumes subscriptions."""

    def __init__(self, state: BrokerState, errors: ErrorReports) -> None:
        self._state = state
        self._errors = errors
        self._buckets: dict[str, FilterBucket] = {}
        self._due: dict[str, float] = {}
        """When suspended subscriptions are resumed, by id."""
        self._counted_at = 0.0

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Charge what the filters of a step cost, and suspend those that exceed a budget."""
        budget, costs = self._state.limits.filter_cost_per_s, self._state.costs
        if now - self._counted_at >= CANDIDATES_EVERY_S:
            self._counted_at = now
            costs.charge_candidates(self._state.engine.take_candidates())
            self._forget_idle(now)
        charged = costs.take_filter_costs()
        if not charged or not budget:
            return
        by_user: dict[str, dict[str, float]] = {}
        for id_, (client_id, cost) in charged.items():
            session = self._state.sessions.get(client_id)
            if session is not None:
                by_user.setdefault(session.usage.user.name, {})[id_] = cost
        for user, by_subscription in by_user.items():
            bucket = self._filled(user, sum(by_subscription.values()), budget, now)
            if bucket.level > BURST_S * budget:
                self._suspend(_most_costly(by_subscription), bucket, now)

    def remind(self, now: float) -> None:
        """Resume the subscriptions whose time is over."""
        for id_ in [id_ for id_, due in self._due.items() if due <= now]:
            del self._due[id_]
            if id_ in self._state.engine.suspended:
                self._state.pending.ask(Resumed(id_))

    def next_timer(self) -> float | None:
        """The time when the next subscription is resumed."""
        due = min(self._due.values(), default=inf)
        return None if due == inf else due

    def statistics(self) -> dict[str, float]:
        """The number of suspended subscriptions."""
        return {"suspended_subscriptions": len(self._state.engine.suspended)}

    def _filled(self, user: str, cost: float, budget: float, now: float) -> FilterBucket:
        bucket = self._buckets.get(user)
        if bucket is None:
            bucket = self._buckets[user] = FilterBucket(at=now)
        leaked = budget * (now - bucket.at)
        # No fuller than by one step: a user that stops is not punished for long.
        bucket.level = min(max(0.0, bucket.level - leaked), BURST_S * budget) + cost
        bucket.at = now
        return bucket

    def _suspend(self, ids: Iterable[str], bucket: FilterBucket, now: float) -> None:
        if now >= bucket.until:
            is_new = now - bucket.until > FORGIVEN_AFTER * bucket.held_s
            bucket.held_s = FIRST_S if is_new else min(LONGEST_S, 2.0 * bucket.held_s)
            bucket.until = now + bucket.held_s
        state = self._state
        for id_ in ids:
            subscription = state.engine.subscriptions.get(id_)
            if subscription is None:
                continue
            state.pending.ask(Suspended(id_))
            self._due[id_] = bucket.until
            state.counters["suspensions"] += 1
            session = state.sessions.get(subscription.owner)
            if session is not None:
                self._tell(session, id_, bucket.until - now)

    def _tell(self, session: Session, id_: str, held_s: float) -> None:
        granted = session.granted.get(id_)
        label = "" if granted is None else granted.label
        why = (
            f"the filter of this subscription cost more than limits.filter_cost_per_s allows: it "
            f"is suspended for {held_s:.0f} s, and what comes meanwhile is not delivered by it"
        )
        self._errors.tell_now_or_later(session, label, why)
        log_event(
            log, logging.WARNING, "subscription suspended",
            client=session.client_id, subscription=label, seconds=round(held_s),
        )  # fmt: skip

    def _forget_idle(self, now: float) -> None:
        """Drop the buckets of users who have used nothing for long."""
        for user, bucket in list(self._buckets.items()):
            idle_s = now - max(bucket.at, bucket.until)
            if idle_s > max(BURST_S, FORGIVEN_AFTER * bucket.held_s):
                del self._buckets[user]


def _most_costly(by_subscription: dict[str, float]) -> list[str]:
    """The fewest subscriptions without which the rest costs less than half."""
    left = sum(by_subscription.values())
    half, chosen = left / 2.0, []
    for id_, cost in sorted(by_subscription.items(), key=lambda each: -each[1]):
        if left < half:
            break
        chosen.append(id_)
        left -= cost
    return chosen
