"""Random rules in random worlds: the matcher and the reference go by them alike."""

from collections.abc import Mapping

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.matching.reference import decide
from nearcast.core.model import (
    SEE_ALL,
    SEE_IDENTITY,
    SEE_NOTHING,
    Box,
    Circle,
    Event,
    Polygon,
    Position,
    Subscription,
    place,
)
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geometry.area_resolution import holds, resolve
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    PolicySet,
    RulesSet,
    SightSet,
    Subscribed,
)
from nearcast.core.rights import NodeCondition, SightRule
from tests.core.rights.hospital import HERE, WARD, sees
from tests.support.plain import plain_world as plain

patterns = st.sampled_from(((), (), ("ann",), ("b*", "dee"), ("*e*",), ("eve",)))

conditions = st.sampled_from(
    (None, None, parse("role = 'chief'"), parse("level >= 1"), parse("flag"), parse("rank = 2"))
)

regions = st.sampled_from((None, None, None, place("Dublin"), Circle(HERE, 60.0), WARD))

whoever = st.tuples(patterns, conditions, regions).map(lambda given_: NodeCondition(*given_))

rule_sets = st.tuples(
    st.lists(
        st.tuples(
            whoever,
            whoever,
            plain.masks,
            st.sampled_from((False, False, True)),
            st.sampled_from((None, None, "role")),
        ).map(lambda given_: SightRule(*given_)),
        max_size=4,
    ).map(tuple),
    st.sampled_from(({}, {"ann": {"rank": 2}}, {"*e": {"level": 1}, "b*": {"rank": 2}})),
    st.sampled_from((("rank",), ("rank", "role"))),
    st.sampled_from(((), ("role", "level", "flag"))),
    st.sampled_from((SEE_ALL, SEE_ALL, SEE_NOTHING, SEE_IDENTITY)),
).map(lambda given_: RulesSet(*given_))  # type: ignore[arg-type]

nodes = st.sampled_from(plain.NODES)

happenings = st.one_of(
    st.tuples(st.just("rule"), rule_sets),
    st.tuples(st.just("move"), nodes, st.none() | plain.positions | st.just(HERE)),
    st.tuples(st.just("update"), nodes, plain.contexts),
    st.tuples(st.just("update"), nodes, plain.contexts),
    st.tuples(st.just("see"), nodes, nodes, st.none() | plain.masks),
    st.tuples(st.just("add"), plain.subscriptions),
    st.tuples(st.just("match"), st.lists(plain.events, min_size=1, max_size=4)),
)


