"""`count()` counts what the asker would have got, against ten plain lines."""

import random

import pytest
from msgspec import Struct

from nearcast.core.engine.engine import Engine, EngineInputs, EngineSettings, Outcome
from nearcast.core.language import parse
from nearcast.core.model import SEE_ALL, SEE_POSITION, Box, parse_area, subject_matches
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import Area, Around, Circle
from nearcast.core.model.geometry.area_resolution import Anchored, holds
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    AreaWatched,
    Forgot,
    Input,
    Moved,
    Published,
    Restarted,
    RulesSet,
    SightSet,
    Subscribed,
)
from nearcast.core.model.record import Record
from nearcast.core.model.sight_rule import NodeCondition, SightRule
from nearcast.core.model.subject_permissions import SubjectClause, SubjectPermissions
from nearcast.store import input_of, record_row

NODES = ("ann", "bob", "cy")
SUBJECTS = ("a/x", "a/y", "secret/x", "$s/x", "asked")
PATTERNS = ("a/#", "#", "secret/x", "+/x", "$s/#")
CLAUSES = (("secret/#",), ("+/x",), ("a/y", "$s/+"), ("a",), None)
RECENT_S = 100.0
SETTINGS = EngineSettings(position_ttl_s=1e6, recent_s=RECENT_S)


class Counting(Struct):
    """Something that a node counts."""

    id: str
    node: str
    pattern: str
    metres: float | None
    countable: SubjectPermissions | None

    def where(self) -> str:
        metres = "" if self.metres is None else f", {self.metres}"
        return f"count('{self.pattern}', 'n >= 2'{metres}) = wanted"


class Happened(Struct):
    """An event, when it came in, and where its target lay then."""

    event: Event
    at: float
    target: object


class PlainCounts:
    """All that happened, and how many of it somebody would have got."""

    def __init__(self) -> None:
        self.now = 0.0
        self.happened: list[Happened] = []
        self.places: dict[str, Position] = {}
        self.masks: dict[tuple[str, str], int] = {}

    def count(self, asked: Event, one: Counting) -> int | None:
        here = self.places.get(one.node)
        if one.metres is not None and here is None:
            return None
        return sum(self._counts(each, asked, one, here) for each in self.happened)

    def _counts(self, each: Happened, asked: Event, one: Counting, here: Position | None) -> bool:
        event = each.event
        sees = self.sees(one.node, event.publisher)
        at = event.position if event.at_given or sees & SEE_POSITION else None
        return (
            each.at >= self.now - RECENT_S
            and event.id != asked.id
            and subject_matches(one.pattern, event.subject)
            and permitted(one.countable, event.subject)
            and (event.to is None or (here is not None and holds(each.target, here)))  # type: ignore[arg-type]
            and event.attributes["n"] >= 2  # type: ignore[operator]
            and (one.metres is None or (at is not None and holds(Circle(here, one.metres), at)))  # type: ignore[arg-type]
        )

    def sees(self, viewer: str, other: str) -> int:
        return SEE_ALL if viewer == other else self.masks.get((viewer, other), SEE_ALL)

    def target(self, event: Event) -> object:
        """Where the target of an event lies now."""
        if not isinstance(event.to, Around):
            return event.to
        anchor = event.publisher if event.to.anchor == "me" else event.to.anchor
        seen = self.sees(event.publisher, anchor) == SEE_ALL
        at = self.places.get(anchor) if seen else None
        return None if at is None else Anchored(at, event.to.shape)


def permitted(countable: SubjectPermissions | None, subject: str) -> bool:
    if countable is None:
        return True
    for clause in countable.clauses:
        if clause.patterns is None or any(subject_matches(p, subject) for p in clause.patterns):
            return clause.allow
    return countable.default


