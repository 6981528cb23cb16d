"""Live events for subscriptions, all in one pass, against the reference for every pair."""

from collections.abc import Collection, Sequence
from random import Random

import numpy as np
import pytest

from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.reference import decide
from nearcast.core.model import Area, Event, Position, Subscription, parse_area
from nearcast.core.model.context import Value
from nearcast.core.model.event import Relevance
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    Moved,
    Published,
    SightSet,
    Subscribed,
    Unsubscribed,
)
from nearcast.core.model.visibility import SEE_ALL, SEE_IDENTITY, SEE_POSITION

NODES = ("ann", "bob", "cy", "dee")
SUBJECTS = ("a/x", "a/y", "b", "$s/x")
AREAS = (
    None,
    "circle:me,900",
    "circle:bob,700",
    "circle:53.353,-6.26,600",
    "POLYGON((-6.3 53.35, -6.2 53.35, -6.2 53.36, -6.3 53.35))",
    '{"moving": {"with": "me", "box": {"width": 900, "height": 900}}}',
)
FILTERS = (
    None,
    "n >= 2",
    "kind = 'bus' OR deep.er = 'x'",
    "kind LIKE 'b%'",
    "distance(me, event) < 600",
    "publisher.role = 'cook'",
    "me.role = 'cook' AND kind IN ('bus', 'car')",
)


def somewhere(chance: Random) -> Position:
    return Position(53.35 + chance.randrange(9) / 500, -6.26)


def area(chance: Random) -> Area | None:
    text = chance.choice(AREAS)
    return None if text is None else parse_area(text)


def some_event(chance: Random, number: int) -> Event:
    given = chance.random() < 0.6
    return Event(
        f"e{number}", chance.choice(SUBJECTS), chance.choice((*NODES, "gone")), 0.0,
        {
            "n": chance.randrange(4),
            "kind": chance.choice(("bus", "car", "tram", None, True)),
            "deep": {"er": chance.choice(("x", "y", 3))},
        },
        somewhere(chance) if given else None, given, area(chance),
        valid_s=chance.choice((None, 1e6)), object=chance.choice((None, "o1", "o2", "o3")),
        retain=chance.random() < 0.4, about=("bob",) if chance.random() < 0.1 else (),
    )  # fmt: skip


def some_subscription(chance: Random) -> Subscription:
    where = chance.choice(FILTERS)
    relevance = None
    if chance.random() < 0.2:
        # All are at the best class: the priority is 1, unless an atom of relevance 0 is left out.
        atoms = 1 if where is None else len(FormFunction(parse(where)).atoms)
        relevance = Relevance((3, *(chance.choice((0, 1, 3)) for _ in range(atoms - 1))))
    node = chance.choice(NODES)
    session = chance.choice(("", f"{node}~1"))
    return Subscription(
        f"{session or node}\\0{chance.randrange(4)}", node, chance.choice(("#", "a/+", "b", "a/#")),
        None if where is None else parse(where), area(chance), relevance, session=session,
        no_local=chance.random() < 0.2,
    )  # fmt: skip


def some_input(chance: Random, number: int) -> Input:
    kind = chance.random()
    if kind < 0.3:
        return Published(some_event(chance, number))
    if kind < 0.4:
        wanted = some_subscription(chance)
        return Unsubscribed(wanted.id) if chance.random() < 0.3 else Subscribed(wanted)
    if kind < 0.5:
        return ContextPatched(chance.choice(NODES), {"role": chance.choice(("cook", "guard"))})
    if kind < 0.55:
        mask = chance.choice((SEE_ALL, SEE_POSITION, SEE_IDENTITY))
        return SightSet(chance.choice(NODES), chance.choice(NODES), mask)
    at = somewhere(chance) if chance.random() < 0.9 else None
    return Moved(chance.choice(NODES), at)