class RuledWorld(plain.PlainWorld):
    """The plain world, with rules applied as they read."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = RulesSet()
        self.own: dict[str, dict[str, object]] = {}
        self.exceptions: dict[tuple[str, str], int] = {}

    def mask(self, viewer: str, other: str) -> int:
        if viewer == other:
            return SEE_ALL
        if (viewer, other) in self.exceptions:
            return self.exceptions[viewer, other]
        for each in self.rules.rules:
            mine, theirs = self.context(viewer), self.context(other)
            friends = theirs.get("friends", ())
            if (
                self.is_(each.viewer, viewer)
                and self.is_(each.other, other)
                and (not each.friend or viewer in friends)  # type: ignore[operator]
                and (each.same is None or mine.get(each.same) == theirs.get(each.same) is not None)
            ):
                return each.see
        return self.rules.default

    def is_(self, whoever: NodeCondition, node: str) -> bool:
        at = self.position(node)
        named = {"ann": ("ann",), "b*": ("bob",), "dee": ("dee",), "*e*": ("dee", "eve")}
        names = [name for one in whoever.nodes for name in named.get(one, (one,))]
        if names and node not in names:
            return False
        if whoever.inside is not None:
            area = resolve(
                whoever.inside, caller=None, position_of=self.position, places=self.places
            )
            if at is None or not holds(area, at):
                return False
        return whoever.where is None or whoever.where.evaluate(self.context(node)) is True  # type: ignore[arg-type]

    def context(self, node: str) -> dict[str, object]:
        found = {n: v for n, v in self.own.get(node, {}).items() if n not in self.protected()}
        for pattern, granted in reversed(self.rules.grants.items()):
            fits = {"ann": ("ann",), "*e": ("dee", "eve"), "b*": ("bob",)}[pattern]
            if node in fits:
                found |= granted
        return found

    def protected(self) -> set[str]:
        names = set(self.rules.protected)
        names |= {name for granted in self.rules.grants.values() for name in granted}
        for each in self.rules.rules:
            if each.viewer.where is not None:
                names.add(each.viewer.where.to_text().strip('"').split()[0].strip('"'))
            if each.same is not None:
                names.add(each.same)
        return names - set(self.rules.settable)

    def _context(self, node: str, sees: int) -> dict[str, object]:
        self.contexts: dict[str, Mapping[str, object]] = {node: self.context(node)}
        return super()._context(node, sees)

    def kind(self, node: str) -> object:
        """What the rules know of a node."""
        return [
            (
                self.is_(each.viewer, node),
                self.is_(each.other, node),
                each.same and self.context(node).get(each.same),
            )
            for each in self.rules.rules
        ]


class Pair:
    """The engine and the ruled world, told the same."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.world = RuledWorld()
        self.now = 0.0
        dublin = Polygon((((-6.4, 53.2), (-6.1, 53.2), (-6.1, 53.4), (-6.4, 53.4), (-6.4, 53.2)),))
        regions = {"Dublin": ("city", dublin), "Pole": ("region", Box(80.0, -180.0, 90.0, 180.0))}
        rows = f'{{"rows": {[list(plain.ROW)] * 3}}}'
        self.step(PolicySet("matrix", "default", rows))
        for name, (kind, area) in regions.items():
            self.step(PlaceDefined(kind, name, area))  # type: ignore[arg-type]
            self.world.places.add(kind, name, area)  # type: ignore[arg-type]

    def step(self, value: Input) -> None:
        self.now += 1.0
        assert self.engine.step([value], self.now).refusals == []

    def rule(self, rules: RulesSet) -> None:
        self.step(rules)
        self.world.rules = rules

    def move(self, node: str, position: Position | None) -> None:
        before = self.world.kind(node)
        self.step(Moved(node, position))
        if position is None:
            self.world.fixes.pop(node, None)
        else:
            self.world.fixes.setdefault(node, []).append(position)
            if self.world.kind(node) != before:
                # What it was before is nobody's business.
                self.world.fixes[node] = [position]

    def update(self, node: str, context: dict[str, object]) -> None:
        kept = dict(self.world.own.get(node, {}))
        names = {*kept, *context} - self.world.protected()
        patch = {name: context.get(name) for name in names}
        self.step(ContextPatched(node, patch))  # type: ignore[arg-type]
        self.world.own[node] = {n: v for n, v in (kept | patch).items() if v is not None}

    def see(self, viewer: str, other: str, mask: int | None) -> None:
        self.step(SightSet(viewer, other, mask))
        if mask is None:
            self.world.exceptions.pop((viewer, other), None)
        else:
            self.world.exceptions[viewer, other] = mask

    def add(self, subscription: Subscription) -> None:
        name = f"s{len(self.engine.subscriptions)}"
        values = {f: getattr(subscription, f) for f in subscription.__struct_fields__}
        self.step(Subscribed(Subscription(**(values | {"id": name}))))

    def match(self, events: list[Event]) -> None:
        engine = self.engine
        found = engine.matcher.match(EventBatch.of(events))
        wanted = list(engine.subscriptions.values())
        numbers = {engine._state.subscriptions.number(each.id): each for each in wanted}
        got = sorted(
            (e, numbers[s].id, p)
            for e, s, p in zip(*(column.tolist() for column in found[:3]), strict=True)
        )
        expected = sorted(
            (i, each.id, priority)
            for i, one in enumerate(events)
            for each in wanted
            if (priority := self.world.concerns(one, each)) is not None
        )
        assert got == expected
        # The reference decides what matches; what it matters is decided elsewhere.
        plainly = [each for each in wanted if each.relevance is None]
        reference = sorted(
            (i, each.id, verdict.priority)
            for i, one in enumerate(events)
            for each in plainly
            if (verdict := decide(one, each, engine.matcher.world)).priority is not None
        )
        ids = {each.id for each in plainly}
        assert reference == [each for each in expected if each[1] in ids]
        for viewer in (*plain.NODES, "eve"):
            for other in (*plain.NODES, "eve"):
                assert sees(engine, viewer, other) == self.world.mask(viewer, other)


@settings(
    max_examples=2 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.tuples(*(plain.positions for _ in plain.NODES)),
    rule_sets,
    st.lists(plain.subscriptions, min_size=4, max_size=8),
    st.lists(happenings, max_size=10),
    st.lists(plain.events, min_size=3, max_size=6),
)
def test_matcher_and_reference_go_by_the_rules_as_they_read(
    fixes: tuple[Position, ...],
    rules: RulesSet,
    wanted: list[Subscription],
    happened: list[tuple[object, ...]],
    last: list[Event],
) -> None:
    pair = Pair()
    pair.rule(rules)
    for node, position in zip(plain.NODES, fixes, strict=True):
        pair.move(node, position)
    for subscription in wanted:
        pair.add(subscription)
    for what, *details in happened:
        getattr(pair, str(what))(*details)
    pair.match(last)
