"""What gathers in the engine, beside lists that are looked at again at each arrival."""

import json
import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from nearcast.core.engine.engine import Engine
from nearcast.core.gathering.needs.aggregability import Aggregability, parse_aggregability
from nearcast.core.gathering.needs.needs import Figures
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.model.inputs import (
    Forgot,
    Input,
    Left,
    Published,
    Restarted,
    Subscribed,
    Unsubscribed,
)

TEXTS = (
    "volume 1", "volume 3", "volume 5 wait 30", "time 20", "people 2", "people 3 and volume 5",
    "time 30 or people 4 or volume 7", "volume 9 at most 9 per attribute k", "time 50 wait 10",
)  # fmt: skip
NODES = ("ann", "bob", "cat", "dan")


class PlainGathering:
    """Lists by subscription, topic and division."""

    def __init__(self) -> None:
        self.wanted: dict[str, Subscription] = {}
        self.waiting: dict[tuple[str, str, str], list[tuple[Event, float]]] = {}
        self.left: list[tuple[str, list[str]]] = []

    def take(self, value: Input, now: float) -> None:
        if not isinstance(value, Restarted):
            self.expire(now)
        match value:
            case Published(event):
                for id_, wanted in self.wanted.items():
                    if wanted.subject in ("#", event.subject):
                        self.arrive(id_, event, now)
            case Subscribed(subscription):
                self.subscribe(subscription, now)
            case Unsubscribed(id_):
                self.end([id_])
            case Left(node):
                self.end([each.id for each in self.wanted.values() if each.owner == node])
            case Forgot(node):
                self.only(lambda _, event: event.publisher != node)
            case Restarted(sessions):
                gone = [each.id for each in self.wanted.values() if each.owner not in sessions]
                self.end(gone)
                self.only(lambda id_, event: bool(event.qos and self.wanted[id_].qos))
                # What was due while the broker was down was not due before.
                self.expire(now)

    def rule(self, id_: str) -> Aggregability:
        return parse_aggregability(self.wanted[id_].aggregate)

    def arrive(self, id_: str, event: Event, now: float) -> None:
        rule = self.rule(id_)
        division = json.dumps(event.attributes.get("k")) if rule.per.kind == "attribute" else ""
        key = id_, event.subject, division
        self.waiting.setdefault(key, []).append((event, now))
        if self.is_met(rule, self.waiting[key]):
            self.release(key)

    @staticmethod
    def is_met(rule: Aggregability, waiting: list[tuple[Event, float]]) -> bool:
        times = [event.time for event, _ in waiting]
        people = {event.publisher for event, _ in waiting}
        found = Figures(len(waiting), max(times) - min(times), len(people))
        return len(waiting) >= rule.at_most or rule.needs.are_met(found)

    def release(self, key: tuple[str, str, str]) -> None:
        self.left.append((key[0], [event.id for event, _ in self.waiting.pop(key)]))

    def expire(self, now: float) -> None:
        due = [
            key
            for key, waiting in self.waiting.items()
            if waiting[0][1] + self.rule(key[0]).wait_s <= now
        ]
        for key in due:
            self.release(key)

    def subscribe(self, subscription: Subscription, now: float) -> None:
        own = [
            each for key, some in self.waiting.items() if key[0] == subscription.id for each in some
        ]
        self.end([subscription.id])
        self.wanted[subscription.id] = subscription
        touched: list[tuple[str, str, str]] = []
        rule = self.rule(subscription.id)
        for event, at in own:
            division = json.dumps(event.attributes.get("k")) if rule.per.kind == "attribute" else ""
            key = subscription.id, event.subject, division
            self.waiting.setdefault(key, []).append((event, at))
            touched.append(key)
        for key in dict.fromkeys(touched):
            self.waiting[key].sort(key=lambda each: int(each[0].id))
            if self.is_met(rule, self.waiting[key]):
                self.release(key)

    def end(self, ids: list[str]) -> None:
        for id_ in ids:
            self.wanted.pop(id_, None)
            for key in [key for key in self.waiting if key[0] == id_]:
                del self.waiting[key]

    def only(self, stays: Callable[[str, Event], bool]) -> None:
        for key, waiting in list(self.waiting.items()):
            left = [each for each in waiting if stays(key[0], each[0])]
            self.waiting[key] = left
            if not left:
                del self.waiting[key]


