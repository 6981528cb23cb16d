"""The memory guard: what a broker does in each stage of shortage, before the system kills it."""

import ctypes
import gc
import logging
from collections.abc import Callable
from functools import partial
from heapq import nlargest
from math import inf

from nearcast.broker.auth.identities import parse_address
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.quotas.memory_budget import MemoryStage, memory_limit, next_stage
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_usage import QuotaUsage, UserUsage
from nearcast.broker.sessions.loss_reason import LossReason
from nearcast.logs import log_event
from nearcast.wire.mqtt import ReasonCode, clear_topic_cache

log = logging.getLogger("nearcast.broker")

TRIM_EVERY_S = 60.0
"""Memory is returned to the system at most so often, since that takes long."""
MOST_QUEUES = 20
"""The queues that lose messages of QoS 0 in one check."""
MEBIBYTE = 1 << 20


class MemoryGuard:
    """Sheds load in a stated order; checks are made about once a second."""

    def __init__(self, state: BrokerState, setting: int) -> None:
        self._state = state
        self.limit = memory_limit(setting)
        self.used = 0
        self.stage = MemoryStage.NORMAL
        self.paused: frozenset[str] = frozenset()
        """Users whose clients are not read now."""
        self.trim: Callable[[], None] = partial(trim_memory, state)
        self._trimmed_at = -inf
        self._checks_short = 0
        """How many checks in a row found the broker in the stage of shedding."""

    @property
    def is_short(self) -> bool:
        """Whether nothing new is accepted."""
        return self.stage >= MemoryStage.REFUSE

    def check(self, used: int, now: float) -> None:
        """Enter the stage that follows from the memory in use, and do what it asks for."""
        before, self.used = self.stage, used
        self.stage = next_stage(before, used, self.limit)
        if self.stage is not before:
            level = logging.WARNING if self.stage > before else logging.INFO
            stage = self.stage.name.lower()
            log_event(log, level, "memory", stage=stage, used=used, limit=self.limit)
        if self.stage >= MemoryStage.TRIM and now - self._trimmed_at >= TRIM_EVERY_S:
            self._trimmed_at = now
            self.trim()
        self._state.quotas.shortage = self._shortage() if self.is_short else ""
        if self.stage >= MemoryStage.SHED:
            self._checks_short += 1
            self._pause_users()
            self._shed()
        else:
            self._checks_short, self.paused = 0, frozenset()
        if self.stage >= MemoryStage.DISCONNECT:
            self._disconnect()

    def statistics(self) -> dict[str, float]:
        """Use, limit and stage."""
        return {
            "memory_bytes": self.used,
            "memory_limit_bytes": self.limit,
            "memory_stage": self.stage,
            "memory_paused_users": len(self.paused),
        }

    def _shortage(self) -> str:
        return (
            f"the broker uses {self.used // MEBIBYTE} MiB of the {self.limit // MEBIBYTE} MiB of "
            "limits.memory: nothing new is accepted now"
        )

    def _users(self) -> list[UserUsage]:
        """Users with queued messages, those with most bytes first."""
        users = [user for user in self._state.quotas.users() if _queued(user)]
        return sorted(users, key=_queued, reverse=True)

    def _pause_users(self) -> None:
        """Stop reading from the users with half of all queued bytes, then half of the rest."""
        users, paused, held = self._users(), [], 0
        wanted = (1.0 - 0.5**self._checks_short) * sum(map(_queued, users))
        for user in users:
            if held >= wanted:
                break
            paused.append(user.name)
            held += _queued(user)
        self.paused = frozenset(paused)

    def _shed(self) -> None:
        """Drop the messages of QoS 0 in the largest queues."""
        state = self._state
        for usage in nlargest(MOST_QUEUES, state.quotas.sessions(), key=_queued):
            session = state.sessions.get(usage.name)
            if session is not None and _queued(usage):
                for priority, count in session.drop_unconfirmed(state.journal).items():
                    session.lose(LossReason.MEMORY, count, priority)
                    state.losers.add(session)
                    state.counters["shed"] += count

    def _disconnect(self) -> None:
        """Close the connections of the user with most queued bytes."""
        for user in self._users()[:1]:
            for usage in [each for each in self._state.quotas.sessions() if each.user is user]:
                session = self._state.sessions.get(usage.name)
                if session is None or session.connection is None or not _queued(usage):
                    continue
                why = f"{_queued(usage)} bytes wait for this client; {self._shortage()}"
                self._state.close(session.connection, ReasonCode.QUOTA_EXCEEDED, why)
                self._state.counters["shed_connections"] += 1


def trim_memory(state: BrokerState) -> None:
    """Clear caches, collect garbage, and return free memory to the system."""
    state.engine.forget_routes()
    clear_topic_cache()
    parse_address.cache_clear()
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        # Another C library, which has no such function.
        return


def _queued(usage: QuotaUsage) -> int:
    return usage.used[Resource.QUEUED_BYTES]
