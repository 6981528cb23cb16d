"""A node that reports only what must be known: when it leaves a region, or is far from its report.

The node's side of silence, without I/O: it takes fixes, orders of its broker and time, and says
what to report. In each pair it runs the members' protocol (`pair_member`).
"""

import math

from nearcast.core.model.geometry.position import Position
from nearcast.core.relationships.silence.follow_messages import (
    FollowOrders,
    FollowReport,
    WatchedPair,
)
from nearcast.core.relationships.silence.pair_member import PairMember, PairSettings, PairStep
from nearcast.core.relationships.silence.pair_message import Crossing, PairMessage
from nearcast.core.relationships.silence.regions.region import (
    Point,
    distance,
    position_limit,
    position_point,
)
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES


class Follower:
    """The regions of a node, and what it has to report."""

    def __init__(self, node: str, accuracy_m: float | None) -> None:
        self.node = node
        self.fixes = 0
        self._accuracy = math.inf if accuracy_m is None else position_limit(accuracy_m)
        self._run: int | None = None
        """None until the broker has said something."""
        self._must_report_all = False
        self._members: dict[int, PairMember] = {}
        self._orders: dict[int, WatchedPair] = {}
        self._position: Position | None = None
        self._point: Point | None = None
        self._reported: Point | None = None
        self._is_due = False
        """The position is to be reported."""
        self._messages: list[tuple[int, PairMessage]] = []

    # Inputs

    def fix(self, position: Position, now: float) -> None:
        """Take a fix."""
        self.fixes += 1
        self._position = position
        self._point = point = position_point(position)
        for number, member in self._members.items():
            self._note(number, member.fix(point, now))
        reported = self._reported
        if self._must_report_all or reported is None or distance(point, reported) >= self._accuracy:
            self._is_due = True

    def obey(self, orders: FollowOrders, now: float) -> None:
        """Take orders of the broker."""
        if orders.run != self._run:
            self._run = orders.run
            self._members, self._orders, self._messages = {}, {}, []
            self._is_due = True
        if orders.all and not self._must_report_all:
            self._is_due = True
        self._must_report_all = orders.all or not orders.run
        if orders.pairs is not None:
            self._keep(orders.pairs, now)
        for number, message in orders.messages:
            member = self._members.get(number)
            if member is not None:
                self._note(number, member.receive(message, now))
                if self._reported is not None and not member.may_be_at(self._reported, now):
                    # Regions that I adopt in silence would not fit the report that all know:
                    # it may be newer than the one from which the peer made them.
                    self._is_due = True

    def elapse(self, now: float) -> None:
        """Let time pass: repeat what was not acknowledged."""
        for number, member in self._members.items():
            if member.wake_at <= now:
                self._note(number, member.elapse(now))

    @property
    def wake_at(self) -> float:
        """When `elapse` is due; infinite if nothing waits."""
        return min((each.wake_at for each in self._members.values()), default=math.inf)

    # Results

    def take_report(self) -> FollowReport | None:
        """Return what is to be reported now, and consider it reported; None: nothing."""
        at, messages = self._position, tuple(self._messages)
        if at is None or self._run is None or not (self._is_due or messages):
            return None
        self._messages = []
        if not self._is_due:
            return FollowReport(self._run, messages=messages)
        self._is_due, self._reported = False, self._point
        return FollowReport(self._run, (at.lon, at.lat), messages)

    def end(self) -> FollowReport:
        """Return the last report."""
        at = self._position
        return FollowReport(self._run or 0, None if at is None else (at.lon, at.lat), end=True)

    def _keep(self, pairs: tuple[WatchedPair, ...], now: float) -> None:
        """Keep silent in these pairs only; one with the same incarnation goes on."""
        before, members = self._orders, self._members
        self._orders = {each.number: each for each in pairs}
        self._members = {}
        for number, pair in self._orders.items():
            if before.get(number) == pair:
                self._members[number] = members[number]
                continue
            strategy = STRATEGIES.get(pair.strategy, STRATEGIES["strip"])
            settings = PairSettings(position_limit(pair.within_m), strategy)
            member = PairMember(self.node, settings, pair.incarnation)
            self._members[number] = member
            if self._point is not None:
                self._note(number, member.fix(self._point, now))
        self._messages = [each for each in self._messages if each[0] in self._members]

    def _note(self, number: int, step: PairStep) -> None:
        for message in step.messages:
            if isinstance(message, Crossing):
                # It says all that an earlier one does.
                self._messages = [
                    each for each in self._messages
                    if each[0] != number or not isinstance(each[1], Crossing)
                ]  # fmt: skip
                self._is_due = True
            self._messages.append((number, message))