class Life:
    """Nodes move and publish at random; who counts what is asked by events with a number."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.plain = PlainCounts()
        self.wanted = [self._counting(f"w{number}") for number in range(8)]
        self.made = 0

    def _counting(self, name: str) -> Counting:
        draw = self.draw
        countable = None
        if draw.random() < 0.7:
            clauses = [SubjectClause(draw.random() < 0.5, draw.choice(CLAUSES)) for _ in range(2)]
            countable = SubjectPermissions(tuple(clauses), draw.random() < 0.7)
        metres = draw.choice((None, 200.0, 1_500.0))
        return Counting(name, draw.choice(NODES), draw.choice(PATTERNS), metres, countable)

    def subscriptions(self) -> list[Input]:
        return [
            Subscribed(
                Subscription(
                    each.id, each.node, "asked", parse(each.where()), countable=each.countable
                )
            )
            for each in self.wanted
        ]

    def next(self) -> tuple[Input, set[str] | None]:
        """The next input, and whose counts it meets if it asks for them."""
        draw, plain = self.draw, self.plain
        plain.now += draw.choice((0.0, 1.0, 5.0, 30.0))
        kind = draw.random()
        if kind < 0.25:
            node, at = draw.choice(NODES), _somewhere(draw)
            plain.places[node] = at
            return Moved(node, at), None
        if kind < 0.3:
            viewer, other = draw.sample(NODES, 2)
            plain.masks[viewer, other] = mask = draw.choice((0, SEE_POSITION, SEE_ALL))
            return SightSet(viewer, other, mask), None
        if kind < 0.32:
            node = draw.choice(NODES)
            plain.places.pop(node, None)
            plain.happened = [each for each in plain.happened if each.event.publisher != node]
            return Forgot(node), None
        self.made += 1
        asks = kind < 0.6
        event = self._event("asked" if asks else draw.choice(SUBJECTS))
        counts = {each.id: plain.count(event, each) for each in self.wanted}
        target = plain.target(event)
        plain.happened.append(Happened(event, plain.now, target))
        if not asks:
            return Published(event), None
        met = {each.id for each in self.wanted if counts[each.id] == event.attributes["wanted"]}
        reached = [
            each
            for each in self.wanted
            if event.to is None or ((here := plain.places.get(each.node)) and holds(target, here))  # type: ignore[arg-type]
        ]
        return Published(event), met & {each.id for each in reached}

    def _event(self, subject: str) -> Event:
        draw = self.draw
        publisher = draw.choice(NODES)
        given = draw.random() < 0.3
        at = _somewhere(draw) if given else self.plain.places.get(publisher)
        attributes = {"n": draw.randrange(4), "wanted": draw.randrange(5)}
        return Event(
            f"e{self.made}", subject, publisher, self.plain.now, attributes, at, given, _to(draw)
        )


def _somewhere(draw: random.Random) -> Position:
    return Position(53.35 + draw.randrange(6) / 250, -6.26)


def _to(draw: random.Random) -> Area | None:
    to = draw.choice((None, None, "circle:me,700", "circle:bob,700", "circle:53.354,-6.26,700"))
    return None if to is None else parse_area(to)


def ids(outcome: Outcome, event: str) -> set[str]:
    sent = [each for each in outcome.deliveries if each.event.id == event]
    return {name for each in sent for name in each.subscriptions}


@pytest.mark.parametrize("seed", range(20))
def test_it_counts_what_the_asker_would_have_got(seed: int) -> None:
    life, engine = Life(seed), Engine(SETTINGS)
    engine.step(life.subscriptions(), 0.0)
    some = 0
    for number in range(250):
        value, expected = life.next()
        outcome = engine.step([value], life.plain.now)
        if expected is not None:
            assert isinstance(value, Published)
            found = ids(outcome, value.event.id)
            assert found == expected, f"seed {seed}, input {number}"
            some += len(found)
    assert some > 20


@pytest.mark.parametrize("seed", range(6))
def test_a_log_that_is_played_again_counts_the_same_over_a_restart(seed: int) -> None:
    """By rows as they are written, in one batch, where a broker began anew in between."""
    life, engine = Life(seed), Engine(SETTINGS)
    records: list[Record] = []
    expected: list[tuple[str, set[str]]] = []
    records += engine.step(life.subscriptions(), 0.0).records
    sessions = [each.node for each in life.wanted]
    for number in range(200):
        if number in (70, 140):
            engine = begun_anew(engine, records, life.plain.now)
            record = engine.restarted(sessions, life.plain.now)
            assert record is not None
            records.append(record)
            # What one node may see of another by exception is not kept by brokers.
            life.plain.masks.clear()
        value, met = life.next()
        outcome = engine.step([value], life.plain.now)
        records += outcome.records
        if met is not None and isinstance(value, Published):
            assert ids(outcome, value.event.id) == met, f"seed {seed}, input {number}"
            expected.append((value.event.id, met))
    inputs = [input_of(record_row(record, "b")) for record in records]
    played = Engine(SETTINGS).play(inputs, [record.ingested for record in records], again=True)
    assert [(name, ids(played, name)) for name, _ in expected] == expected


def begun_anew(engine: Engine, records: list[Record], now: float) -> Engine:
    """An engine with what a broker keeps of another, and its log."""
    other = Engine(SETTINGS)
    recent: list[tuple[float, Event]] = []
    for record in records:
        if isinstance(record.input, Published) and record.ingested >= now - RECENT_S:
            recent.append((record.ingested, record.input.event))
        elif isinstance(record.input, Forgot):
            recent = [each for each in recent if each[1].publisher != record.input.node]
    subscriptions, nodes = list(engine.subscriptions.values()), list(engine.nodes.values())
    inputs = EngineInputs(subscriptions=subscriptions, nodes=nodes, recent=recent)
    other.resume(engine.seq, inputs)
    return other


def test_a_restart_of_an_earlier_release_forgot_what_was_recent() -> None:
    wanted = Subscribed(Subscription("w", "ann", "asked", parse("count('s', '') = 1")))
    for keeps, found in ((False, set[str]()), (True, {"w"})):
        inputs: list[Input] = [
            Published(Event("1", "s", "bob", 0.0)),
            Restarted(("ann",), keeps_recent=keeps),
            wanted,
            Published(Event("2", "asked", "bob", 0.0)),
        ]
        assert ids(Engine().play(inputs, (0.0,) * 4, again=True), "2") == found


def counted(engine: Engine, where: str, node: str = "ann", now: float = 1.0) -> bool:
    """Whether a filter that counts holds for a node now."""
    asked = Published(Event(f"{node}: {where}", "asked", "asker", now))
    wanted = Subscribed(Subscription("w", node, "asked", parse(where)))
    return bool(ids(engine.step([wanted, asked], now), asked.event.id))


def test_a_live_event_that_is_judged_later_counts_what_came_since_but_not_itself() -> None:
    engine = Engine()
    where = parse("count('t', '') = 2")
    engine.step([Subscribed(Subscription("w", "ann", "t", where))], 0.0)
    live = Event("live", "t", "bob", 0.0, payload=b"{}", valid_s=1_000.0)
    assert not ids(engine.step([Published(live)], 0.0), "live")
    others: list[Input] = [Published(Event(name, "t", "bob", 0.0)) for name in "ab"]
    engine.step(others, 1.0)
    moved = engine.step([Moved("ann", Position(53.0, -6.0))], 2.0)
    assert ids(moved, "live") == {"w"}


def test_what_tells_of_nodes_that_the_asker_may_not_see_is_not_counted() -> None:
    engine = Engine()
    engine.step([Published(Event("met", "met", "p", 0.0, about=("bob", "cy")))], 0.0)
    assert counted(engine, "count('met', '') = 1")
    engine.step([SightSet("ann", "cy", SEE_POSITION)], 0.0)
    assert counted(engine, "count('met', '') = 0")
    assert counted(engine, "count('met', '') = 1", "eve")


def test_where_a_node_was_hidden_is_not_known_to_a_count() -> None:
    """By the rules of now, wherever the node has gone meanwhile."""
    engine = Engine()
    hidden = SightRule(
        other=NodeCondition(inside=Box(53.0, -7.0, 54.0, -6.0)), see=SEE_ALL ^ SEE_POSITION
    )
    here = Position(53.35, -6.26)
    engine.step([RulesSet((hidden,)), Moved("ann", here), Moved("bob", here)], 0.0)
    engine.step([Published(Event("e", "s", "bob", 0.0))], 0.0)
    engine.step([Moved("bob", Position(10.0, 10.0))], 0.0)
    for text in ("count('s', '', 500) = 0", "count('s', 'event.position IS NULL') = 1"):
        assert counted(engine, text)
    engine.step([RulesSet()], 0.0)
    assert counted(engine, "count('s', '', 500) = 1")


def test_an_event_without_a_known_anchor_is_counted_by_nobody() -> None:
    engine = Engine()
    here = Position(53.35, -6.26)
    to = parse_area("circle:bob,500")
    engine.step([Moved("ann", here), Published(Event("e", "s", "cy", 0.0, to=to))], 0.0)
    engine.step([Moved("bob", here)], 0.0)
    assert counted(engine, "count('s', '') = 0")
    engine.step([Published(Event("f", "s", "cy", 0.0, to=to)), Moved("bob", None)], 0.0)
    assert counted(engine, "count('s', '') = 1")


def test_a_filter_about_nodes_in_an_area_counts_no_events() -> None:
    engine = Engine()
    area = parse_area("circle:53.35,-6.26,500")
    where = parse("count('secret', '') >= 0 OR count('secret', '') < 0")
    counting = Subscribed(Subscription("w", "ann", "x", parse("count('secret', '') > 5")))
    secret = Published(Event("e", "secret", "bob", 0.0))
    engine.step([counting, secret, AreaWatched("a", "eve", area, where)], 0.0)
    engine.step([Moved("cy", Position(54.0, -6.26))], 1.0)
    assert engine.step([Moved("cy", Position(53.35, -6.26))], 2.0).notices == []


def test_the_first_clause_about_a_subject_decides() -> None:
    mine = SubjectPermissions(
        (SubjectClause(True, ("a/b",)), SubjectClause(False, ("a/#",))), only=("a/#", "c")
    )
    assert [mine.permits(subject) for subject in ("a/b", "a/c", "c", "d")] == [
        True, False, True, False,
    ]  # fmt: skip
    assert not SubjectPermissions((SubjectClause(False),)).permits("$x")
    assert SubjectPermissions((SubjectClause(False, ("#",)),)).permits("$x")
