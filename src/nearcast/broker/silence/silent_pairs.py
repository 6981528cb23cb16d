"""The pairs of silent relationships at a broker: their members, and what is settled.

A pair serves all relationships of the same two nodes and metres. A relationship is settled while
all its pairs are; each time that comes true the engine is asked to judge it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import inf

from nearcast.broker.silence.silence_plan import NO_PLAN, PairKey, SilencePlan, silence_plan
from nearcast.core.engine.engine import Engine, Outcome
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.core.model.inputs import Input, RelationshipSettled, RelationshipSilenced
from nearcast.core.model.region_record import RegionRecord
from nearcast.core.relationships.silence.follow_messages import WatchedPair
from nearcast.core.relationships.silence.pair_member import PairSettings
from nearcast.core.relationships.silence.pair_message import PairMessage
from nearcast.core.relationships.silence.pair_relay import PairRelay, Passed
from nearcast.core.relationships.silence.regions.region import Point, position_limit, position_point
from nearcast.core.relationships.silence.regions.region_text import region_text
from nearcast.core.relationships.silence.regions.strategies import STRATEGIES

STRATEGY = "exit-hazard"


class _Pair:
    def __init__(self, key: PairKey, number: int) -> None:
        self.key = key
        self.number = number
        settings = PairSettings(position_limit(key.within_m), STRATEGIES[STRATEGY])
        self.relay = PairRelay(key.one, key.other, settings)
        self.relationships: set[str] = set()
        self.unknown_since = inf


def members(key: PairKey) -> tuple[str, str]:
    """Return the two members of a pair."""
    return key.one, key.other


class SilentPairs:
    """All pairs that are watched now."""

    def __init__(
        self, engine: Engine, followers: Mapping[str, object], ask: Callable[[Input], None]
    ) -> None:
        self._engine = engine
        self._followers = followers
        self._ask = ask
        self._pairs: dict[PairKey, _Pair] = {}
        self._by_number: dict[int, _Pair] = {}
        self._of_node: dict[str, dict[PairKey, _Pair]] = {}
        self._plans: dict[str, SilencePlan] = {}
        """Of relationships with a plan."""
        self._reporting: dict[str, set[str]] = {}
        """Nodes that must report every fix, each with the relationships that need it."""
        self._silenced: set[str] = set()
        """Relationships that the engine judges when they are settled."""
        self._to_review: dict[str, None] = {}
        self._news: dict[str, None] = {}
        """Relationships of whose pairs one has become known."""
        self._unrecorded: dict[str, dict[PairKey, None]] = {}
        """Their pairs with regions that the log does not have yet."""
        self._fixes: list[tuple[str, Point]] = []
        self._numbers = 0
        self._changed: set[str] = set()
        """Nodes whose list of pairs is another than was told."""
        self._messages: dict[str, list[tuple[int, PairMessage]]] = {}
        self._waking: dict[PairKey, float] = {}
        self._unknown: dict[PairKey, float] = {}
        """Pairs that are not settled, since when."""

    def __bool__(self) -> bool:
        return bool(self._pairs)

    # What changes

    def begin(self, node: str) -> None:
        """Let the members of a node be at it: it follows regions from now on."""
        self._messages.pop(node, None)
        self._changed.add(node)
        self._review_of(node)
        if not self._is_silent(node):
            return
        for pair in self._of_node.get(node, {}).values():
            pair.relay.hand_over(node, self._next_number())

    def end(self, node: str) -> None:
        """Let the members of a node be here: it follows regions no more."""
        self._messages.pop(node, None)
        self._note_changed((node,))
        self._review_of(node)

    def redefined(self, name: str) -> None:
        """Follow a relationship that was defined; the engine judges it by moves at first."""
        self._silenced.discard(name)
        self.review(name)

    def review(self, name: str) -> None:
        """Plan a relationship anew, soon."""
        if self._followers or name in self._plans:
            self._to_review[name] = None

    def review_all(self) -> None:
        """Plan all relationships of followers anew, since rights may have changed."""
        for name in self._plans:
            self._to_review[name] = None
        for node in self._followers:
            self._review_of(node)

    def _review_of(self, node: str) -> None:
        for name in self._engine.relationships.of_member(node):
            self._to_review[name] = None

    def follow(self, outcome: Outcome) -> None:
        """Take note of the positions and the relationships that a step changed."""
        restricts = self._engine.rights.restricts
        for change in outcome.node_changes:
            node, state = change.node, change.state
            at = None if state is None else state.position
            if restricts or (at is None) != (change.before.position is None):
                self._review_of(node)
            if at is not None and node in self._of_node:
                self._fixes.append((node, position_point(at)))
        for notice in outcome.notices:
            if isinstance(notice, RelationshipNotice) and notice.ended:
                self.review(notice.relationship)

    # Plans

    def replan(self, now: float) -> None:
        """Put the plans of relationships in force that may be others now."""
        while self._to_review:
            to_review, self._to_review = self._to_review, {}
            for name in to_review:
                self._put_plan(name, now)

    def _put_plan(self, name: str, now: float) -> None:
        before = self._plans.pop(name, NO_PLAN)
        plan = silence_plan(self._engine, name, self._followers)
        self._put_reporting(name, before.reporting, plan.reporting)
        if plan.pairs and not any(self._is_silent(m) for key in plan.pairs for m in members(key)):
            # All members report every fix: it is judged by moves.
            plan = NO_PLAN
        if plan != NO_PLAN:
            self._plans[name] = plan
        if plan.pairs and name not in self._silenced:
            self._silenced.add(name)
            self._ask(RelationshipSilenced(name, True))
        for key in plan.pairs:
            self._watch(key, name, now)
        for key in before.pairs:
            if key not in plan.pairs:
                self._unwatch(key, name)
        if plan.pairs:
            self._news[name] = None
            self._unrecorded[name] = dict.fromkeys(plan.pairs)
        elif name in self._silenced:
            self._silenced.discard(name)
            self._unrecorded.pop(name, None)
            self._ask(RelationshipSilenced(name, False))

    def _put_reporting(self, name: str, before: Iterable[str], after: Iterable[str]) -> None:
        """Note who must report every fix for a relationship; their members are here."""
        for node in before:
            self._reporting[node].discard(name)
            if not self._reporting[node]:
                del self._reporting[node]
                if node not in after and node in self._followers:
                    self.begin(node)
        for node in after:
            if node not in self._reporting:
                self._reporting[node] = set()
                if node not in before:
                    self.end(node)
            self._reporting[node].add(name)

    def _is_silent(self, node: str) -> bool:
        """Whether the members of a node are at it."""
        return node in self._followers and node not in self._reporting

    def _watch(self, key: PairKey, name: str, now: float) -> None:
        pair = self._pairs.get(key)
        if pair is None:
            self._numbers += 1
            pair = self._pairs[key] = self._by_number[self._numbers] = _Pair(key, self._numbers)
            for member in members(pair.key):
                self._of_node.setdefault(member, {})[key] = pair
                if self._is_silent(member):
                    pair.relay.hand_over(member, self._next_number())
            self._note_changed(members(pair.key))
        pair.relationships.add(name)
        for member in members(pair.key):
            if not self._is_silent(member) and not pair.relay.is_here(member):
                at = self._engine.position(member)
                assert at is not None, "members of a watched pair have positions"
                point = position_point(at)
                passed = pair.relay.take_over(member, self._next_number(), point, now)
                self._pass_on(pair, passed)
        self._look(pair, now)

    def _unwatch(self, key: PairKey, name: str) -> None:
        pair = self._pairs[key]
        pair.relationships.discard(name)
        if pair.relationships:
            return
        del self._pairs[key], self._by_number[pair.number]
        self._waking.pop(key, None)
        self._unknown.pop(key, None)
        for member in members(pair.key):
            own = self._of_node[member]
            del own[key]
            if not own:
                del self._of_node[member]
        self._note_changed(members(pair.key))

    def _note_changed(self, members: Iterable[str]) -> None:
        self._changed.update(each for each in members if each in self._followers)

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # The members' protocol

    def receive(self, node: str, number: int, message: PairMessage, now: float) -> None:
        """Take a message of a node to its peer in a pair."""
        pair = self._by_number.get(number)
        if pair is not None and node in members(pair.key):
            self._pass_on(pair, pair.relay.receive(node, message, now))
            self._look(pair, now)

    def take_fixes(self, now: float) -> None:
        """Pass the fixes of nodes that report all to their members."""
        fixes, self._fixes = self._fixes, []
        for node, point in fixes:
            for pair in list(self._of_node.get(node, {}).values()):
                if pair.relay.is_here(node):
                    self._pass_on(pair, pair.relay.fix(node, point, now))
                    self._look(pair, now)

    def wake(self, now: float) -> None:
        """Let time pass for members that are here."""
        for key in [key for key, at in self._waking.items() if at <= now]:
            pair = self._pairs[key]
            self._pass_on(pair, pair.relay.elapse(now))
            self._look(pair, now)

    def _pass_on(self, pair: _Pair, passed: Passed) -> None:
        for to, message in passed:
            if not self._is_silent(to):
                # It will be here soon.
                continue
            self._messages.setdefault(to, []).append((pair.number, message))

    def _look(self, pair: _Pair, now: float) -> None:
        """Note when a pair is due, and whether what it knows has become settled."""
        key, relay = pair.key, pair.relay
        self._waking.pop(key, None)
        if relay.wake_at < inf:
            self._waking[key] = relay.wake_at
        if not relay.known:
            self._unknown.setdefault(key, now)
            return
        self._unknown.pop(key, None)
        if relay.take_news():
            for name in pair.relationships:
                self._news[name] = None
                self._unrecorded.setdefault(name, {})[key] = None

    def settle(self) -> None:
        """Ask the engine to judge relationships of which something has become known."""
        news, self._news = self._news, {}
        for name in sorted(news):
            plan = self._plans.get(name, NO_PLAN)
            if name in self._silenced and all(self._pairs[each].relay.known for each in plan.pairs):
                changed = self._unrecorded.pop(name, {})
                regions = chain.from_iterable(map(self._regions, changed))
                self._ask(RelationshipSettled(name, tuple(regions)))

    def _regions(self, key: PairKey) -> Iterator[RegionRecord]:
        """Where the members of a pair that is known keep silent."""
        pair = self._pairs.get(key)
        if pair is None or pair.relay.settled_by is None:
            return
        for member, peer in (members(key), reversed(members(key))):
            region, at = pair.relay.region(member), self._engine.position(member)
            if region is not None and at is not None:
                point = position_point(at)
                words, margin_m = region_text(region, point), region.margin(point, 0.0)
                yield RegionRecord(
                    member, peer, pair.relay.settled_by.sender, words, round(margin_m, 3)
                )

    def unanswered_by(self, since: float) -> list[str]:
        """Return the nodes that have left a peer without an answer since then."""
        late = [key for key, at in self._unknown.items() if at <= since]
        concerned = (each for key in late for each in members(key))
        return list(dict.fromkeys(each for each in concerned if self._is_silent(each)))

    @property
    def is_due(self) -> bool:
        """Whether something waits to be done at once."""
        return bool(self._to_review or self._fixes or self._changed or self._messages)

    def next_timer(self, answer_within_s: float) -> float | None:
        """The time when a member here wakes, or an answer is overdue; None: never."""
        overdue = min(self._unknown.values(), default=inf) + answer_within_s
        due = min(min(self._waking.values(), default=inf), overdue)
        return None if due == inf else due

    # Orders

    def reports_all(self, node: str) -> bool:
        """Whether a node must report every fix."""
        return node in self._reporting

    def watched_by(self, node: str) -> tuple[WatchedPair, ...]:
        """The pairs of a node, as it is told them."""
        return tuple(
            WatchedPair(
                pair.number,
                pair.key.other if node == pair.key.one else pair.key.one,
                pair.key.within_m,
                STRATEGY,
                pair.relay.incarnation(node),
            )
            for pair in self._of_node.get(node, {}).values()
            if self._is_silent(node)
        )

    def take_orders(self, node: str) -> tuple[bool, tuple[tuple[int, PairMessage], ...]]:
        """Return whether the pairs of a node are others now, and the messages to it."""
        changed = node in self._changed
        self._changed.discard(node)
        return changed, tuple(self._messages.pop(node, ()))
