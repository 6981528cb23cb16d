"""Chains hold every peer once, near neighbours together, weak links last; trees reach all."""

import random
from math import ceil

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nearcast.core.propagation.chains.chain_plan import (
    Peers,
    chain_length,
    plan_chains,
    server_pushes,
)
from nearcast.core.propagation.chains.chain_tree import children, depths, parent
from nearcast.core.propagation.chains.propagation_cost import (
    LinkModel,
    PeerModel,
    best_choice,
    chain_delays,
    choices,
    hop_count,
    least_bytes,
)

PERCENTS = st.floats(0.001, 100.0)


def some_peers(count: int, seed: int = 1) -> Peers:
    chance = np.random.default_rng(seed)
    lats, lons = chance.uniform(53.2, 53.5, count), chance.uniform(-6.5, -6.0, count)
    lats[::7] = np.nan
    return Peers(lats, lons, chance.random(count) < 0.2)


@given(st.integers(0, 300), PERCENTS, st.integers(0, 5))
def test_every_peer_is_in_one_chain(count: int, percent: float, seed: int) -> None:
    chains = plan_chains(some_peers(count, seed), percent)
    assert sorted(place for chain in chains for place in chain.tolist()) == [*range(count)]
    assert len(chains) == server_pushes(0, count, percent)
    assert all(len(chain) <= chain_length(count, percent) for chain in chains)


def test_pushes_are_those_of_the_text() -> None:
    assert server_pushes(0, 60_000, 0.02) == 5_000
    assert server_pushes(0, 60_000, 1) == 100
    assert server_pushes(0, 60_000, 10) == 10
    assert server_pushes(1, 4, 50) == 3  # the text's Figure 2
    assert server_pushes(7, 0, 50) == 7


def test_weak_links_are_last_in_their_chain() -> None:
    peers = some_peers(500)
    for chain in plan_chains(peers, 10):
        weak = peers.weak[chain].tolist()
        assert weak == sorted(weak)


def test_neighbours_are_together() -> None:
    peers = some_peers(2_000)
    chains = [chain for chain in plan_chains(peers, 2) if np.isfinite(peers.lats[chain]).all()]
    within = [float(np.ptp(peers.lats[chain]) * np.ptp(peers.lons[chain])) for chain in chains]
    assert np.mean(within) < 0.3 * 0.5 / 10


@given(st.integers(1, 120), st.integers(1, 5))
def test_a_tree_reaches_everybody_once_at_its_depth(count: int, degree: int) -> None:
    reached = {0: 1}
    waiting = [0]
    while waiting:
        place = waiting.pop()
        for child in children(place, count, degree):
            assert child not in reached
            assert parent(child, degree) == place
            reached[child] = reached[place] + 1
            waiting.append(child)
    assert [reached[place] for place in range(count)] == depths(count, degree)
    assert max(reached.values()) == hop_count(count, degree) + 1
    assert parent(0, degree) is None


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 5_000))
def test_delays_are_those_of_sending_one_after_the_other(
    count: int, degree: int, size: int
) -> None:
    model = PeerModel(0.03, 50_000.0)
    expected = {0: 0.0}

    def send(place: int, ready: float) -> None:
        for child in children(place, count, degree):
            ready += size / model.bytes_per_s
            expected[child] = ready + model.hop_s
            send(child, expected[child])

    send(0, 0.0)
    found = chain_delays(count, degree).seconds(model, size)
    # All links carry while others are on their way: only copies of one sender queue.
    assert found.shape == (count,)
    np.testing.assert_allclose(found, [expected[place] for place in range(count)], rtol=1e-9)


def test_the_cheapest_choice_that_is_in_time_is_taken() -> None:
    link, peer = LinkModel(), PeerModel()
    found = choices(6_000, 600, link, peer, (0.1, 1, 10), (1, 2, 4))
    direct = next(each for each in found if not each.percent)
    best = best_choice(found, direct.mean_delay_s + 0.5)
    assert best.degree > 1
    assert least_bytes(6_000) * 0.9 < best.server_bytes < direct.server_bytes / 50
    assert best_choice(found, 0.0) == min(found, key=lambda each: each.mean_delay_s)
    assert all(each.server_bytes >= best.server_bytes or each.percent > 0 for each in found)


def test_a_random_walk_of_settings_keeps_the_formula() -> None:
    chance = random.Random(5)
    for _ in range(200):
        direct, peers = chance.randrange(100), chance.randrange(1, 9_000)
        percent = chance.choice((0.02, 0.05, 0.1, 1, 5, 10, 50, 100))
        length = max(1, round(peers * percent / 100))
        assert server_pushes(direct, peers, percent) == direct + ceil(peers / length)
