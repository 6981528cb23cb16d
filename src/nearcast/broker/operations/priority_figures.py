"""Figures of all queues by priority: waiting, sent, dropped, and the age of the oldest."""

from collections import Counter
from math import inf

from nearcast.broker.broker_state import BrokerState
from nearcast.core.propagation.outbox import WITHHELD


def priority_figures(state: BrokerState, levels: int, now: float) -> dict[str, float]:
    """Return counters and gauges; labels are written as Prometheus does."""
    traffic = state.priorities
    waiting: Counter[int] = Counter()
    oldest: dict[int, float] = {}
    for session in state.sessions.values():
        if session.waiting:
            for priority, (count, since) in session.by_priority().items():
                waiting[priority] += count
                oldest[priority] = min(since, oldest.get(priority, inf))
    found: dict[str, float] = {
        "withheld_total": traffic.withheld,
        "withheld_waiting": waiting[WITHHELD],
        "withheld_dropped_total": traffic.dropped[WITHHELD],
    }
    known = {*range(1, levels + 1), *traffic.sent, *traffic.dropped, *waiting} - {WITHHELD}
    for priority in sorted(known):
        label = f'{{priority="{priority}"}}'
        found[f"waiting{label}"] = waiting[priority]
        found[f"sent_total{label}"] = traffic.sent[priority]
        found[f"dropped_total{label}"] = traffic.dropped[priority]
        found[f"age_seconds{label}"] = max(0.0, now - oldest.get(priority, now))
    return found
