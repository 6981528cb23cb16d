"""Why an event does or does not match a subscription, with numbers.

The decision is that of the reference evaluator; this module adds distances and values. A viewer who
may not see where an area is gets no distance to it.
"""

from msgspec.structs import replace

from nearcast.core.language.evaluation.atom_verdicts import AtomVerdict, atom_verdicts, to_blame
from nearcast.core.matching.reference import (
    EventScope,
    Verdict,
    VerdictStep,
    WorldView,
    area_for,
    decide,
)
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.geometry.area import ME, Area, Around, Circle, MovingCircle
from nearcast.core.model.geometry.area_resolution import Anchored
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.visibility import SEE_WHERE_NAMED

MOST_BLAMED = 5


class FilterStep(VerdictStep, frozen=True):
    """The verdict of a filter, and of its atoms."""

    atoms: tuple[AtomVerdict, ...] = ()


def explain(event: Event, subscription: Subscription, world: WorldView) -> Verdict:
    """Decide one pair, with reasons in numbers, up to the first step that fails."""
    verdict = decide(event, subscription, world)
    scope = EventScope(event, subscription.node, world)
    steps = (_with_numbers(step, event, subscription, scope, world) for step in verdict.steps)
    return replace(verdict, steps=tuple(steps))


def explain_suspended(subscription: Subscription) -> Verdict:
    """Say that a subscription matches nothing because it is suspended."""
    why = "its filter cost more than its user may spend; it is resumed later"
    return Verdict(subscription.id, None, (VerdictStep("suspended", False, why),))


def _with_numbers(
    step: VerdictStep, event: Event, subscription: Subscription, scope: EventScope, world: WorldView
) -> VerdictStep:
    me = subscription.node
    if step.step == "from" and subscription.from_ is not None:
        found = _away(subscription.from_, me, scope.event_position(), me, world)
        return step if found is None else replace(step, why=f"{found[0]}, area {found[1]}")
    if step.step == "to" and event.to is not None:
        found = _away(event.to, event.publisher, world.position(me), me, world)
        return step if found is None else replace(step, why=f"{found[0]}, target {found[1]}")
    where = subscription.where
    if step.step == "where" and where is not None:
        why = step.why
        blamed = to_blame(where, scope)
        if blamed:
            more = len(blamed) - MOST_BLAMED
            told = "; ".join(each.why for each in blamed[:MOST_BLAMED])
            why = f"{why}: {told}{f'; and {more} more' if more > 0 else ''}"
        return FilterStep(step.step, step.passed, why, atom_verdicts(where, scope))
    return step


def _away(
    area: Area, caller: str, at: Position | None, viewer: str, world: WorldView
) -> tuple[str, str] | None:
    """Return a position's distance from a circle's centre, and the radius; None if hidden."""
    meant = area_for(area, caller, world)
    if at is None or meant is None:
        return None
    if isinstance(meant, Anchored):
        assert isinstance(area, Around)
        shape = meant.shape
        if not isinstance(shape, MovingCircle) or shape.east_m or shape.north_m:
            return None
        anchor = caller if area.anchor == ME else area.anchor
        if world.may_see(viewer, anchor) & SEE_WHERE_NAMED != SEE_WHERE_NAMED:
            return None
        centre, radius_m = meant.anchor, shape.radius_m
        name = "me" if anchor == viewer else anchor
    elif isinstance(meant, Circle):
        centre, radius_m, name = meant.center, meant.radius_m, "the centre"
    else:
        return None
    away_m = distance_m(centre.lat, centre.lon, at.lat, at.lon)
    # Enough digits for the two to differ.
    digits = next((each for each in range(6) if f"{away_m:.{each}f}" != f"{radius_m:.{each}f}"), 0)
    return f"{away_m:,.{digits}f} m from {name}", f"{radius_m:,.{digits}f} m"