def plain_matches(
    matcher: Matcher,
    wanted: dict[int, Subscription],
    numbers: Sequence[int],
    aimed: Collection[int],
    unseen_only: bool,
) -> list[tuple[str, int, int]]:
    """Every live event and every subscription, one pair after the other."""
    live, found = matcher.live, []
    for row in sorted(live._rows.values(), key=live.columns.version.__getitem__):
        event = live.event_at(row)
        for number in numbers:
            each = wanted[number]
            if unseen_only and each.owner in live.seen.sessions(row):
                continue
            if number in aimed and event.to is None and each.from_ is None:
                continue
            priority = decide(event, each, matcher.world).priority
            if priority is not None:
                found.append((event.id, number, priority))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_all_that_match_are_found_in_the_order_of_versions(seed: int) -> None:
    chance, engine = Random(seed), Engine()
    matcher, book = engine.matcher, engine._state.subscriptions
    found_some = 0
    for number in range(150):
        outcome = engine.step([some_input(chance, number)], float(number))
        assert outcome.refusals == []
        wanted = {book.number(name): each for name, each in book.by_id.items()}
        numbers = chance.sample(list(wanted), chance.randint(0, len(wanted)))
        aimed = {each for each in numbers if chance.random() < 0.3}
        unseen_only = chance.random() < 0.5
        sessions = [wanted[each].owner for each in numbers] if unseen_only else None
        found = matcher.live_matches(numbers, aimed, sessions)
        events = [matcher.live.event_at(row).id for row in found.row.tolist()]
        pairs = zip(events, found.subscription.tolist(), found.priority.tolist(), strict=True)
        assert list(pairs) == plain_matches(matcher, wanted, numbers, aimed, unseen_only)
        found_some += len(events)
    assert found_some > 3


@pytest.mark.parametrize("seed", range(10))
def test_what_the_subject_alone_decides_is_found_among_events_with_targets(seed: int) -> None:
    chance, matcher = Random(seed), Matcher()
    matcher.move("me", somewhere(chance))
    for i in range(80):
        matcher.live.put(f"k{chance.randrange(50)}", some_event(chance, i))
    wanted = [Subscription(f"s{i}", "me", each) for i, each in enumerate(("#", "a/+", "b", "a/#"))]
    wanted += [
        Subscription("all", "me", "#", parse("TRUE")),
        Subscription("none", "me", "#", parse("FALSE")),
        Subscription("relevance", "me", "#", relevance=Relevance((2,))),
    ]
    by_number = {matcher.add(each): each for each in wanted}
    for number, each in by_number.items():
        aimed = (number,) if chance.random() < 0.3 else ()
        found = matcher.live_matches([number], aimed)
        events = [matcher.live.event_at(row).id for row in found.row.tolist()]
        pairs = zip(events, found.subscription.tolist(), found.priority.tolist(), strict=True)
        assert list(pairs) == plain_matches(matcher, by_number, [number], aimed, False), each.id


def test_attributes_are_packed_and_names_are_let_go() -> None:
    matcher = Matcher()
    number = matcher.add(Subscription("s", "me", "#", parse("name999 = 'v999'")))
    for i in range(1_000):
        attributes: dict[str, Value] = {f"name{i}": f"v{i}", "n": i}
        matcher.live.put(str(i), Event(f"e{i}", f"t/{i}", f"p{i}", 0.0, attributes, retain=True))
        if i >= 10:
            matcher.live.remove(str(i - 10))
    live = matcher.live
    assert len(live.names) == 11
    assert [len(table) for table in (live.strings, live.subjects, live.publishers)] == [10] * 3
    assert len(live._pool[0]) < 1_000
    assert [event.id for event, _ in matcher.live_for(number)] == ["e999"]


def lively_engine(events: int, subscribers: int) -> Engine:
    """A node with live events round it, and subscriptions at it and following it."""
    engine, here = Engine(), Position(53.35, -6.26)
    nodes: list[Input] = [Moved("bus", here)]
    for i in range(subscribers):
        own = Subscription(f"bus~{i}", "bus", "h", from_=parse_area("circle:me,2000"))
        nodes.append(Subscribed(own))
        follows = Subscription(f"f{i}", f"f{i}", "h", from_=parse_area("circle:bus,2000"))
        nodes.append(Subscribed(follows))
    engine.step(nodes, 0.0)
    holes: list[Input] = [
        Published(Event(f"e{i}", "h", "city", 0.0, {}, here, True, valid_s=1e6))
        for i in range(events)
    ]
    engine.step(holes, 0.0)
    return engine


