"""One member of a pair that keeps silent: a state machine of fixes, messages and time (seed A).

Inside its region a member says nothing. On leaving it, it tells its peer where it is, which of the
peer's reports it used, and the regions that follow for both. The peer adopts them and checks in the
same step whether it is inside; if not, it acts as if it had just left. If both leave at once their
crossings cross: each compares the two, and both keep the one with the smaller slack. Crossings are
repeated until they are acknowledged, so what one knows becomes known to both.

Promises, whatever is lost, late, repeated or overtaken, and whoever restarts: once nothing is under
way, both have the same regions and are inside them, so the state that both tell is the true one;
near and apart alternate. State is bounded: one report and one crossing of each side.
"""

import math

from msgspec import Struct

from nearcast.core.relationships.silence.pair_message import Ack, Crossing, PairMessage
from nearcast.core.relationships.silence.regions.region import Point, Regions, distance
from nearcast.core.relationships.silence.regions.strategy import SilenceStrategy
from nearcast.core.relationships.silence.report import Motion


class PairSettings(Struct, frozen=True):
    """How a pair keeps silent."""

    within: float
    """In space; of positions `position_limit`."""
    strategy: SilenceStrategy
    retry_s: float = 2.0
    """The time after which a crossing without acknowledgement is repeated; it doubles each time."""
    retry_most_s: float = 30.0


class Transition(Struct, frozen=True, gc=False):
    """The relationship begins to be near, or apart, as far as this member knows."""

    near: bool
    time: float


class PairStep(Struct, frozen=True, gc=False):
    """What follows from one input."""

    messages: tuple[PairMessage, ...] = ()
    transition: Transition | None = None


SILENT = PairStep()


