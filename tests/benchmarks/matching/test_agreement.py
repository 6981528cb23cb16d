import numpy as np
import pytest

from nearcast.benchmarks.errors import BenchmarkError
from nearcast.benchmarks.matching.agreement import MatchingCity, check_agreement
from nearcast.benchmarks.matching.benchmark import draw
from nearcast.benchmarks.matching.nearcast_side import measure
from nearcast.benchmarks.matching.peers import PEERS, MatchedPairs

EVENTS = 300


@pytest.fixture(scope="module")
def city() -> MatchingCity:
    return draw(10_000, EVENTS, seed=3)


@pytest.fixture(scope="module")
def ours(city: MatchingCity) -> MatchedPairs:
    return measure(city, EVENTS, 1, lambda what: None)[1]


def test_the_matcher_finds_something(ours: MatchedPairs) -> None:
    assert len(ours.event) > 20


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_finds_what_the_matcher_finds(
    name: str, city: MatchingCity, ours: MatchedPairs
) -> None:
    lacks = PEERS[name].missing()
    if lacks is not None:
        pytest.skip(f"not installed: {lacks}")
    peer = PEERS[name].start()
    try:
        peer.load(city.subscriptions, city.people)
        whole = peer.match(city.events, 0, EVENTS)
        check_agreement(city, name, whole, ours)
        parts = [peer.match(city.events, first, first + 100) for first in range(0, EVENTS, 100)]
        joined = MatchedPairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        check_agreement(city, name, joined, ours)
    finally:
        peer.close()


def test_a_missing_pair_is_named(city: MatchingCity, ours: MatchedPairs) -> None:
    fewer = MatchedPairs(ours.event[1:], ours.subscription[1:])
    said = f"nearcast says that event {ours.event[0]} matches subscription {ours.subscription[0]}"
    with pytest.raises(BenchmarkError, match=said):
        check_agreement(city, "other", fewer, ours)


def test_a_pair_too_many_is_named(city: MatchingCity, ours: MatchedPairs) -> None:
    with pytest.raises(BenchmarkError, match="other says that event 0"):
        check_agreement(city, "other", _with_one_more(city, ours, factor=0.5), ours)


def test_a_pair_found_twice_is_refused(city: MatchingCity, ours: MatchedPairs) -> None:
    twice = MatchedPairs(*(np.concatenate([column, column[:1]]) for column in ours))
    with pytest.raises(BenchmarkError, match="more than once"):
        check_agreement(city, "other", twice, ours)


def test_a_pair_on_the_edge_of_its_circle_may_differ(
    city: MatchingCity, ours: MatchedPairs
) -> None:
    more = _with_one_more(city, ours, factor=1.0 + 5e-6)
    edge = int(more.subscription[-1])
    radius_m = city.subscriptions.radius_m.copy()
    radius_m[edge] = _distance_m(city, edge) / (1.0 + 5e-6)
    moved = MatchingCity(city.subscriptions._replace(radius_m=radius_m), city.people, city.events)
    check_agreement(moved, "other", more, ours)


def _with_one_more(city: MatchingCity, ours: MatchedPairs, factor: float) -> MatchedPairs:
    """A pair of the first event that nobody found, not within `factor` of its distance."""
    taken = set(ours.subscription[ours.event == 0].tolist())
    row = next(
        row
        for row in range(len(city))
        if row not in taken and _distance_m(city, row) * factor > city.subscriptions.radius_m[row]
    )
    return MatchedPairs(
        np.append(ours.event, np.int32(0)).astype(np.int32),
        np.append(ours.subscription, np.int32(row)).astype(np.int32),
    )


def _distance_m(city: MatchingCity, row: int) -> float:
    from nearcast.core.model.geometry.geodesy import distance_m

    owner = city.subscriptions.owner[row]
    return distance_m(
        city.people.lat[owner], city.people.lon[owner], city.events.lat[0], city.events.lon[0]
    )
