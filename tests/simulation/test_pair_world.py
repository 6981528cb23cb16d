"""Worlds of silent pairs: the same seed is the same world, and what changes becomes known."""

import pytest

from nearcast.core.relationships.silence.regions.strategies import STRATEGIES
from nearcast.simulation.movement.fixes import FixQuality, fixes_of
from nearcast.simulation.movement.population import MovementKind, population
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.pair_world import PairWorld, PairWorldResult, PairWorldSettings

BAD_LINK = LinkQuality(0.0, 0.3, loss=0.3, duplication=0.2, reordering=0.2, reordering_s=2.0)


def result_of(
    seed: int, link: LinkQuality, fixes: FixQuality, crashes: float, partitions: float = 0.0
) -> PairWorldResult:
    settings = PairWorldSettings(
        seed, 300.0, 30.0, STRATEGIES["exit-hazard"], 4, fixes, link, crashes, partitions
    )
    return PairWorld(population(MovementKind.WALKERS, 12, seed), settings).run()


def test_on_a_good_link_all_that_lasts_is_detected_at_once() -> None:
    result = result_of(1, LinkQuality(0.0, 0.0), FixQuality(jitter=0.2), 0.0)
    assert result.changes == result.detected > 20
    assert result.longest_delay_s == 0.0
    assert result.messages < result.raw / 4


def test_a_seed_is_a_world_whatever_fails_in_it() -> None:
    fixes = FixQuality(jitter=0.5, noise_m=3.0, gap_share=0.02, clock_error_s=5.0)
    first, again, other = (result_of(seed, BAD_LINK, fixes, 30.0) for seed in (1, 1, 2))
    assert first == again != other
    assert first.crashes > 5
    assert first.detected > first.changes / 3


def test_what_a_partition_hides_is_detected_when_it_is_over() -> None:
    good, fixes = LinkQuality(0.0, 0.0), FixQuality(jitter=0.2)
    whole = result_of(1, good, fixes, 0.0)
    parted = result_of(1, good, fixes, 0.0, partitions=60.0)
    assert whole.partitions == 0
    assert parted.partitions > 5
    assert parted.changes == whole.changes
    assert parted.longest_delay_s > 1.0
    assert whole.changes / 2 < parted.detected < whole.changes


@pytest.mark.parametrize("kind", MovementKind)
def test_nodes_move_and_have_names_of_their_own(kind: MovementKind) -> None:
    nodes = population(kind, 25, 3)
    assert len({node.name for node in nodes}) == 25
    for node in nodes:
        assert node.course.at(0.0).distance_m(node.course.at(60.0)) < 60.0 * 14.0 + 1.0


def test_fixes_have_gaps_and_noise() -> None:
    node = population(MovementKind.WALKERS, 1, 1)[0]
    fixes = list(fixes_of(node, FixQuality(noise_m=5.0, gap_share=0.1), 600.0, 1))
    assert len(fixes) < 400
    errors = [fix.position.distance_m(node.course.at(fix.time_s)) for fix in fixes]
    assert 2.0 < sum(errors) / len(errors) < 10.0
