"""Events of a smallest number of people, whatever happens: checked on everything that leaves."""

import json
import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.language import parse
from nearcast.core.model.event import Announcement, Delivery, Event, Subscription
from nearcast.core.model.geometry.area import Circle
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    Announced,
    ContextPatched,
    Forgot,
    Input,
    Left,
    Moved,
    Presence,
    Published,
    Restarted,
    Subscribed,
    Unannounced,
    Unsubscribed,
)

PEOPLE = tuple(f"p{number}" for number in range(9))
READERS = ("eve", "mal", "sue")
WHERE = (
    None, "count > 3", "attributes.speed.mean > 20", "publisher.role = 'x'", "speed > 20",
    "name = 'p3'", "attributes.name = 'p3'", "friend(publisher)",
)  # fmt: skip
NEEDS = (None, None, "volume 20 wait 100", "people 6", "volume 2 per attribute speed")
K, EVERY = 3, 30.0
BRIDGES = (*[""] * 8, "bridge b1", "bridge b2")
"""Whom an event is of that came from another broker: nobody who counts."""
TEXT = f"per cell 500 every {EVERY:g} wait 200"


class Life:
    """Random inputs, and which events are in the base sets that a plain look finds."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 1_000.0
        self.made = 0

    def an_input(self) -> Input:
        draw, kind = self.draw, self.draw.random()
        if kind < 0.6:
            self.made += 1
            name = draw.choice(PEOPLE)
            payload = json.dumps({"speed": draw.randrange(90), "name": name, "n": self.made})
            return Published(
                Event(
                    f"e{self.made}", draw.choice("st"), name, self.now,
                    position=Position(53.0 + draw.randrange(2), -6.0), at_given=True,
                    payload=payload.encode(), qos=draw.randrange(2), people=K, base_set=TEXT,
                    person=draw.choice(BRIDGES),
                )
            )  # fmt: skip
        reader = draw.choice(READERS)
        id_ = f"{reader} {draw.randrange(3)}"
        if kind < 0.85:
            where = draw.choice(WHERE)
            return Subscribed(
                Subscription(
                    id_, reader, draw.choice(("s", "#")), None if where is None else parse(where),
                    aggregate=draw.choice(NEEDS), qos=draw.randrange(2), meta=True,
                )
            )  # fmt: skip
        others: tuple[Input, ...] = (
            Unsubscribed(id_), Left(reader), Presence(reader, draw.random() < 0.5),
            Moved(reader, Position(53.0, -6.0)), ContextPatched(draw.choice(PEOPLE), {"role": "x"}),
            Restarted((*READERS, *PEOPLE)), Forgot(draw.choice(PEOPLE)),
        )  # fmt: skip
        return draw.choice(others)

    def later(self) -> None:
        self.now += self.draw.choice((0.0, 0.5, 5.0, 20.0, 70.0))


def plain_sets(log: list[tuple[Input, float]], end: float) -> Counter[tuple[str, int]]:
    """The numbers of the base sets of a log, as (topic, count), from lists by topic and place."""
    waiting: dict[tuple[str, float], list[tuple[Event, float]]] = {}
    found: Counter[tuple[str, int]] = Counter()
    tick = 1_000.0 // EVERY * EVERY
    for value, at in [*log, (Unsubscribed(""), end)]:
        if isinstance(value, Restarted):
            # What was due while the broker was down was not due before.
            for key, some in waiting.items():
                waiting[key] = [(event, since) for event, since in some if event.qos]
        while (tick + EVERY) <= at:
            tick += EVERY
            for key in list(waiting):
                young = [each for each in waiting[key] if each[1] >= tick - 200.0]
                waiting[key] = young
                if len({event.publisher for event, _ in young if not event.person}) >= K:
                    found[key[0], len(young)] += 1
                    del waiting[key]
        if isinstance(value, Published) and value.event.position is not None:
            key = value.event.subject, value.event.position.lat
            waiting.setdefault(key, []).append((value.event, at))
        elif isinstance(value, Forgot):
            for key, some in waiting.items():
                waiting[key] = [
                    (event, since) for event, since in some if event.publisher != value.node
                ]
    return found


def assert_tells_of_nobody(payload: dict[str, Any], text: str) -> None:
    assert payload["people"] >= K
    assert payload["count"] >= K
    assert "events" not in payload
    for value in payload["attributes"].values():
        assert not isinstance(value, dict) or value.keys() == {"mean"}
    for told in (payload["first"], payload["last"]):
        assert told.endswith(("00.000Z", "30.000Z"))
    assert "publisher" not in text


@pytest.mark.parametrize("seed", range(40))
def test_only_whole_base_sets_leave_and_all_of_them(seed: int) -> None:
    life = Life(seed)
    engine, watcher = Engine(), Subscription("watch", "root", "#")
    engine.step([Subscribed(watcher)], life.now)
    log: list[tuple[Input, float]] = []
    seen: Counter[tuple[str, int]] = Counter()
    sizes: dict[str, set[int]] = {"s": set(), "t": set()}
    for _ in range(250):
        life.later()
        value = life.an_input()
        if isinstance(value, Restarted):
            value = Restarted((*READERS, *PEOPLE, "root"))
        outcome = engine.step([value], life.now)
        assert not outcome.refusals
        log.append((value, life.now))
        for delivery in outcome.deliveries:
            event = delivery.event
            payload = json.loads(event.payload)
            assert_tells_of_nobody(payload, event.payload.decode())
            assert event.publisher == ""
            assert event.gathered == payload["count"]
            if delivery.node == "root":
                seen[event.subject, payload["count"]] += 1
                sizes[event.subject].add(payload["count"])
        if life.draw.random() < 0.05:
            other = Engine()
            other.restore(engine.seq, engine.in_force())
            engine = other
    last = life.now + 2 * EVERY
    for delivery in engine.step([], last).deliveries:
        if delivery.node == "root":
            seen[delivery.event.subject, json.loads(delivery.event.payload)["count"]] += 1
    assert seen == plain_sets(log, last)
    assert seen


@pytest.mark.parametrize("seed", range(10))
def test_a_batch_makes_the_same_base_sets(seed: int) -> None:
    life = Life(seed)
    inputs: list[Input] = []
    times = []
    for _ in range(200):
        life.later()
        inputs.append(life.an_input())
        times.append(life.now)
    slow, fast = Engine(), Engine()
    expected = Counter(
        (each.event.id, each.event.payload, each.subscriptions)
        for value, at in zip(inputs, times, strict=True)
        for each in slow.step([value], at).deliveries
    )
    outcome = fast.play(inputs, times)
    found = Counter(
        (each.event.id, each.event.payload, each.subscriptions) for each in outcome.deliveries
    )
    assert found == expected


def hidden(number: int, publisher: str, speed: int = 10, **more: object) -> Published:
    payload = json.dumps({"speed": speed}).encode()
    event = Event(f"e{number}", "s", publisher, 0.0, payload=payload, people=K, base_set="every 30")
    return Published(replace(event, **more))


def test_filters_that_differ_in_one_person_get_the_same() -> None:
    """Differencing: whoever leaves one person out by a filter learns nothing of that person."""
    engine = Engine()
    filters = {
        "all": None, "without": "publisher.role <> 'target' OR publisher.role IS NULL",
        "name": "speed <> 77", "near": None,
    }  # fmt: skip
    engine.step([ContextPatched("p0", {"role": "target"}), Moved("p0", Position(53.0, -6.0))], 0.0)
    for name, where in filters.items():
        area = Circle(Position(53.0, -6.0), 10.0) if name == "near" else None
        wanted = Subscription(name, name, "s", None if where is None else parse(where), area)
        engine.step([Subscribed(wanted)], 0.0)
    engine.step([hidden(n, f"p{n}", 77 if n == 0 else 10) for n in range(4)], 1.0)
    found = {each.node: each.event.payload for each in engine.step([], 30.0).deliveries}
    assert found.keys() == {"all", "without"}
    assert found["all"] == found["without"]


def test_when_an_event_came_changes_nothing_that_is_told() -> None:
    """Timing: what goes out goes out at the clock's ticks, and says no other time."""
    told = []
    for moment in (1.0, 29.0):
        engine = Engine()
        engine.step([Subscribed(Subscription("w", "w", "s"))], 0.5)
        engine.step([hidden(n, f"p{n}") for n in range(2)], 0.5)
        assert not engine.step([hidden(2, "p2")], moment).deliveries
        assert engine.next_timer() == 30.0
        told += [(each.event.time, each.event.payload) for each in engine.step([], 30.0).deliveries]
    assert told[0] == told[1]


