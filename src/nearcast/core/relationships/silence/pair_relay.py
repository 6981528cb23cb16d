"""The middle between the two members of a pair: it passes on what they say, or speaks for them.

A member is at its node, which keeps silent inside its region, or here, for a node that reports all
its fixes or is not connected. From the messages that pass, the relay knows when what the two have
reported holds for both together: then their relationship can be judged by their reports.
"""

import math

from nearcast.core.relationships.silence.pair_member import PairMember, PairSettings
from nearcast.core.relationships.silence.pair_message import Ack, Crossing, PairMessage
from nearcast.core.relationships.silence.regions.region import Point, Region

Passed = list[tuple[str, PairMessage]]
"""Messages to members at their nodes, with the name of each."""


class _Side:
    """One of the two members."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.member: PairMember | None = None
        """The member itself, if it is here."""
        self.number = 0
        """Of its last crossing in this incarnation."""
        self.is_pending = False
        """Its last crossing was neither adopted nor answered."""
        self.crossing: Crossing | None = None
        """The last one."""

    def begin(self, incarnation: int, member: PairMember | None) -> None:
        self.incarnation, self.member, self.number, self.is_pending = incarnation, member, 0, False
        self.crossing = None


class PairRelay:
    """Passes on messages of a pair."""

    def __init__(self, one: str, other: str, settings: PairSettings) -> None:
        self.settings = settings
        self.known = False
        """True if the last reports of both hold together."""
        self.settled_by: Crossing | None = None
        """The crossing whose regions hold, while they are known to."""
        self._has_news = False
        self._sides = {one: _Side(), other: _Side()}
        self._peers = {one: other, other: one}

    @property
    def wake_at(self) -> float:
        """When `elapse` is due; infinite if nothing waits."""
        members = (side.member for side in self._sides.values())
        return min((each.wake_at for each in members if each is not None), default=math.inf)

    def region(self, name: str) -> Region | None:
        """Where a member keeps silent; None if the regions of now are not known to both."""
        by = self.settled_by
        if not self.known or by is None or by.regions is None:
            return None
        return by.regions.of(told=by.sender == name)

    def take_news(self) -> bool:
        """Return whether reports have become known since the last call."""
        news, self._has_news = self._has_news, False
        return news

    def incarnation(self, name: str) -> int:
        """The number of a member's present start."""
        return self._sides[name].incarnation

    def is_here(self, name: str) -> bool:
        """Whether a member is here, not at its node."""
        return self._sides[name].member is not None

    def hand_over(self, name: str, incarnation: int) -> None:
        """Let a member be at its node from now on, under a new number."""
        self._sides[name].begin(incarnation, None)
        self.known = False

    def take_over(self, name: str, incarnation: int, point: Point, now: float) -> Passed:
        """Speak for a member from now on, under a new number."""
        member = PairMember(name, self.settings, incarnation)
        self._sides[name].begin(incarnation, member)
        self.known = False
        return self._pass_on(name, member.fix(point, now).messages, now)

    def fix(self, name: str, point: Point, now: float) -> Passed:
        """Take a fix of a member that is here."""
        member = self._sides[name].member
        assert member is not None, "it takes its fixes itself"
        return self._pass_on(name, member.fix(point, now).messages, now)

    def receive(self, name: str, message: PairMessage, now: float) -> Passed:
        """Take a message of a member at its node; one of an earlier start is ignored."""
        side = self._sides[name]
        if side.member is not None or message.incarnation != side.incarnation:
            return []
        return self._pass_on(name, (message,), now)

    def elapse(self, now: float) -> Passed:
        """Let time pass for members that are here."""
        passed: Passed = []
        for name, side in self._sides.items():
            if side.member is not None and side.member.wake_at <= now:
                passed += self._pass_on(name, side.member.elapse(now).messages, now)
        return passed

    def _pass_on(self, name: str, messages: tuple[PairMessage, ...], now: float) -> Passed:
        passed: Passed = []
        waiting = [(name, each) for each in messages]
        for sender, message in waiting:
            self._observe(sender, message)
            to = self._peers[sender]
            member = self._sides[to].member
            if member is None:
                passed.append((to, message))
            else:
                waiting += [(to, each) for each in member.receive(message, now).messages]
        return passed

    def _observe(self, sender: str, message: PairMessage) -> None:
        mine, theirs = self._sides[sender], self._sides[self._peers[sender]]
        about = (message.peer_incarnation, message.peer_number)
        is_about_last = about == (theirs.incarnation, theirs.number) and theirs.number > 0
        if isinstance(message, Ack):
            if message.adopted and is_about_last:
                mine.is_pending = theirs.is_pending = False
                self._know(theirs.crossing)
        elif message.number > mine.number:
            self.known = False
            mine.number, mine.is_pending, mine.crossing = message.number, True, message
            if message.regions is not None and theirs.is_pending and is_about_last:
                # It was made with what the peer has just reported.
                theirs.is_pending = False
                self._know(message)

    def _know(self, by: Crossing | None) -> None:
        self.settled_by = by
        if not self.known:
            self.known = self._has_news = True