def an_input(draw: random.Random, number: int, now: float) -> Input:
    kind = draw.randrange(20)
    node = draw.choice(NODES)
    if kind < 13:
        said = {"k": draw.choice((1, 2, "x"))} if draw.random() < 0.8 else {}
        payload = json.dumps(said).encode()
        time = now + draw.randrange(-30, 30)
        subject = draw.choice("st")
        qos = draw.randrange(3)
        return Published(Event(f"{number}", subject, node, time, said, payload=payload, qos=qos))
    if kind < 17:
        id_ = f"{node} {draw.randrange(3)}"
        subject = draw.choice("st#")
        return Subscribed(
            Subscription(id_, node, subject, qos=draw.randrange(2), aggregate=draw.choice(TEXTS))
        )
    others: tuple[Input, ...] = (
        Unsubscribed(f"{node} {draw.randrange(3)}"), Left(node), Forgot(node),
        Restarted(("ann", "bob", "cat")),
    )  # fmt: skip
    return draw.choice(others)


def parts_of(delivery: Delivery) -> tuple[str, list[str]]:
    event = delivery.event
    (id_,) = delivery.subscriptions
    if not event.gathered:
        return id_, [event.id]
    payload = json.loads(event.payload)
    ids = [each["id"] for each in payload["events"]]
    assert payload["count"] == event.gathered == len(ids)
    return id_, ids


def in_any_order(left: list[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    return sorted(left)


@pytest.mark.parametrize("seed", range(60))
def test_what_leaves_is_what_a_plain_look_at_all_that_waits_says(seed: int) -> None:
    draw = random.Random(seed)
    engine, plain = Engine(), PlainGathering()
    now, found = 0.0, list[tuple[str, list[str]]]()
    for number in range(200):
        now += draw.choice((0.0, 1.0, 4.0, 15.0))
        value = an_input(draw, number, now)
        outcome = engine.step([value], now)
        if not outcome.refusals:
            plain.take(value, now)
        found += map(parts_of, outcome.deliveries)
        if draw.random() < 0.05:
            other = Engine()
            other.restore(engine.seq, engine.in_force())
            engine = other
    assert in_any_order(found) == in_any_order(plain.left)
    assert found


def gathering(count: int, text: str = "volume 3", qos: int = 0) -> list[Input]:
    return [
        Subscribed(Subscription(f"w{number}", f"n{number}", "s", aggregate=text, qos=qos))
        for number in range(count)
    ]


def test_subscribers_of_one_text_share_one_pool() -> None:
    engine = Engine()
    engine.step(gathering(100), 0.0)
    engine.step([Published(Event("a", "s", "p", 0.0)), Published(Event("b", "s", "p", 0.0))], 1.0)
    (pool,) = engine.in_force().waiting
    assert len(pool.subscriptions) == 100
    assert [each.event.id for each in pool.events] == ["a", "b"]
    outcome = engine.step([Published(Event("c", "s", "p", 0.0))], 2.0)
    (deliveries,) = outcome.sent
    assert len(deliveries) == 100
    assert not engine.in_force().waiting


def test_what_waits_together_has_a_bound() -> None:
    engine = Engine()
    engine.step(gathering(1, "volume 900"), 0.0)
    event = Event("0", "s", "p", 0.0, payload=b"x" * 30_000)
    counts = []
    for number in range(9):
        outcome = engine.step([Published(replace(event, id=f"{number}"))], 1.0)
        counts += [each.event.gathered for each in outcome.deliveries]
    assert counts == [4, 4]


def test_a_hidden_bound_of_all_that_waits_releases_the_oldest() -> None:
    engine = Engine()
    engine.step(gathering(1, "volume 900 per attribute k"), 0.0)
    big = b'"' + b"x" * 60_000 + b'"'
    left = []
    for number in range(1200):
        payload = b'{"k": %d, "x": %s}' % (number, big)
        event = Event(f"{number}", "s", "p", 0.0, payload=payload)
        left += [each.event.id for each in engine.step([Published(event)], 1.0).deliveries]
    assert left == [f"{number}" for number in range(len(left))]
    assert left
    engine.step([Unsubscribed("w0")], 2.0)
    assert not engine.in_force().waiting
