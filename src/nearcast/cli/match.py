"""`nearcast match`: try a filter on an event, without a broker."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nearcast.cli.client.option_checks import position_of
from nearcast.core.engine.engine import Engine
from nearcast.core.engine.queries.explanation import FilterStep, explain
from nearcast.core.language import parse
from nearcast.core.language.evaluation.instants import read_timestamp
from nearcast.core.matching.reference import VerdictStep
from nearcast.core.model import Event, Position, Subscription, parse_area
from nearcast.core.model.geometry.position import parse_position, position_from_json
from nearcast.core.model.inputs import ContextPatched, Input, Moved
from nearcast.core.model.payload import attributes_of

ROUND_IT = ("at", "base64", "id", "payload", "priority", "publisher", "subject", "text", "time")
"""Members of an object that is a whole event, not only its payload: as in `$me/publish`."""


def match(
    where: Annotated[str, typer.Argument(metavar="FILTER", help="A filter, as in speed > 50.")],
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT.json",
            help="A file with the event's payload, or the JSON itself; - is the input.",
        ),
    ],
    *,
    area: Annotated[
        str | None,
        typer.Option("--from", metavar="AREA", help="Also whether the event is in this area."),
    ] = None,
    me: Annotated[
        str | None,
        typer.Option("--me", metavar="FILE", help="The context of me, in JSON, for me.role."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="LAT,LON", help="Where I am, for distance(me, event).")
    ] = None,
    event_at: Annotated[
        str | None, typer.Option(metavar="LAT,LON", help="Where the event is.")
    ] = None,
    subject: Annotated[str, typer.Option(help="The event's subject.")] = "event",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Try a filter on an event, and say what each part of it finds; no broker is needed.

    An object with "payload" is taken for a whole event: with "at": "LAT,LON", "subject",
    "publisher" and "time" beside it. The exit code is 0 if it matches, 1 if it does not.
    """
    # Separately, so that the filter is also evaluated for an event outside the area.
    wanted = [Subscription("match", "me", "#", where=parse(where))]
    if area is not None:
        wanted.insert(0, Subscription("match", "me", "#", from_=parse_area(area)))
    engine = Engine()
    inputs: list[Input] = []
    if me is not None:
        inputs.append(ContextPatched("me", _object(me, "--me")))  # type: ignore[arg-type]  # JSON
    if at is not None:
        inputs.append(Moved("me", position_of(at, "--at")))
    for refusal in engine.step(inputs, 0.0).refusals:
        raise typer.BadParameter(refusal.reason, param_hint="--me")
    found = _event(_object(event, "EVENT.json"), subject)
    if event_at is not None:
        found = msgspec.structs.replace(
            found, position=position_of(event_at, "--event-at"), at_given=True
        )
    verdicts = [explain(found, each, engine.matcher.world) for each in wanted]
    # The subject matches, the event has no target, and there are no priorities here.
    steps = [
        step
        for each, verdict in zip(wanted, verdicts, strict=True)
        for step in verdict.steps
        if step.step == ("where" if each.from_ is None else "from")
    ]
    matches = all(step.passed for step in steps)
    _print(matches, steps, as_json)
    raise typer.Exit(0 if matches else 1)


def _object(source: str, what: str) -> dict[str, object]:
    """Return a JSON object from a file, from standard input, or from the argument itself."""
    try:
        if source == "-":
            text = sys.stdin.read()
        elif source.lstrip().startswith("{"):
            text = source
        else:
            text = Path(source).read_text(encoding="utf-8")
        value = json.loads(text)
    except OSError as error:
        raise typer.BadParameter(f"{source}: {error.strerror}", param_hint=what) from None
    except ValueError as error:
        raise typer.BadParameter(f"{source} is no JSON: {error}", param_hint=what) from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"{source} is no JSON object", param_hint=what)
    return value


def _event(members: dict[str, object], subject: str) -> Event:
    """Return the event of an object, which is a whole event or its payload."""
    whole = "payload" in members and members.keys() <= set(ROUND_IT)
    payload = members["payload"] if whole else members
    said = members if whole else {}
    position = _position(said.get("at"))
    try:
        time = read_timestamp(str(said["time"])).timestamp() if "time" in said else 0.0
    except ValueError as error:
        raise typer.BadParameter(f"time: {error}", param_hint="EVENT.json") from None
    return Event(
        str(said.get("id", "event")),
        str(said.get("subject", subject)),
        str(said.get("publisher", "publisher")),
        time,
        attributes_of(msgspec.json.encode(payload)),
        position,
        position is not None,
    )


def _position(value: object) -> Position | None:
    if value is None:
        return None
    return parse_position(value) if isinstance(value, str) else position_from_json(value)


def _print(matches: bool, steps: Sequence[VerdictStep], as_json: bool) -> None:
    if as_json:
        told = {"matches": matches, "steps": msgspec.to_builtins(steps)}
        typer.echo(json.dumps(told, indent=2))
        return
    for step in steps:
        if isinstance(step, FilterStep):
            for atom in step.atoms:
                said = {True: "yes    ", False: "no     ", None: "unknown"}[atom.holds]
                typer.echo(f"{said}  {atom.why}")
        else:
            typer.echo(f"{'yes    ' if step.passed else 'no     '}  from: {step.why}")
    typer.echo("It matches." if matches else "It does not match.")
