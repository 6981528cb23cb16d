"""A count is the number of earlier events, each of which is judged once for a question."""

from random import Random

import pytest

from nearcast.core.engine.engine import Engine, EngineSettings
from nearcast.core.language import Filter, parse
from nearcast.core.matching.counting import counted_columns, counted_events
from nearcast.core.matching.known_world import KnownWorld
from nearcast.core.matching.reference import EventScope
from nearcast.core.model import Event, Position, Subscription, parse_area
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.inputs import Forgot, Input, Moved, Published, RulesSet, Subscribed
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.subject_permissions import SubjectClause, SubjectPermissions
from nearcast.core.model.visibility import SEE_IDENTITY

NODES = ("ann", "bob", "cy", "dee")
SUBJECTS = ("a/x", "a/y", "b", "$s/x")
TARGETS = (
    "circle:53.00,-6,1500",
    "circle:53.01,-6,1500",
    "circle:me,900",
    "circle:bob,900",
    "circle:bob,900,offset=100;0",
    "bbox:53,-7,53.01,-5",
)
QUESTIONS = [
    (pattern, None if where is None else parse(where))
    for pattern in ("#", "a/#", "+/x", "b")
    for where in (None, "n >= 2", "kind = 'bus' OR n < 1", "publisher.role = 'cook'", "n > me.n")
]


def happened(chance: Random, number: int) -> Event:
    at = Position(53.0 + chance.random() / 50, -6.0) if chance.random() < 0.8 else None
    to = parse_area(chance.choice(TARGETS)) if chance.random() < 0.3 else None
    subject, publisher = chance.choice(SUBJECTS), chance.choice(NODES)
    return Event(
        f"e{chance.randint(0, number)}", subject, publisher, float(number),
        {"n": chance.randint(0, 4), "kind": chance.choice(("bus", "car"))}, at, to=to,
        at_given=chance.random() < 0.5, about=("bob",) if chance.random() < 0.1 else (),
    )  # fmt: skip


def asked(world: KnownWorld, chance: Random, event: Event) -> None:
    """Compare some counts with what they are the number of."""
    countable = chance.choice((None, None, SubjectPermissions((SubjectClause(False, ("a/x",)),))))
    scope = EventScope(event, chance.choice(NODES), world, None, countable)
    for subject, where in chance.sample(QUESTIONS, 4):
        at = Position(53.0 + chance.random() / 50, -6.0)
        within = chance.choice((None, Circle(at, chance.choice((10.0, 800.0, 5e6)))))
        wanted = len(world.earlier(scope, subject, where, within))
        assert world.count_earlier(scope, subject, where, within) == wanted
        most = chance.randint(0, 20)
        enough = world.count_earlier(scope, subject, where, within, most)
        assert min(enough, most) == min(wanted, most)
        assert enough <= wanted


def chosen_size(seed: int) -> int:
    """From how many events on cells are used: always, sometimes, or never."""
    return (0, 20, 1_000)[seed % 3]


@pytest.mark.parametrize("seed", range(45))
def test_counts_are_of_what_came_earlier(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted_events, "MOST_REMEMBERED", 150)
    monkeypatch.setattr(counted_events, "MANY", chosen_size(seed))
    for module in (counted_events, counted_columns):
        monkeypatch.setattr(module, "FIRST_ROOM", 2)
    chance = Random(seed)
    engine = Engine(EngineSettings(recent_s=40.0, recent_most=60))
    counts = Subscription("w\\0#", "ann", "#", parse("count('#', 'n > 9') > 1000"))
    inputs: list[Input] = [Subscribed(counts)]
    now = 0.0
    for number in range(200):
        now += chance.choice((0.0, 0.2, 1.0))
        kind = chance.random()
        if kind < 0.1:
            at = Position(53.0 + chance.random() / 50, -6.0)
            inputs.append(Moved(chance.choice(NODES), at))
        elif kind < 0.12:
            inputs.append(Forgot(chance.choice(NODES)))
        elif kind < 0.15:
            hidden = SightRule(
                NodeCondition(), NodeCondition((chance.choice(NODES),)), SEE_IDENTITY
            )
            inputs.append(RulesSet((hidden,) if chance.random() < 0.5 else ()))
        else:
            inputs.append(Published(happened(chance, number)))
        engine.step(inputs, now)
        inputs = []
        asked(engine.matcher.world, chance, happened(chance, number))