class PairMember:
    """One side of a pair."""

    def __init__(self, name: str, settings: PairSettings, incarnation: int = 1) -> None:
        self.name = name
        self.incarnation = incarnation
        self.near: bool | None = None
        """The state, None until it is known."""
        self.regions: Regions | None = None
        self.told_by_me = False
        """True if the regions in force are of my crossing."""
        self._settings = settings
        self._motion = Motion(settings.strategy.smoothing_s, settings.strategy.stale_intervals)
        self._told: Crossing | None = None
        self._is_pending = False
        self._retry_at = math.inf
        self._retry_s = settings.retry_s
        self._heard: Crossing | None = None
        self._number = 0

    # Inputs

    def fix(self, point: Point, time: float) -> PairStep:
        """Take a fix of this member."""
        self._motion.move(point, time)
        return self._check(time)

    def take(self, point: Point, time: float) -> None:
        """Take a fix, to be looked at by the next `elapse`.

        Of two that sample at one instant, the one that looks later has then heard what the other
        said of this instant, and often need say nothing.
        """
        self._motion.move(point, time)

    def elapse(self, now: float) -> PairStep:
        """Let time pass: repeat what was not acknowledged; a moving region may have left me."""
        if self._motion.point is None:
            return SILENT
        step = self._check(now)
        if step is not SILENT or not self._is_pending or now < self._retry_at:
            return step
        assert self._told is not None
        self._retry_s = min(2.0 * self._retry_s, self._settings.retry_most_s)
        self._retry_at = now + self._retry_s
        if self._told.regions is None:
            # It has moved meanwhile, and has no region to say so by.
            return PairStep((self._tell(now),))
        return PairStep((self._told,))

    def reconnect(self, now: float) -> PairStep:
        """Take note that the peer can be reached again: repeat at once what it may have missed."""
        self._retry_s = self._settings.retry_s
        self._retry_at = now
        return self.elapse(now)

    def receive(self, message: PairMessage, now: float) -> PairStep:
        """Take a message of the peer."""
        if isinstance(message, Ack):
            return self._receive_ack(message, now)
        return self._receive_crossing(message, now)

    @property
    def wake_at(self) -> float:
        """When `elapse` is due; infinite if nothing waits."""
        return self._retry_at if self._is_pending else math.inf

    @property
    def is_settled(self) -> bool:
        """True if it waits for nothing."""
        return self.regions is not None and not self._is_pending

    def margin(self, now: float) -> float:
        """Return how far this member is inside its region; without one it is outside."""
        if self.regions is None or self._motion.point is None:
            return -math.inf
        if self.told_by_me:
            return self.regions.teller_margin(self._motion.point, now)
        return self.regions.peer_margin(self._motion.point, now)

    def may_be_at(self, point: Point, now: float) -> bool:
        """Return whether a point is in this member's region; True without regions."""
        if self.regions is None:
            return True
        if self.told_by_me:
            return self.regions.teller_margin(point, now) >= 0.0
        return self.regions.peer_margin(point, now) >= 0.0

    # A fix, or time

    def _check(self, now: float) -> PairStep:
        regions, point = self.regions, self._motion.point
        assert point is not None
        if regions is None:
            return SILENT if self._is_pending else PairStep((self._tell(now),))
        moved_s = min(max(now - regions.since, 0.0), regions.moves_s)
        mine = regions.teller if self.told_by_me else regions.peer
        if mine.margin(point, moved_s) >= 0.0:
            return SILENT
        return PairStep((self._tell(now),))

    def _tell(self, now: float) -> Crossing:
        """Return a crossing from what I know, in force for me from now on."""
        mine, heard = self._motion.report(now), self._heard
        regions, slack = None, 0.0
        if heard is not None:
            age_s = None if self._has_just_heard else max(now - heard.report.time, 0.0)
            theirs = heard.report
            regions = self._settings.strategy.propose(mine, theirs, self._settings.within, age_s)
            slack = abs(distance(mine.point, theirs.point) - self._settings.within)
        self._number += 1
        self._told = Crossing(
            self.name, self.incarnation, self._number,
            heard.incarnation if heard else 0, heard.number if heard else 0,
            mine, regions, slack,
        )  # fmt: skip
        self.regions, self.told_by_me = regions, True
        if not self._is_pending:
            self._retry_s = self._settings.retry_s
        self._is_pending, self._retry_at = True, now + self._retry_s
        return self._told

    _has_just_heard = False
    """True while a crossing is handled, whose report is of this moment."""

    # Messages

    def _receive_ack(self, ack: Ack, now: float) -> PairStep:
        told = self._told
        is_mine = (
            told is not None
            and ack.peer_incarnation == self.incarnation
            and ack.peer_number == told.number
        )
        if told is None or not is_mine or told.regions is None or not self.told_by_me:
            return SILENT
        if self._heard is None or ack.incarnation != self._heard.incarnation:
            return SILENT
        self._is_pending = False
        return self._become(told.regions.near, now) if ack.adopted else SILENT

    def _receive_crossing(self, heard: Crossing, now: float) -> PairStep:
        before = self._heard
        if before is not None and heard.incarnation < before.incarnation:
            return SILENT
        if heard.peer_incarnation not in (0, self.incarnation):
            # Meant for me before I restarted; the peer will hear of that.
            return SILENT
        if before is not None and heard.incarnation == before.incarnation:
            if heard.number < before.number:
                return SILENT
            if heard.number == before.number:
                return self._acknowledge_again(heard)
        self._heard = heard
        if self._motion.point is None:
            # Nothing to say yet: my first fix will answer.
            self._forget_regions()
            return SILENT
        if self._is_superseded_by(heard):
            return self._adopt(heard, now)
        if self.told_by_me and self.regions is not None:
            return PairStep((self._ack(heard, adopted=False),))
        return self._answer(heard, now)

    def _is_superseded_by(self, heard: Crossing) -> bool:
        """Return whether a crossing of the peer counts, rather than my last one."""
        told = self._told
        if told is None or told.regions is None or heard.regions is None:
            # Who knows less asks; of two who ask, the one whose name comes first is answered.
            if heard.regions is None and told is not None and told.regions is None:
                return heard.sender < self.name
            return True
        if told.peer_incarnation != heard.incarnation or heard.peer_incarnation == 0:
            return True
        if heard.peer_number == told.number:
            return True
        return (heard.slack, heard.sender) < (told.slack, told.sender)

    def _adopt(self, heard: Crossing, now: float) -> PairStep:
        self.regions, self.told_by_me, self._is_pending = heard.regions, False, False
        if heard.regions is None or self.margin(now) < 0.0:
            return self._answer(heard, now)
        assert self._motion.point is not None
        if self._is_worth_answering(heard, heard.regions, now):
            return self._answer(heard, now)
        step = self._become(heard.regions.near, now)
        return PairStep((self._ack(heard, adopted=True),), step.transition)

    def _is_worth_answering(self, heard: Crossing, regions: Regions, now: float) -> bool:
        mine, told = self._motion.report(now), self._told
        if told is not None and (told.number, told.report.point) == (heard.peer_number, mine.point):
            # The peer knew all that I know.
            return False
        strategy, within = self._settings.strategy, self._settings.within
        return strategy.is_worth_answering(regions, mine, heard.report, within)

    def _answer(self, heard: Crossing, now: float) -> PairStep:
        """Act as if I had just left: both points are known now."""
        self._has_just_heard = True
        told = self._tell(now)
        self._has_just_heard = False
        assert told.regions is not None
        return PairStep((told,), self._become(told.regions.near, now).transition)

    def _acknowledge_again(self, heard: Crossing) -> PairStep:
        if self._is_pending and self._told is not None:
            if self._told.peer_number == heard.number:
                # My answer is under way, and says that the crossing arrived.
                return SILENT
            return PairStep((self._ack(heard, adopted=False),))
        return PairStep((self._ack(heard, adopted=not self.told_by_me),))

    def _ack(self, heard: Crossing, *, adopted: bool) -> Ack:
        return Ack(self.name, self.incarnation, heard.incarnation, heard.number, adopted)

    def _forget_regions(self) -> None:
        self.regions, self.told_by_me, self._is_pending = None, False, False

    def _become(self, near: bool, now: float) -> PairStep:
        if self.near is near:
            return SILENT
        self.near = near
        return PairStep((), Transition(near, now))
