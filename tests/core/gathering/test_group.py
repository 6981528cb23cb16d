"""Groups: the same as a plain one, whenever they are stored; bounds; what people are promised."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.gathering import Aggregate, Group, Part, Threshold
from nearcast.core.gathering.group import STATE_VERSION
from nearcast.core.model import ModelError, Position
from tests.core.gathering.plain_group import released

PEOPLE = ("ann", "bob", "cat", "dan")


@st.composite
def arrivals(draw: st.DrawFn) -> list[Part]:
    """Parts as a broker takes them in: in order of ingest, their times somewhat before or after."""
    parts, now = [], 1000.0
    for _ in range(draw(st.integers(0, 40))):
        now += draw(st.sampled_from((0.0, 1.0, 1.0, 2.0, 9.0, 40.0)))
        time = now - draw(st.sampled_from((0.0, 0.0, 1.0, 3.0, 8.0, 30.0, -2.0)))
        number = draw(st.integers(0, 12))
        parts.append(Part(f"e{number}", draw(st.sampled_from(PEOPLE)), time, now))
    return parts


@st.composite
def thresholds(draw: st.DrawFn) -> Threshold:
    kind = draw(st.sampled_from(("volume", "time", "people")))
    value = float(draw(st.integers(1, 4)) if kind != "time" else draw(st.integers(1, 12)))
    within_s = draw(st.sampled_from((5.0, 12.0, 60.0)))
    waits = [wait_s for wait_s in (5.0, 20.0) if wait_s <= within_s]
    wait_s = None if kind == "people" else draw(st.sampled_from((None, *waits)))
    return Threshold(kind, value, within_s, draw(st.integers(4, 7)), wait_s)  # type: ignore[arg-type]


def play(parts: list[Part], threshold: Threshold, stored_at: set[int]) -> list[Aggregate]:
    """Return what a group releases that is stored and loaded at some of its parts."""
    group = Group("a/#", "subject:a")
    found: list[Aggregate | None] = []
    for number, part in enumerate(parts):
        if number in stored_at:
            group = Group.decoded("a/#", "subject:a", group.encoded())
        found += [group.expire(part.ingested, threshold), group.add(part, threshold)]
    return [each for each in found if each is not None]


def ids(aggregate: Aggregate) -> list[str]:
    return [event["id"] for event in msgspec.json.decode(aggregate.payload)["events"]]


@given(arrivals(), thresholds(), st.sets(st.integers(0, 40)))
def test_a_group_does_what_a_plain_one_does_whenever_it_is_stored(
    parts: list[Part], threshold: Threshold, stored_at: set[int]
) -> None:
    found = play(parts, threshold, stored_at)
    expected = released(parts, threshold)
    assert [aggregate.count for aggregate in found] == [len(each) for each in expected]
    if threshold.kind != "people":
        assert [ids(aggregate) for aggregate in found] == expected


@given(arrivals(), thresholds(), st.integers(0, 40), st.floats(0, 30))
def test_asking_whether_something_is_due_changes_only_when_it_goes_out(
    parts: list[Part], threshold: Threshold, at: int, later_s: float
) -> None:
    """A timer may fire at any moment before the next part, or never."""
    if not parts:
        return
    at %= len(parts)
    group = Group("a/#", "subject:a")
    found: list[Aggregate | None] = []
    for number, part in enumerate(parts):
        moments = [part.ingested]
        if number == at and number:
            moments.insert(0, min(parts[number - 1].ingested + later_s, part.ingested))
        found += [group.expire(moment, threshold) for moment in moments]
        found.append(group.add(part, threshold))
    assert [each for each in found if each is not None] == play(parts, threshold, set())


@given(arrivals(), thresholds(), st.sampled_from((0.0, 3.0, 8.0, 30.0)))
def test_a_group_can_be_forgotten_when_it_is_stale(
    parts: list[Part], threshold: Threshold, lateness_s: float
) -> None:
    on_time = [part for part in parts if part.time >= part.ingested - lateness_s]
    group = Group("a/#", "subject:a")
    found: list[Aggregate | None] = []
    for part in on_time:
        found.append(group.expire(part.ingested, threshold))
        if part.ingested - lateness_s > group.stale_after(threshold):
            group = Group("a/#", "subject:a")
        found.append(group.add(part, threshold))
    assert [each for each in found if each is not None] == play(on_time, threshold, set())


def test_a_part_is_kept_until_it_is_older_than_it_may_be() -> None:
    threshold = Threshold("volume", 2, within_s=10.0)
    for newest, is_kept in ((20.0, True), (20.5, False)):
        early, late = Part("1", "ann", 10.0, 21.0), Part("2", "ann", newest, 21.0)
        for parts in ([early, late], [late, early]):
            assert bool(play(parts, threshold, set())) == is_kept


def test_what_goes_out_again_is_remembered_anew() -> None:
    threshold = Threshold("volume", 1, within_s=10.0, at_most=3)
    moments = [("b", 10.0), ("a", 0.0), ("c", 15.0), ("a", 15.0), ("d", 15.0), ("e", 15.0)]
    parts = [Part(id_, "ann", time, 20.0) for id_, time in [*moments, ("a", 15.0)]]
    found = [ids(aggregate) for aggregate in play(parts, threshold, set())]
    assert found == released(parts, threshold) == [[id_] for id_, _ in moments]


def test_what_waits_and_is_remembered_is_bounded() -> None:
    threshold = Threshold("people", 3, at_most=5)
    group = Group("a/#", "subject:a")
    for number in range(100):
        assert group.add(Part(f"e{number}", PEOPLE[number % 2], number, number), threshold) is None
    assert group.statistics() == {"parts": 5, "people": 2, "gone": 0}
    threshold = Threshold("volume", 2, at_most=5)
    for number in range(100, 200):
        group.add(Part(f"e{number}", "ann", number, number), threshold)
    assert group.statistics()["gone"] == 5


def test_one_who_says_much_does_not_crowd_out_others() -> None:
    threshold = Threshold("people", 3, at_most=4)
    group = Group("a/#", "subject:a")
    group.add(Part("quiet", "ann", 0.0, 0.0), threshold)
    for number in range(50):
        group.add(Part(f"loud-{number}", "bob", 1.0, 1.0), threshold)
    aggregate = group.add(Part("last", "cat", 2.0, 2.0), threshold)
    assert aggregate is not None
    assert (aggregate.people, aggregate.count) == (3, 4)


def test_a_threshold_may_be_another_for_each_part() -> None:
    group = Group("a/#", "subject:a")
    assert group.add(Part("1", "stranger", 0.0, 0.0), Threshold("people", 10)) is None
    aggregate = group.add(Part("2", "friend", 1.0, 1.0), Threshold("volume", 1))
    assert aggregate is not None
    assert aggregate.count == 2


def test_the_first_form_of_stored_state_still_opens() -> None:
    """Written by release 0.1; if this fails, checkpoints of that release no longer open."""
    stored = bytes.fromhex(FORM_1)
    group = Group.decoded("a/#", "cell:500:1:2", stored)
    assert group.statistics() == {"parts": 1, "people": 1, "gone": 2}
    assert (group.middle, group.alarm) == (Position(53.5, -6.5), 12345)
    again = Part("1", "ann", 10.0, 10.0)
    assert group.add(again, Threshold("volume", 2)) is None
    state = msgspec.msgpack.decode(stored)
    written = msgspec.msgpack.decode(group.encoded())
    assert [part[: len(state[1][0])] for part in written[1]] == state[1]
    assert written[2:] == state[2:]


def test_state_of_a_later_release_is_refused_by_its_number() -> None:
    group = Group("a/#", "subject:a")
    state = msgspec.msgpack.decode(group.encoded())
    later = msgspec.msgpack.encode([STATE_VERSION + 1, *state[1:], "new"])
    with pytest.raises(ModelError, match=f"form {STATE_VERSION + 1}, from a later release"):
        Group.decoded("a/#", "subject:a", later)
    with pytest.raises(ModelError, match="cannot be read"):
        Group.decoded("a/#", "subject:a", b"nonsense")


FORM_1 = (
    "97019197a133a3626f62cb4028000000000000cb4029000000000000cb404ac00000000000cbc01a"
    "000000000000c4077b2261223a317dcb402800000000000082a36c6174cb404ac00000000000a36c"
    "6f6ecbc01a000000000000c4106370530579aeab6e32d8b3b50eaf666ac410000000000000244000"
    "00000000002640cd3039"
)
