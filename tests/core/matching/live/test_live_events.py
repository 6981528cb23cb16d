"""Live events: the reverse question has the same answer as matching."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nearcast.core.matching.matcher import Matcher
from nearcast.core.model import Circle, Event, Position, Subscription
from tests.core.matching.matcher_pair import Pair
from tests.support.plain import plain_world as plain


@settings(
    max_examples=2 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.tuples(*(plain.positions for _ in plain.NODES)),
    st.lists(plain.subscriptions, min_size=4, max_size=8),
    st.lists(plain.events, min_size=3, max_size=10),
    st.lists(st.integers(0, 9), max_size=4),
    st.lists(st.tuples(st.sampled_from(plain.NODES), plain.positions), max_size=3),
)
def test_live_events_are_exactly_those_that_would_match_now(
    fixes: tuple[Position, ...],
    wanted: list[Subscription],
    events: list[Event],
    gone: list[int],
    moves: list[tuple[str, Position]],
) -> None:
    pair = Pair()
    for node, position in zip(plain.NODES, fixes, strict=True):
        pair.move(node, position)
    for subscription in wanted:
        pair.add(subscription)
    live = {f"k{i}": replace(event, id=f"e{i}") for i, event in enumerate(events)}
    for key, event in live.items():
        pair.matcher.live.put(key, event)
    for i in gone:
        if live.pop(f"k{i}", None) is not None:
            assert pair.matcher.live.remove(f"k{i}")
    for node, position in moves:
        pair.move(node, position)
    for key in live:
        pair.matcher.live.aim_again((key,))
    for number, subscription in pair.wanted.items():
        got = sorted((event.id, priority) for event, priority in pair.matcher.live_for(number))
        expected = sorted(
            (event.id, priority)
            for event in live.values()
            if (priority := pair.world.concerns(event, subscription)) is not None
        )
        assert got == expected
    for key in live:
        pair.matcher.live.remove(key)
    assert len(pair.matcher.live) == 0


def test_a_node_among_many_live_events_looks_only_at_what_is_near() -> None:
    matcher = Matcher()
    for i in range(2000):
        at = Position(40.0 + i * 0.01, 10.0)
        event = Event(f"e{i}", "hazard", "p", 0.0, {}, at, True, Circle(at, 300.0))
        matcher.live.put(str(i), event)
    matcher.move("me", Position(45.0, 10.0))
    number = matcher.add(Subscription("s", "me", "hazard"))
    assert len(matcher.live.aimed_at(45.0, 10.0)) <= 3
    assert len(matcher.live.near((45.0, 10.0, 1000.0))) <= 3
    assert [event.id for event, _ in matcher.live_for(number)] == ["e500"]
