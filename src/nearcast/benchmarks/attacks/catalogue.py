"""All attacks, by name."""

from nearcast.benchmarks.attacks.attack import Attack
from nearcast.benchmarks.attacks.filter_attacks import (
    FewCounts,
    FewPatterns,
    ManyCounts,
    ManyPatterns,
)
from nearcast.benchmarks.attacks.flood_attacks import FewPings, ManyPings

ATTACKS: dict[str, type[Attack]] = {
    attack.name: attack
    for attack in (FewPatterns, ManyPatterns, FewCounts, ManyCounts, FewPings, ManyPings)
}
