"""The ledger of costs: every charge of a tick, by session and by kind, and the shares they advance.

The cost of a tick is bounded by a budget; who used it up is known when the tick was slow. While
nobody waits, charges are only added up: virtual times matter between competitors.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
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
    REMEMBERED_PACKETS,
    REPLAY,
    CostAccount,
    Flow,
    UserShare,
)
from nearcast.broker.scheduling.fair_queue import FairQueue
from nearcast.broker.scheduling.phase_timer import no_clock
from nearcast.broker.sessions.session import Session
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Input, Published, Subscribed

FEW_SHARES = 1_000
"""Shares of users without connections are dropped when there are more than this."""
MICROSECONDS = 1e6


class CostKind(StrEnum):
    """What a cost arose from."""

    INPUT = "input"
    DELIVERIES = "deliveries"
    REPLAYS = "replays"
    FILTERS = "filters"
    SCRIPTS = "scripts"


class TickCosts(NamedTuple):
    """The costs of one tick."""

    spent: float = 0.0
    by_account: Mapping[CostAccount, float] = {}
    by_kind: Mapping[CostKind, float] = {}


Charge = tuple[CostAccount | None, CostKind, float]
"""Who was charged (None: nobody that is known), for what, and how much."""


class CostLedger:
    """Charges sessions and their users."""

    def __init__(self, sessions: dict[str, Session]) -> None:
        self._sessions = sessions
        self.users: FairQueue[UserShare] = FairQueue()
        """Users with waiting input."""
        self.is_contended = False
        """Whether anybody waits."""
        self._shares: dict[str, UserShare] = {}
        self._most_shares = FEW_SHARES
        self.spent = 0.0
        """Units charged since the last tick ended."""
        self.ticks = 0
        """Ticks that have ended."""
        self._charges: list[Charge] = []
        self._last: tuple[float, list[Charge]] = (0.0, [])
        """Units and charges of the last tick."""
        self.clock: Callable[[], float] = no_clock
        """Seconds of work so far. If work takes longer than its count says, it costs that time."""
        self.step_s = 0.0
        """Seconds of engine steps, which are not the work of the connection being served."""
        self._copies = 0
        """Copies that the connection being served caused so far."""
        self._filter_costs: dict[str, tuple[str, float]] = {}
        self._charged: set[UserShare] = set()
        """Users that were charged in competition since the last tick ended."""

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
        self.is_contended = True

    def dequeue(self, flow: Flow) -> None:
        """Note that no input of a connection waits."""
        user = flow.user
        user.flows.remove(flow)
        if not user.flows:
            self.users.remove(user)
            self.is_contended = len(self.users) > 0

    def next_flow(self) -> Flow | None:
        """The connection whose input is next."""
        user = self.users.first()
        return None if user is None else user.flows.first()

    def end_of_tick(self) -> None:
        """Begin to count anew; among those of whom nothing waits, nobody owes anything."""
        self._last = self.spent, self._charges
        self.spent, self._charges = 0.0, []
        self.ticks += 1
        if self._charged:
            for user in self._charged:
                user.flows.forgive()
            self._charged.clear()
            self.users.forgive()
        if len(self._shares) > self._most_shares and not self.is_contended:
            self._shares = {n: each for n, each in self._shares.items() if each.connections}
            self._most_shares = FEW_SHARES + 2 * len(self._shares)

    @property
    def latest(self) -> TickCosts:
        """The costs of the last tick."""
        spent, charges = self._last
        by_account: dict[CostAccount, float] = {}
        by_kind: dict[CostKind, float] = {}
        for account, kind, cost in charges:
            by_kind[kind] = by_kind.get(kind, 0.0) + cost
            if account is not None:
                by_account[account] = by_account.get(account, 0.0) + cost
        return TickCosts(spent, by_account, by_kind)

    # Charges

    def charge(self, flow: Flow, kind: CostKind, cost: float) -> None:
        """Charge a connection and its user."""
        account = flow.account
        account.cost += cost
        self.spent += cost
        self._charges.append((account, kind, cost))
        flow.cost += cost
        if self.is_contended:
            user = flow.user
            user.flows.charge(flow, cost)
            self.users.charge(user, cost)
            self._charged.add(user)

    def charge_session(self, session: Session, kind: CostKind, cost: float) -> None:
        """Charge a session, and its connection if it has one."""
        connection = session.connection
        if connection is None and session.reader is not None:
            payer = self._sessions.get(session.reader.payer)
            connection = None if payer is None else payer.connection
        flow = None if connection is None else connection.flow
        if flow is not None:
            self.charge(flow, kind, cost)
            return
        session.account.cost += cost
        self.spent += cost
        self._charges.append((session.account, kind, cost))

    def note_copies(self, session: Session, copies: int) -> None:
        """Note copies of the session that is being served; `charge_turn` charges them."""
        session.account.deliveries += copies
        self._copies += copies

    def charge_turn(self, flow: Flow, packets: int, took_s: float) -> None:
        """Charge a connection for packets and their copies, or for the time that they took."""
        account, size = flow.account, flow.kept_bytes
        account.packets += packets
        account.bytes += size
        flow.kept_bytes = 0
        flow.packets += packets
        if flow.packets > REMEMBERED_PACKETS:
            flow.forget_half()
        cost = PACKET * packets + KIBIBYTE * size / 1_024
        copies, self._copies = self._copies, 0
        if copies:
            cost += DELIVERY * copies
        measured = MICROSECONDS * took_s
        if measured > cost:
            cost = measured
        kind = CostKind.INPUT if copies <= packets else CostKind.DELIVERIES
        if self.is_contended:
            self.charge(flow, kind, cost)
            return
        account.cost += cost
        self.spent += cost
        self._charges.append((account, kind, cost))
        flow.cost += cost

    def charge_step(
        self,
        inputs: Sequence[Input],
        sent: Sequence[Deliveries],
        evaluations: Collection[tuple[Subscription, int]],
        began: float,
    ) -> None:
        """Charge for an engine step that began at a time of the clock.

        Publishers for inputs and copies, recipients for replays, subscribers for what their filters
        had evaluated.
        """
        if len(inputs) == 1 and not evaluations and self._charge_single(inputs[0], sent, began):
            return
        charges: dict[tuple[str, CostKind], float] = {}
        sessions = self._sessions
        for each in inputs:
            who = _author(each), CostKind.INPUT
            charges[who] = charges.get(who, 0.0) + INPUT
        for deliveries in sent:
            if deliveries.replayed:
                for owner, copies in _copies_by_recipient(deliveries).items():
                    who = owner, CostKind.REPLAYS
                    charges[who] = charges.get(who, 0.0) + REPLAY * copies
                    if owner in sessions:
                        sessions[owner].account.replayed += copies
            else:
                for origin, copies in _copies_by_publisher(deliveries).items():
                    who = origin, CostKind.DELIVERIES
                    charges[who] = charges.get(who, 0.0) + DELIVERY * copies
                    if origin in sessions:
                        sessions[origin].account.deliveries += copies
        for subscription, count in evaluations:
            who = subscription.owner, CostKind.FILTERS
            charges[who] = charges.get(who, 0.0) + EVALUATION * count
            if who[0] in sessions:
                sessions[who[0]].account.evaluations += count
        took_s = self.clock() - began
        self.step_s += took_s
        scale = max(1.0, MICROSECONDS * took_s / max(1.0, sum(charges.values())))
        for (client_id, kind), cost in charges.items():
            session = sessions.get(client_id)
            if session is not None:
                self.charge_session(session, kind, scale * cost)
            else:
                self.spent += scale * cost
                self._charges.append((None, kind, scale * cost))
        for subscription, count in evaluations:
            self._note_filter(subscription, scale * EVALUATION * count)

    def _charge_single(self, only: Input, sent: Sequence[Deliveries], began: float) -> bool:
        """Charge for a step with one event; False if it is not so simple."""
        if type(only) is not Published or len(sent) > 1 or (sent and sent[0].replayed):
            return False
        session = self._sessions.get(only.event.origin)
        if session is None:
            return False
        cost, kind = INPUT, CostKind.INPUT
        if sent:
            copies = len(sent[0].recipients)
            session.account.deliveries += copies
            if copies > INPUT / DELIVERY:
                kind = CostKind.DELIVERIES
            cost += DELIVERY * copies
        took_s = self.clock() - began
        self.step_s += took_s
        measured = MICROSECONDS * took_s
        self.charge_session(session, kind, measured if measured > cost else cost)
        return True

    def charge_candidates(self, compared: Iterable[tuple[Subscription, int]]) -> None:
        """Charge subscribers for what kernels compared with events since the last call."""
        for subscription, count in compared:
            session = self._sessions.get(subscription.owner)
            if session is not None:
                session.account.candidates += count
                self.charge_session(session, CostKind.FILTERS, CANDIDATE * count)
                self._note_filter(subscription, CANDIDATE * count)

    def take_filter_costs(self) -> dict[str, tuple[str, float]]:
        """Return the session and the cost of each filter since the last call, by subscription."""
        costs = self._filter_costs
        if costs:
            self._filter_costs = {}
        return costs

    def _note_filter(self, subscription: Subscription, cost: float) -> None:
        before = self._filter_costs.get(subscription.id, ("", 0.0))[1]
        self._filter_costs[subscription.id] = subscription.owner, before + cost

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
