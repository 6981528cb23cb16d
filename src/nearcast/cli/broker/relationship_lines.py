"""What `nearcast explain --relationship` prints."""

import json
from collections.abc import Iterable, Iterator

import typer

from nearcast.broker.operations.explanations.relationship_explanation import (
    ExplainedMember,
    RelationshipExplanation,
    StateChange,
    StateNow,
    relationship_value,
)
from nearcast.broker.situation.metadata import time_text
from nearcast.core.model.inputs import RelationshipDefined
from nearcast.core.model.region_record import RegionRecord


def print_relationship(found: RelationshipExplanation, as_json: bool) -> None:
    """Print why a relationship is near or apart."""
    if as_json:
        typer.echo(json.dumps(relationship_value(found), indent=2))
        return
    for line in _lines(found):
        typer.echo(line)
    for gap in found.missing:
        typer.echo(f"Part of the log is missing, so this may be wrong: {gap}", err=True)


def _lines(found: RelationshipExplanation) -> Iterator[str]:
    if found.defined is None:
        yield f"{found.name} has ended."
    else:
        yield f"{found.name}, defined by {found.defined.node}: {_condition(found.defined)}."
    for state in found.states:
        yield f"  {_state(state)}"
    for member in found.members:
        yield f"  {_member(member)}"
        yield from _regions(member.regions)
    if found.changes:
        yield "Changes, the oldest first:"
    for change in found.changes:
        yield f"  {_change(change)}"
        yield from _regions(change.regions)


def _condition(defined: RelationshipDefined) -> str:
    unit = "" if defined.of is not None else " m"
    if defined.metres:
        own = zip(defined.members, defined.metres, strict=True)
        metres = ", ".join(f"{node} within {each:g}{unit}" for node, each in own)
    elif defined.within is not None:
        metres = f"within {defined.within:g}{unit}"
    else:
        metres = f"apart beyond {defined.beyond:g}{unit}"
    count = len(defined.members)
    need = "" if defined.need == count else f", {defined.need} of {count}"
    of = "" if defined.of is None else f", of {defined.of}"
    return f"{metres}{need}{of}"


def _state(state: StateNow) -> str:
    by = f" by {state.by}" if state.by else ""
    return f"{state.state}{by} since {time_text(state.since)}{_far(state.distance, state.margin)}"


def _far(distance: float | None, margin: float | None) -> str:
    if distance is None or margin is None:
        return ", distance unknown"
    return f", distance {distance:.6g}, {margin:.6g} from changing"


def _member(member: ExplainedMember) -> str:
    if member.why:
        return f"{member.node} does not count: {member.why}"
    if member.position is not None:
        at = "" if member.reported is None else f", reported {time_text(member.reported)}"
        return f"{member.node} at {member.position.lat},{member.position.lon}{at}"
    return f"{member.node} has {member.value:g}"


def _regions(regions: Iterable[RegionRecord]) -> Iterator[str]:
    for each in regions:
        yield (
            f"    {each.node} keeps silent in {each.region}, {each.margin_m:g} m inside, because "
            f"of {each.peer}; {each.told_by} told it"
        )


def _change(change: StateChange) -> str:
    by = f" by {change.by}" if change.by else ""
    state = f"{change.state} (ended)" if change.ended else f"{change.state}{by}"
    far = "" if change.ended else _far(change.distance, change.margin)
    return f"{time_text(change.time)} {state}{far}: {change.why} (input {change.seq})"
