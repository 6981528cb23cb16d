"""Recent events within bounds of number, bytes and age, however they came, beside a plain list."""

from random import Random

import pytest

from nearcast.core.engine.books.recent_book import RecentBook
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.event import Event
from nearcast.core.model.event_run import EventRun

MOST, MOST_BYTES, RECENT_S = 40, 300, 60.0


def remembered(book: RecentBook) -> list[tuple[str, bytes]]:
    return [
        (one.events[0].id, one.events[0].payload)
        for each in book._events
        for one in each.one_by_one()
    ]


@pytest.mark.parametrize("seed", range(30))
def test_the_newest_within_all_bounds_are_remembered(seed: int) -> None:
    draw = Random(seed)
    settings = EngineSettings(recent_s=RECENT_S, recent_most=MOST, recent_most_bytes=MOST_BYTES)
    book = RecentBook(Matcher(), settings)
    plain: list[tuple[float, str, bytes]] = []
    now = 0.0
    for step in range(200):
        now += draw.choice((0.0, 1.0, 10.0))
        count = draw.choice((1, 1, 1, 2, 30, 90))
        names = [f"{step} {number}" for number in range(count)]
        payloads = [b"x" * draw.choice((0, 1, 5, 40)) for _ in names]
        if draw.random() < 0.5:
            book.note_run(EventRun(names, "a", "ann", now, None, payloads, 0, "", b"", None))
        else:
            made = zip(names, payloads, strict=True)
            events = [Event(name, "a", "ann", now, payload=each) for name, each in made]
            book.note(events, (now,) * count)
        book._forget_before(now - RECENT_S)
        plain += [(now, name, each) for name, each in zip(names, payloads, strict=True)]
        while len(plain) > MOST or sum(len(each) for _, _, each in plain) > MOST_BYTES:
            del plain[0]
        plain = [each for each in plain if each[0] >= now - RECENT_S]

        assert remembered(book) == [(name, payload) for _, name, payload in plain]
        assert (book._count, book._bytes) == (len(plain), sum(len(each[2]) for each in plain))


@pytest.mark.parametrize("seed", range(10))
def test_all_events_of_a_forgotten_node_are_dropped_and_no_others(seed: int) -> None:
    draw = Random(seed)
    book = RecentBook(Matcher(), EngineSettings(recent_s=RECENT_S, recent_most=MOST))
    plain: list[tuple[str, str]] = []
    for step in range(100):
        names = [f"{step} {number}" for number in range(draw.choice((1, 2, 30)))]
        node = draw.choice(("ann", "bob", "cy"))
        if draw.random() < 0.5:
            payloads = [b"x"] * len(names)
            book.note_run(EventRun(names, "a", node, 0.0, None, payloads, 0, "", b"", None))
        else:
            events = [Event(name, "a", node, 0.0, payload=b"x") for name in names]
            book.note(events, [0.0] * len(names))
        plain = [*plain, *((name, node) for name in names)][-MOST:]
        if draw.random() < 0.3:
            gone = draw.choice(("ann", "bob", "cy", "dee"))
            book._forget(gone)
            plain = [each for each in plain if each[1] != gone]
        assert [name for name, _ in remembered(book)] == [name for name, _ in plain]
        assert (book._count, book._bytes) == (len(plain), len(plain))


def test_properties_that_are_forwarded_take_no_memory() -> None:
    book, large = RecentBook(Matcher(), EngineSettings()), b"x" * 1_000_000
    book.note([Event("one", "a", "node", 1.0, headers=large)], [1.0])
    for payloads in ([b"{}"], [b"{}", b"{}"]):
        ids = [f"{len(payloads)}-{place}" for place, _ in enumerate(payloads)]
        book.note_run(EventRun(ids, "a", "node", 2.0, None, payloads, 0, "", large, None))
    assert [event.headers for _, event in book.in_force()] == [b""] * 4
