"""The matcher finds exactly what the plain reference finds, whatever happens in between."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast.core.language import parse
from nearcast.core.model import (
    Around,
    Circle,
    Event,
    MovingCircle,
    Position,
    Subscription,
)
from tests.core.matching.matcher_pair import Pair
from tests.support.plain import plain_world as plain

nodes = st.sampled_from(plain.NODES)
steps = st.one_of(
    st.tuples(st.just("add"), plain.subscriptions),
    st.tuples(st.just("add"), plain.subscriptions),
    st.tuples(st.just("remove"), st.integers(0, 20)),
    st.tuples(st.just("move"), nodes, plain.positions),
    st.tuples(st.just("move"), nodes, st.none() | plain.positions),
    st.tuples(st.just("update"), nodes, plain.contexts),
    st.tuples(st.just("see"), nodes, nodes, plain.masks),
    st.tuples(st.just("match"), st.lists(plain.events, min_size=1, max_size=4)),
)  # fmt: skip


@settings(
    max_examples=4 * settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.tuples(*(plain.positions for _ in plain.NODES)),
    st.lists(plain.subscriptions, min_size=6, max_size=12),
    st.lists(steps, max_size=12),
    st.lists(plain.events, min_size=4, max_size=8),
)
def test_the_matcher_equals_the_reference(
    fixes: tuple[Position, ...],
    wanted: list[Subscription],
    happenings: list[tuple[object, ...]],
    last: list[Event],
) -> None:
    pair = Pair()
    for node, position in zip(plain.NODES, fixes, strict=True):
        pair.move(node, position)
    for subscription in wanted:
        pair.add(subscription)
    for what, *details in happenings:
        getattr(pair, str(what))(*details)
    pair.match(last)


@pytest.mark.parametrize("corner", plain.CORNERS)
def test_crowded_keys_are_spread_over_the_globe_and_still_found(
    corner: tuple[float, float],
) -> None:
    rng = np.random.default_rng(hash(corner) % 1000)
    pair = Pair()
    where = parse("kind = 'bus' AND speed > 2")

    def somewhere(spread: float) -> Position:
        return plain.wrapped(
            corner[0] + float(rng.normal(0, spread)), corner[1] + float(rng.normal(0, spread))
        )

    def circle() -> float:
        return float(100.0 * np.exp(rng.random() * np.log(300.0)))

    for i in range(1800):
        node = f"n{i}"
        if rng.random() < 0.9:
            pair.move(node, somewhere(0.05))
        area = None
        if rng.random() < 0.95:
            around = "me" if rng.random() < 0.7 else f"n{rng.integers(0, i + 1)}"
            area = Around(around, MovingCircle(circle()))
        if rng.random() < 0.1:
            area = Circle(somewhere(0.1), circle())  # type: ignore[assignment]
        pair.add(Subscription("", node, "city/#", where if rng.random() < 0.8 else None, area))
        if i % 7 == 3:
            pair.remove(int(rng.integers(0, 1000)))

    def happening() -> Event:
        target = Circle(somewhere(0.02), circle()) if rng.random() < 0.4 else None
        kind = str(rng.choice(["bus", "car"]))
        return Event(
            "e", "city/bus", "p", 0.0, {"kind": kind, "speed": int(rng.integers(0, 5))},
            somewhere(0.05), True, target,
        )  # fmt: skip

    for _ in range(3):
        pair.match([happening() for _ in range(12)])
        for i in rng.integers(0, 1800, 600):
            pair.move(f"n{i}", somewhere(0.08) if rng.random() < 0.9 else None)
    statistics = pair.matcher.statistics()
    assert statistics["cells"] > 20
    pair.matcher.remove_many(np.array(list(pair.wanted), np.int32))
    pair.wanted.clear()
    pair.match([happening()])
    after = pair.matcher.statistics()
    assert (after["entries"], after["cells"], after["keys"], after["rules"]) == (0, 0, 0, 0)
    assert after["atoms"] == 1