def test_whoever_joins_or_leaves_in_between_gets_whole_sets() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("old", "old", "s"))], 0.0)
    engine.step([hidden(n, f"p{n}") for n in range(2)], 1.0)
    engine.step([Subscribed(Subscription("new", "new", "s"))], 2.0)
    engine.step([hidden(n, f"p{n}") for n in range(2, 4)], 3.0)
    found = {
        each.node: json.loads(each.event.payload)["count"]
        for each in engine.step([], 31.0).deliveries
    }
    assert found == {"old": 4, "new": 4}


def test_one_person_with_many_events_is_one_and_counts_once_in_a_mean() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "s"))], 0.0)
    engine.step([hidden(n, "p0", 100) for n in range(8)], 1.0)
    assert not engine.step([], 31.0).deliveries
    engine.step([hidden(10, "p1", 10), hidden(11, "p2", 40)], 32.0)
    (delivery,) = engine.step([], 60.0).deliveries
    payload = json.loads(delivery.event.payload)
    assert (payload["people"], payload["count"]) == (3, 10)
    assert payload["attributes"] == {"speed": {"mean": 50.0}}
    assert payload["first"] == "1970-01-01T00:00:00.000Z"


def test_users_are_people_where_there_are_users() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "s"))], 0.0)
    engine.step([hidden(n, f"node{n}", person="user ann") for n in range(9)], 1.0)
    assert not engine.step([], 31.0).deliveries