def test_a_move_with_nothing_new_decides_nothing_and_makes_nothing() -> None:
    engine = lively_engine(events=200, subscribers=20)
    matcher = engine.matcher
    for turn in range(1, 4):
        looked_at, decided = matcher.looked_at, matcher.pairs_decided
        outcome = engine.step([Moved("bus", Position(53.35, -6.26 + turn * 1e-5))], float(turn))
        assert outcome.sent == []
        # Once for all that follow it, and once for all at it.
        assert matcher.looked_at - looked_at == 2 * 200
        assert matcher.pairs_decided == decided


def test_a_move_decides_what_is_new_to_each_session() -> None:
    engine = lively_engine(events=200, subscribers=20)
    matcher = engine.matcher
    engine.step([Subscribed(Subscription("late", "late", "h"))], 0.0)
    late = Subscription("late", "late", "h", from_=parse_area("circle:bus,2000"), session="new")
    engine._state.subscriptions.add([late])
    decided = matcher.pairs_decided
    outcome = engine.step([Moved("bus", Position(53.35, -6.26001))], 1.0)
    assert matcher.pairs_decided - decided == 200
    assert [copy.owner for copy in outcome.deliveries] == ["new"] * 200
    assert [copy.event.id for copy in outcome.deliveries] == [f"e{i}" for i in range(200)]


def test_who_is_overtaken_by_what_it_has_gets_nothing_again() -> None:
    engine, here = Engine(), Position(53.35, -6.26)
    moves: list[Input] = [Moved(name, here) for name in ("bus", *(f"f{i}" for i in range(50)))]
    wanted = [Subscribed(Subscription(f"f{i}", f"f{i}", "h")) for i in range(50)]
    engine.step([*moves, *wanted], 0.0)
    to = parse_area("circle:me,500")
    horn = [Published(Event(f"e{i}", "h", "bus", 0.0, to=to, valid_s=1e6)) for i in range(5)]
    assert len(engine.step(horn, 0.0).deliveries) == 250
    assert engine.step([Moved("bus", Position(53.351, -6.26))], 1.0).sent == []
    engine.step([Subscribed(Subscription("new", "new", "h"))], 2.0)
    outcome = engine.step([Moved("new", Position(53.36, -6.26))], 2.0)
    assert outcome.sent == []
    overtaken = engine.step([Moved("bus", Position(53.3595, -6.26))], 3.0).deliveries
    assert [(copy.event.id, copy.owner) for copy in overtaken] == [
        (f"e{i}", "new") for i in range(5)
    ]


def test_rows_of_live_events_are_in_the_order_in_which_they_were_put() -> None:
    live = Matcher().live
    for key in ("a", "b", "c", "a"):
        live.put(key, Event(key, key, "p", 0.0, retain=True))
    rows = np.array([live.row(key) for key in ("a", "b", "c")], np.int32)
    assert [live.event_at(row).id for row in live.in_order(rows).tolist()] == ["b", "c", "a"]


@pytest.mark.parametrize("evaluations", [1, 3, 40, 1_000])
def test_portions_are_the_whole_however_many_predicates_each_may_evaluate(evaluations: int) -> None:
    chance, matcher = Random(evaluations), Matcher()
    matcher.move("me", Position(53.35, -6.26))
    numbers = [
        matcher.add(Subscription("s", "me", "#", parse("n >= 2 OR ACCENTI(kind) = ACCENTI('é')"))),
        matcher.add(Subscription("t", "me", "a/#", from_=parse_area("circle:me,900"))),
    ]
    for i in range(60):
        matcher.live.put(f"k{i}", some_event(chance, i))
    rows = matcher.live_candidates(numbers)
    whole = matcher.live_among(rows, numbers)
    found: list[tuple[int, int]] = []
    while len(rows):
        part, done = matcher.live_among_bounded(rows, numbers, evaluations=evaluations)
        assert done
        found += zip(part.row.tolist(), part.subscription.tolist(), strict=True)
        rows = rows[done:]
    assert found == list(zip(whole.row.tolist(), whole.subscription.tolist(), strict=True))
