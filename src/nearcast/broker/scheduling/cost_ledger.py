"""The ledger of costs: every charge of a tick, by session, and the shares that they advance.

The cost of a tick is bounded by a budget; who used it up is known when the tick was slow.
"""

from collections.abc import Iterable

import numpy as np

from nearcast.broker.net.connection import Connection
from nearcast.broker.scheduling.cost_account import (
    DELIVERY,
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
from nearcast.core.model.inputs import Input, Published

FEW_SHARES = 1_000
"""Shares of users without connections are dropped when there are more than this."""


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

    def charge_step(self, inputs: Iterable[Input], sent: Iterable[Deliveries]) -> None:
        """Charge for an engine step: publishers for inputs and copies, recipients for replays."""
        published: dict[str, int] = {}
        for each in inputs:
            if type(each) is Published:
                origin = each.event.origin
                published[origin] = published.get(origin, 0) + 1
        for origin, count in published.items():
            self._charge_named(origin, INPUT * count)
        for deliveries in sent:
            if deliveries.replayed:
                for owner, copies in _copies_by_recipient(deliveries).items():
                    session = self._sessions.get(owner)
                    if session is not None:
                        session.account.replayed += copies
                        self.charge_session(session, REPLAY * copies)
            else:
                for origin, copies in _copies_by_publisher(deliveries).items():
                    session = self._sessions.get(origin)
                    if session is not None:
                        self.charge_copies(session, copies)

    def _charge_named(self, client_id: str, cost: float) -> None:
        session = self._sessions.get(client_id)
        if session is not None:
            self.charge_session(session, cost)

    def _note(self, account: CostAccount, cost: float) -> None:
        account.cost += cost
        self.spent += cost
        self.by_account[account] = self.by_account.get(account, 0.0) + cost

    def statistics(self) -> dict[str, float]:
        """Numbers of users and of those that wait."""
        return {"users": len(self._shares), "users_waiting": len(self.users)}


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
