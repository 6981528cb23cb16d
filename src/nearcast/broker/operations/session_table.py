"""Who uses what: the sessions of a broker by CPU, bytes, queue, deliveries or filters.

Rates come from two samples of all accounts. Sampling is divided into pieces, between which the
event loop does its other work, so that asking does not delay clients however many sessions there
are.
"""

import asyncio
import heapq
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

from nearcast.broker.net.links import Hold, Link
from nearcast.broker.scheduling.cost_account import CANDIDATE, EVALUATION
from nearcast.broker.sessions.session import Session

PIECE = 250
"""Sessions that are looked at before other work goes on."""
MICROSECONDS = 1e6

_STATES = {
    Hold.TURN: "waiting for its turn",
    Hold.DISK: "held for the disk",
    Hold.DEAF: "blocked",
}
"""States of clients that are not read from, the most telling first."""


class SessionCounts(NamedTuple):
    """What a session has used since it began."""

    cost: float = 0.0
    packets: int = 0
    bytes: int = 0
    packets_sent: int = 0
    bytes_sent: int = 0
    deliveries: int = 0
    filters: float = 0.0
    """Cost units of evaluated predicates and of candidates."""

    def since(self, earlier: "SessionCounts") -> "SessionCounts":
        """What was used since an earlier sample."""
        # Field by field: this is done for every session.
        return SessionCounts(
            self.cost - earlier.cost,
            self.packets - earlier.packets,
            self.bytes - earlier.bytes,
            self.packets_sent - earlier.packets_sent,
            self.bytes_sent - earlier.bytes_sent,
            self.deliveries - earlier.deliveries,
            self.filters - earlier.filters,
        )


class SessionUse(Struct, frozen=True):
    """One session: who it is, its state, and what it uses a second."""

    client: str
    user: str | None
    """None: anonymous."""
    address: str
    """Empty if it is not connected, or a part of the broker."""
    state: str
    cpu: float
    """The share of a core."""
    packets_in_per_s: float
    bytes_in_per_s: float
    packets_out_per_s: float
    bytes_out_per_s: float
    deliveries_per_s: float
    """Copies of its events to recipients."""
    filters_cpu: float
    """The share of a core for its filters."""
    queued: int
    queued_bytes: int
    subscriptions: int
    dropped: int
    """Messages that did not fit into its queue so far."""


class SortKey(StrEnum):
    """What sessions are sorted by."""

    CPU = "cpu"
    BYTES = "bytes"
    QUEUE = "queue"
    DELIVERIES = "deliveries"
    FILTERS = "filters"


_VALUES: Mapping[SortKey, Callable[[Session, SessionCounts], float]] = {
    SortKey.CPU: lambda session, used: used.cost,
    SortKey.BYTES: lambda session, used: used.bytes + used.bytes_sent,
    SortKey.QUEUE: lambda session, used: session.waiting_bytes,
    SortKey.DELIVERIES: lambda session, used: used.deliveries,
    SortKey.FILTERS: lambda session, used: used.filters,
}
"""The value of each key, from what a session used meanwhile."""

_NONE = SessionCounts()


class SessionTable:
    """Finds the sessions that use most."""

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self._sessions = sessions

    async def top(self, key: SortKey, most: int, interval_s: float) -> list[SessionUse]:
        """Return the sessions that are first by a key, from what they use in an interval."""
        value, began = _VALUES[key], time.monotonic()
        before = await self._sample()
        await asyncio.sleep(interval_s)
        best: list[tuple[float, int, Session, SessionCounts]] = []
        at = 0
        for piece in _pieces(list(self._sessions.values())):
            for session in piece:
                used = counts_of(session).since(before.get(session, _NONE))
                # Among equals the first stays first; sessions themselves have no order.
                at -= 1
                best.append((value(session, used), at, session, used))
            best = heapq.nlargest(most, best)
            await asyncio.sleep(0)
        passed_s = time.monotonic() - began
        return [use_of(session, used, passed_s) for _, _, session, used in best]

    async def _sample(self) -> dict[Session, SessionCounts]:
        found: dict[Session, SessionCounts] = {}
        for piece in _pieces(list(self._sessions.values())):
            for session in piece:
                found[session] = counts_of(session)
            await asyncio.sleep(0)
        return found


def counts_of(session: Session) -> SessionCounts:
    """What a session has used since it began."""
    account = session.account
    return SessionCounts(
        account.cost,
        account.packets,
        account.bytes,
        account.packets_sent,
        account.bytes_sent,
        account.deliveries,
        EVALUATION * account.evaluations + CANDIDATE * account.candidates,
    )


def use_of(session: Session, used: SessionCounts, passed_s: float) -> SessionUse:
    """Describe a session, from what it used in a time."""
    connection = session.connection
    return SessionUse(
        client=session.client_id,
        user=user_of(session),
        address="" if connection is None else connection.peer.address,
        state=state_of(session),
        cpu=used.cost / MICROSECONDS / passed_s,
        packets_in_per_s=used.packets / passed_s,
        bytes_in_per_s=used.bytes / passed_s,
        packets_out_per_s=used.packets_sent / passed_s,
        bytes_out_per_s=used.bytes_sent / passed_s,
        deliveries_per_s=used.deliveries / passed_s,
        filters_cpu=used.filters / MICROSECONDS / passed_s,
        queued=session.waiting,
        queued_bytes=session.waiting_bytes,
        subscriptions=len(session.granted),
        dropped=session.dropped,
    )


def user_of(session: Session) -> str | None:
    """The name of a session's user; None if it is anonymous."""
    connection = session.connection
    if connection is not None and connection.admitted is not None:
        return connection.admitted.identity.user
    return None if session.owner is None else session.owner.user


def state_of(session: Session) -> str:
    """Whether a session is connected, and why its client is not read from or written to."""
    connection = session.connection
    if connection is None:
        return "away"
    if connection.closing:
        return "ending"
    if connection.flow is not None and connection.flow.paced_until:
        return "too fast"
    link = connection.host
    if isinstance(link, Link):
        for reason, state in _STATES.items():
            if link.is_held(reason):
                return state
    return "blocked" if connection.blocked else "connected"


def _pieces(sessions: Sequence[Session]) -> Iterator[list[Session]]:
    rest = iter(sessions)
    while piece := list(islice(rest, PIECE)):
        yield piece
