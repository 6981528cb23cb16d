"""Announcements end with their session and with their node, and not before."""

from nearcast.core.engine.books.announcement_book import AnnouncementBook
from nearcast.core.engine.engine import Engine
from nearcast.core.model import parse_area
from nearcast.core.model.event import Announcement
from nearcast.core.model.inputs import Announced, Forgot

NEAR, FAR = parse_area("circle:me,100"), parse_area("circle:me,9000")


def test_the_newest_for_a_subject_counts_whichever_session_made_it() -> None:
    book = AnnouncementBook()
    book.put(Announcement("ann", "news", NEAR, "ann~1"))
    book.put(Announcement("ann", "news", FAR, "ann~2"))
    assert book.by_subject["ann", "news"].to == FAR
    book.leave("ann~1")
    assert book.by_subject["ann", "news"].to == FAR
    assert book.of_session("ann~1") == []
    assert book.of_session("ann~2") == [("ann", "news")]
    book.leave("ann~2")
    assert book.by_subject == {}


def test_a_session_leaves_the_announcements_of_others() -> None:
    book = AnnouncementBook()
    for subject, session in (("a", "s"), ("b", "s"), ("c", "t")):
        book.put(Announcement("ann", subject, NEAR, session))
    book.end("ann", "a")
    book.end("ann", "never there")
    assert book.of_session("s") == [("ann", "b")]
    book.leave("s")
    assert list(book.by_subject) == [("ann", "c")]


def test_a_forgotten_node_announces_nothing() -> None:
    engine = Engine()
    announced = [Announcement(node, "news", NEAR, "s") for node in ("ann", "bob")]
    engine.step([*map(Announced, announced), Forgot("ann")], 0.0)
    assert list(engine.announcements) == [("bob", "news")]
    assert engine.announced_by("s") == [("bob", "news")]