def test_a_subscriber_who_asks_for_more_people_gets_unions_of_whole_sets() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "s", aggregate="people 5"))], 0.0)
    engine.step([hidden(n, f"p{n}", 10) for n in range(3)], 1.0)
    assert not engine.step([], 31.0).deliveries
    engine.step([hidden(10 + n, f"p{n}", 40) for n in range(2, 6)], 32.0)
    (delivery,) = engine.step([], 61.0).deliveries
    payload = json.loads(delivery.event.payload)
    assert (payload["people"], payload["count"]) == (5, 7)
    mean = (3 * 10 + 4 * 40) / 7
    assert payload["attributes"] == {"speed": {"mean": pytest.approx(mean)}}


def test_whoever_is_forgotten_is_not_named_in_sets_that_wait_for_a_subscriber() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "s", aggregate="people 5"))], 0.0)
    engine.step([hidden(n, f"p{n}", person=f"user p{n}") for n in range(3)], 1.0)
    engine.step([], 31.0)
    outcome = engine.step([Forgot("p1")], 32.0)
    (pool,) = engine.waiting()
    assert pool.events[0].event.persons == ("user p0", "", "user p2")
    assert len(outcome.waiting_changes) == 2


def test_whoever_says_more_than_others_loses_its_own_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearcast.core.engine.updates.base_set_updates.MOST_WAITING", 10)
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "s"))], 0.0)
    engine.step([hidden(n, f"p{n % 2}") for n in range(2)], 1.0)
    engine.step([hidden(10 + n, "loud") for n in range(50)], 2.0)
    (delivery,) = engine.step([], 30.0).deliveries
    payload = json.loads(delivery.event.payload)
    assert (payload["people"], payload["count"]) == (3, 10)
    assert engine.statistics()["gathering_discarded_total"] == 42


