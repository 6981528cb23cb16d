"""Which pairs a relationship needs watched so that its members may keep silent.

A region reveals the peer, so only members that may see each other's position are told one. Where
they may not, or where regions do not tell the state, members report every fix.
"""

from collections.abc import Container
from itertools import combinations

from msgspec import Struct

from nearcast.core.engine.engine import Engine
from nearcast.core.model.inputs import RelationshipDefined
from nearcast.core.model.visibility import SEE_WHERE_NAMED

MOST_SILENT_MEMBERS = 16
"""In larger groups members report every fix: every two would be a pair."""
MOST_RELATIONSHIPS = 256
"""A node that is in more reports every fix for those beyond."""


class PairKey(Struct, frozen=True, gc=False):
    """Two members, by name, and the metres within which they are near."""

    one: str
    other: str
    within_m: float


class SilencePlan(Struct, frozen=True):
    """What a relationship needs."""

    pairs: tuple[PairKey, ...] = ()
    """All pairs of members; empty if silence tells nothing of it."""
    reporting: tuple[str, ...] = ()
    """Members that report every fix."""


NO_PLAN = SilencePlan()


def silence_plan(engine: Engine, name: str, followers: Container[str]) -> SilencePlan:
    """Return what a relationship needs, given the nodes that follow regions."""
    defined = engine.relationships.get(name)
    if defined is None or defined.of is not None:
        return NO_PLAN
    following = tuple(each for each in defined.members if each in followers)
    if not following or not _sees_all(engine, defined.node, defined.members):
        # Judged by the definer's sight, members that it does not see are nowhere.
        return NO_PLAN
    if defined.where is not None or len(defined.members) > MOST_SILENT_MEMBERS:
        return SilencePlan(reporting=following)
    if any(len(engine.relationships.of_member(each)) > MOST_RELATIONSHIPS for each in following):
        return SilencePlan(reporting=following)
    if not all(_sees_all(engine, each, defined.members) for each in defined.members):
        return SilencePlan(reporting=following)
    if any(engine.position(each) is None for each in defined.members):
        return NO_PLAN if len(defined.members) == 2 else SilencePlan(reporting=following)
    return SilencePlan(
        tuple(
            PairKey(one, other, metres)
            for one, other in combinations(sorted(defined.members), 2)
            for metres in limits(defined, one, other)
        )
    )


def limits(defined: RelationshipDefined, one: str, other: str) -> list[float]:
    """Return the distances that matter between two members."""
    if defined.metres:
        own = dict(zip(defined.members, defined.metres, strict=True))
        return sorted({own[one], own[other]})
    metres = defined.within if defined.within is not None else defined.beyond
    assert metres is not None, "a relationship has a distance"
    return [metres]


def _sees_all(engine: Engine, viewer: str, members: tuple[str, ...]) -> bool:
    may_see = engine.matcher.world.may_see
    return all(
        may_see(viewer, each) & SEE_WHERE_NAMED == SEE_WHERE_NAMED
        for each in members
        if each != viewer
    )