def test_an_event_is_judged_once_for_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    world = engine.matcher.world
    where = parse("n >= 2")
    judged = 0

    def evaluate_in(self: Filter, scope: EventScope) -> bool | None:
        nonlocal judged
        judged += self == where
        return evaluate(self, scope)

    evaluate = Filter.evaluate_in
    counts = [
        Subscribed(
            Subscription(f"{n}\\0#", f"n{n}", "#", parse(f"count('#', 'n >= 2') > {1000 + n}"))
        )
        for n in range(100)
    ]
    engine.step(counts, 0.0)
    monkeypatch.setattr(Filter, "evaluate_in", evaluate_in)
    events = [Published(Event(f"e{n}", "a", "ann", 1.0, {"n": n % 5})) for n in range(200)]
    for event in events:
        engine.step([event], 1.0)
    assert judged <= 200
    scope = EventScope(Event("x", "a", "ann", 2.0), "ann", world)
    assert world.count_earlier(scope, "#", where, None) == 120


LIMITS = ("> 3", ">= 3", "< 3", "<= 3", "= 3", "<> 3", "> 2.5", "= 2.5", "< -1", ">= 0", "> -0.5")


@pytest.mark.parametrize("limit", [*LIMITS, "BETWEEN 2 AND 3", "BETWEEN -3 AND -1"])
@pytest.mark.parametrize("events", range(7))
def test_a_count_that_stops_at_its_limit_compares_as_the_whole_one(limit: str, events: int) -> None:
    engine = Engine()
    texts = [f"count('a', '') {limit}", f"count('a', '') * 1 {limit}"]
    if "BETWEEN" not in limit:
        op, number = limit.split()
        mirrored = {">": "<", ">=": "<=", "<": ">", "<=": ">="}.get(op, op)
        texts.append(f"{number} {mirrored} count('a', '')")
    wanted = [
        Subscribed(Subscription(str(i), "ann", "asked", parse(text)))
        for i, text in enumerate(texts)
    ]
    inputs = [Published(Event(f"e{n}", "a", "bob", 0.0)) for n in range(events)]
    engine.step([*wanted, *inputs], 0.0)
    asked = Published(Event("asked", "asked", "bob", 0.0))
    copies = engine.step([asked], 0.0).deliveries
    found = {name for copy in copies for name in copy.subscriptions}
    assert found in (set(), set(map(str, range(len(texts)))))


def crowd(rules: tuple[SightRule, ...], to: str | None) -> KnownWorld:
    """Two thousand events, of which ten are near."""
    engine = Engine()
    counts = Subscription("w", "ann", "#", parse("count('#', 'n > 9') > 1000"))
    start: list[Input] = [
        Subscribed(counts), RulesSet(rules), Moved("ann", Position(53.0, -6.0)),
    ]  # fmt: skip
    engine.step(start, 0.0)
    target = None if to is None else parse_area(to)
    for n in range(2_000):
        at = Position(53.0, -6.0 + n // 10 * 0.1)
        event = Event(f"e{n}", f"a/{n % 3}", "bob", 0.0, {}, at, to=target)
        engine.step([Published(event)], 0.0)
    return engine.matcher.world


@pytest.mark.parametrize("to", [None, "circle:53,-6,900", "bbox:52,-7,54,-5"])
@pytest.mark.parametrize("hides", [False, True])
def test_only_what_is_near_and_undecided_is_looked_at(hides: bool, to: str | None) -> None:
    hidden = SightRule(NodeCondition(), NodeCondition(("cy",)), SEE_IDENTITY)
    world = crowd((hidden,) if hides else (), to)
    countable = SubjectPermissions((SubjectClause(False, ("a/0",)),))
    scope = EventScope(Event("x", "x", "bob", 1.0), "ann", world, None, countable)
    circle = Circle(Position(53.0, -6.0), 800.0)
    wanted = len(world.earlier(scope, "#", None, circle))
    assert wanted == 6
    assert world.count_earlier(scope, "#", None, circle) == wanted
    assert world.counted_singly == (6 if hides or (to or "").startswith("bbox") else 0)
    assert len(world.recent.numbers_near(world.recent.answer("#", None), (53.0, -6.0, 800.0))) < 50