def test_a_flood_of_topics_discards_the_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.core.engine.updates.base_set_updates.MOST_GROUPS", 10)
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "#"))], 0.0)
    engine.step([hidden(n, f"p{n}") for n in range(3)], 1.0)
    engine.step([hidden(10 + n, "loud", subject=f"t{n}") for n in range(50)], 2.0)
    assert [each.event.subject for each in engine.step([], 30.0).deliveries] == ["s"]


def test_an_event_that_expires_before_the_tick_is_in_no_set() -> None:
    engine = Engine()
    engine.step([Subscribed(Subscription("w", "w", "s"))], 0.0)
    engine.step([hidden(n, f"p{n}", expires_at=20.0 if n == 0 else None) for n in range(3)], 1.0)
    assert not engine.step([], 30.0).deliveries
    engine.step([hidden(9, "p9")], 31.0)
    (delivery,) = engine.step([], 60.0).deliveries
    assert json.loads(delivery.event.payload)["count"] == 3


def test_what_is_refused_may_be_sent_again_with_its_id() -> None:
    engine = Engine()
    engine.step([Announced(Announcement("p", "s", Circle(Position(53.0, -6.0), 10.0)))], 0.0)
    assert engine.step([hidden(1, "p")], 1.0).refusals
    engine.step([Unannounced("p", "s")], 2.0)
    outcome = engine.step([hidden(1, "p")], 3.0)
    assert not outcome.refusals
    assert outcome.records


WATCHES: tuple[tuple[str | None, object], ...] = (
    ("distance(me, event) < 90000", None),
    (None, {"volume": "distance(me, publisher)", "wait": 50}),
    (None, {"case": [["distance(me, event) < 90000", "volume 5"]], "else": "volume 2", "wait": 50}),
)


@pytest.mark.parametrize("seed", range(8))
def test_what_leaves_by_time_does_not_depend_on_when_it_is_noticed(seed: int) -> None:
    """Positions expire, the clock ticks and waiting ends in between, and are noticed late."""
    life, settings = Life(seed), EngineSettings(position_ttl_s=47.0)
    inputs: list[tuple[Input, float]] = [
        (
            Subscribed(
                Subscription(
                    f"{reader} w{place}", reader, "#", None if where is None else parse(where),
                    aggregate=needs,
                )
            ),
            life.now,
        )
        for place, (where, needs) in enumerate(WATCHES)
        for reader in READERS
    ]  # fmt: skip
    while len(inputs) < 150:
        life.later()
        value = life.an_input()
        if life.draw.random() < 0.5:
            where = Position(53.0 + life.draw.random(), -6.0)
            value = Moved(life.draw.choice(READERS + PEOPLE), where)
        if not isinstance(value, Restarted):
            inputs.append((value, life.now))
    prompt, late = Engine(settings), Engine(settings)
    expected: Counter[object] = Counter()
    due: float | None = None
    for value, at in inputs:
        while due is not None and due <= at:
            outcome = prompt.step([], due)
            expected.update(map(told, outcome.deliveries))
            due = outcome.timer
        outcome = prompt.step([value], at)
        expected.update(map(told, outcome.deliveries))
        due = outcome.timer
    found = late.play([value for value, _ in inputs], [at for _, at in inputs])
    assert Counter(map(told, found.deliveries)) == expected


def told(delivery: Delivery) -> object:
    return delivery.event.id, delivery.event.payload, delivery.node, delivery.subscriptions


def test_what_is_counted_is_base_sets_only() -> None:
    engine = Engine()
    counting = parse("count('s', 'speed > 0') > 0")
    engine.step([Subscribed(Subscription("w", "w", "t", counting))], 0.0)
    engine.step([hidden(n, f"p{n}") for n in range(2)], 1.0)
    assert not engine.step([Published(Event("x", "t", "a", 2.0))], 2.0).deliveries


@pytest.mark.parametrize("more", [{"retain": True}, {"valid_s": 5.0}, {"object": "o"}])
def test_what_would_tell_of_one_event_is_refused(more: dict[str, Any]) -> None:
    engine = Engine()
    (refusal,) = engine.step([hidden(1, "p", **more)], 0.0).refusals
    assert "smallest people" in refusal.reason
