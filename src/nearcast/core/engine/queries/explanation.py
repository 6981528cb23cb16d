"""Why an event does or does not match a subscription, with numbers.

The decision is that of the reference evaluator; this module adds distances and values. A viewer who
may not see where an area is gets no distance to it.
"""

from msgspec.structs import replace

from nearcast.core.adaptation.form_function import FormFunction, truths_of
from nearcast.core.adaptation.priority_matrix import WITHHELD, PriorityMatrix
from nearcast.core.adaptation.priority_rules import NEVER, priority_of
from nearcast.core.adaptation.weighted_filter import selecting_filter
from nearcast.core.language.evaluation.atom_verdicts import AtomVerdict, atom_verdicts, to_blame
from nearcast.core.matching.reference import (
    EventScope,
    Verdict,
    VerdictStep,
    WeighedAtom,
    Weighing,
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


def weighed(
    verdict: Verdict,
    event: Event,
    subscription: Subscription,
    world: WorldView,
    context_class: int,
    matrix: PriorityMatrix,
) -> Verdict:
    """Return the verdict of a subscription with relevance, with its priority and why."""
    assert subscription.relevance is not None
    form, levels = FormFunction(subscription.where), subscription.relevance.levels
    scope = EventScope(event, subscription.node, world, countable=subscription.countable)
    verdicts = [form.atom_filter(atom).evaluate_in(scope) for atom in range(len(form.atoms))]
    atoms = map(WeighedAtom, form.texts(), levels, verdicts)
    found = replace(verdict, weighing=Weighing(context_class, matrix.rows, tuple(atoms)))
    if not verdict.passed:
        return found
    priority = priority_of(form, levels, matrix.row(context_class), truths_of(verdicts))
    if priority == NEVER:
        why = f"withheld: in class {context_class} its relevance is too low"
        step = VerdictStep("priority", False, why)
        return replace(found, priority=WITHHELD, steps=(*verdict.steps, step))
    why = f"priority {priority} in class {context_class}"
    if event.priority is not None:
        said = event.priority if event.raises else max(priority, event.priority)
        if said != priority:
            why += f", and {said} by its publisher"
        priority = said
    steps = (*verdict.steps, VerdictStep("priority", True, why))
    return replace(found, priority=priority, steps=steps)


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
    where = selecting_filter(subscription)
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
