"""The ledger of costs: every charge of a tick, by session, and the shares that they advance.

The cost of a tick is bounded by a budget; who used it up is known when the tick was slow.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

import numpy as np

from nearcast.broker.net.connection import Connection
from nearcast.broker.scheduling.cost_account import (
    CANDIDATE,
    DELIVERY,
    EVALUATION,
    INPUT,
    KIBIBYTE,
    PACKET,
    REPLAY,
    CostAccount,
    Flow,
    UserShare,
)
from nearcast.broker.scheduling.fair_queue import FairQueue
from nearcast.broker.sessions.session import Session
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Input, Published, Subscribed

FEW_SHARES = 1_000
"""Shares of users without connections are dropped when there are more than this."""


MICROSECONDS = 1e6


def no_clock() -> float:
    """The clock of virtual time: work takes none, only its counts are charged."""
    return 0.0


class Work(NamedTuple):
    """The state of the ledger when a piece of work began."""

    began: float
    step_s: float
    spent: float


class CostLedger:
    """Charges sessions and their users."""

    def __init__(self, sessions: dict[str, Session]) -> None:
        self._sessions = sessions
        self.users: FairQueue[UserShare] = FairQueue()
        """Users with waiting input."""
        self._shares: dict[str, UserShare] = {}
        self._most_shares = FEW_SHARES
        self.spent = 0.0
        """Units charged since the last tick ended."""
        self.by_account: dict[CostAccount, float] = {}
        """The same by session."""
        self.clock: Callable[[], float] = no_clock
        """Seconds of work so far. If work takes longer than its count says, it costs that time."""
        self._step_s = 0.0
        """Seconds of engine steps, which are not the work of the connection being served."""
        self._filter_costs: dict[str, tuple[str, float]] = {}
        self._charged: set[UserShare] = set()
        """Users that were charged since then."""

    # Shares

    def open(self, connection: Connection, user: str) -> Flow:
        """Give a connection its share among those of its user."""
        flow = connection.flow
        if flow is not None:
            if flow.user.name == user:
                return flow
            self.close(connection)
        share = self._shares.get(user)
        if share is None:
            share = self._shares[user] = UserShare(user)
        share.connections += 1
        account = None if flow is None else flow.account
        flow = connection.flow = Flow(connection, share)
        if account is not None:
            flow.account = account
        return flow

    def close(self, connection: Connection) -> None:
        """Take a connection out of the shares of its user."""
        flow = connection.flow
        if flow is not None:
            self.dequeue(flow)
            flow.user.connections -= 1
            connection.flow = None

    def enqueue(self, flow: Flow) -> None:
        """Note that input of a connection waits."""
        flow.user.flows.add(flow)
        self.users.add(flow.user)

    def dequeue(self, flow: Flow) -> None:
        """Note that no input of a connection waits."""
        user = flow.user
        user.flows.remove(flow)
        if not user.flows:
            self.users.remove(user)

    def next_flow(self) -> Flow | None:
        """The connection whose input is next."""
        user = self.users.first()
        return None if user is None else user.flows.first()

    def end_of_tick(self) -> None:
        """Begin to count anew; among those of whom nothing waits, nobody owes anything."""
        self.spent = 0.0
        self.by_account.clear()
        for user in self._charged:
            user.flows.forgive()
        self._charged.clear()
        self.users.forgive()
        if len(self._shares) > self._most_shares and not self.users:
            self._shares = {n: each for n, each in self._shares.items() if each.connections}
            self._most_shares = FEW_SHARES + 2 * len(self._shares)

    # Charges

    def charge(self, flow: Flow, cost: float) -> None:
        """Charge a connection and its user."""
        user = flow.user
        user.flows.charge(flow, cost)
        self.users.charge(user, cost)
        self._charged.add(user)
        self._note(flow.account, cost)

    def charge_session(self, session: Session, cost: float) -> None:
        """Charge a session, and its connection if it has one."""
        connection = session.connection
        flow = None if connection is None else connection.flow
        if flow is None:
            self._note(session.account, cost)
        else:
            flow.remember(0, cost)
            self.charge(flow, cost)

    def charge_packets(self, flow: Flow, packets: int, size: int) -> None:
        """Charge a connection for received packets."""
        account = flow.account
        account.packets += packets
        account.bytes += size
        cost = PACKET * packets + KIBIBYTE * size / 1_024
        flow.remember(packets, cost)
        self.charge(flow, cost)

    def charge_copies(self, session: Session, copies: int) -> None:
        """Charge a publisher for copies to recipients."""
        session.account.deliveries += copies
        self.charge_session(session, DELIVERY * copies)

    def started(self) -> Work:
        """Begin to measure work."""
        return Work(self.clock(), self._step_s, self.spent)

    def charge_work(self, flow: Flow, work: Work) -> None:
        """Charge a connection for the time of its work that its counted costs do not cover."""
        took_s = self.clock() - work.began - (self._step_s - work.step_s)
        missing = MICROSECONDS * took_s - (self.spent - work.spent)
        if missing > 0.0:
            flow.remember(0, missing)
            self.charge(flow, missing)

    def charge_step(
        self,
        inputs: Iterable[Input],
        sent: Iterable[Deliveries],
        evaluations: Collection[tuple[Subscription, int]],
        work: Work,
    ) -> None:
        """Charge for an engine step.

        Publishers for inputs and copies, recipients for replays, subscribers for what their filters
        had evaluated.
        """
        charges: dict[str, float] = {}
        for each in inputs:
            who = _author(each)
            charges[who] = charges.get(who, 0.0) + INPUT
        for deliveries in sent:
            if deliveries.replayed:
                for owner, copies in _copies_by_recipient(deliveries).items():
                    charges[owner] = charges.get(owner, 0.0) + REPLAY * copies
                    if owner in self._sessions:
                        self._sessions[owner].account.replayed += copies
            else:
                for origin, copies in _copies_by_publisher(deliveries).items():
                    charges[origin] = charges.get(origin, 0.0) + DELIVERY * copies
                    if origin in self._sessions:
                        self._sessions[origin].account.deliveries += copies
        for subscription, count in evaluations:
            owner = subscription.owner
            charges[owner] = charges.get(owner, 0.0) + EVALUATION * count
            if owner in self._sessions:
                self._sessions[owner].account.evaluations += count
        took_s = self.clock() - work.began
        self._step_s += took_s
        scale = max(1.0, MICROSECONDS * took_s / max(1.0, sum(charges.values())))
        for client_id, cost in charges.items():
            session = self._sessions.get(client_id)
            if session is not None:
                self.charge_session(session, scale * cost)
            else:
                self.spent += scale * cost
        for subscription, count in evaluations:
            self._note_filter(subscription, scale * EVALUATION * count)

    def charge_candidates(self, compared: Iterable[tuple[Subscription, int]]) -> None:
        """Charge subscribers for what kernels compared with events since the last call."""
        for subscription, count in compared:
            session = self._sessions.get(subscription.owner)
            if session is not None:
                session.account.candidates += count
                self.charge_session(session, CANDIDATE * count)
                self._note_filter(subscription, CANDIDATE * count)

    def take_filter_costs(self) -> dict[str, tuple[str, float]]:
        """Return the session and the cost of each filter since the last call, by subscription."""
        costs, self._filter_costs = self._filter_costs, {}
        return costs

    def _note_filter(self, subscription: Subscription, cost: float) -> None:
        before = self._filter_costs.get(subscription.id, ("", 0.0))[1]
        self._filter_costs[subscription.id] = subscription.owner, before + cost

    def _note(self, account: CostAccount, cost: float) -> None:
        account.cost += cost
        self.spent += cost
        self.by_account[account] = self.by_account.get(account, 0.0) + cost

    def statistics(self) -> dict[str, float]:
        """Numbers of users and of those that wait."""
        return {"users": len(self._shares), "users_waiting": len(self.users)}


def _author(each: Input) -> str:
    """The session, or at least the node, that an input comes from; empty if it has none."""
    if type(each) is Published:
        return each.event.origin
    if isinstance(each, Subscribed):
        return each.subscription.owner
    return getattr(each, "session", "") or getattr(each, "node", "")


def _copies_by_publisher(deliveries: Deliveries) -> dict[str, int]:
    """The number of copies of the events of each publishing session."""
    events = deliveries.events
    if len(events) == 1:
        return {events[0].origin: len(deliveries)}
    rows = deliveries.rows
    counts = np.bincount(rows.event[rows.starts], minlength=len(events)).tolist()
    found: dict[str, int] = {}
    for event, count in zip(events, counts, strict=True):
        found[event.origin] = found.get(event.origin, 0) + count
    return found


def _copies_by_recipient(deliveries: Deliveries) -> dict[str, int]:
    """The number of copies for each session."""
    found: dict[str, int] = {}
    for recipient, places, _ in deliveries.by_session():
        found[recipient.owner] = found.get(recipient.owner, 0) + len(places)
    return found
