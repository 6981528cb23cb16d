"""What a message to `$node/NODE/scripts/ID` asks for."""

from collections.abc import Mapping
from typing import cast

import msgspec
from msgspec import Struct

from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.scripts.placed_script import Action
from nearcast.broker.situation.nc_properties import BAD, json_object
from nearcast.core.model.geometry.position import shown
from nearcast.placement.errors import ScriptError
from nearcast.placement.limits import ARGS_BYTES
from nearcast.placement.source import check_source

MOST_EVENTS = 64
"""Subscriptions of one script."""
_MEMBERS: Mapping[Action, tuple[str, ...]] = {
    "add": ("source", "events", "run_on_load"),
    "edit": ("source", "events", "run_on_load"),
    "execute": ("args",),
    "remove": (),
}


class ScriptRequest(Struct, frozen=True):
    """An action; what is None is left as it is."""

    action: Action
    source: str | None = None
    events: bytes | None = None
    """A JSON array."""
    run_on_load: bool = False
    args: bytes = b"null"


def script_request(payload: bytes) -> ScriptRequest:
    """Return what a message asks for; raises `RefusedError`."""
    if not payload:
        return ScriptRequest("remove")
    members = json_object(payload)
    action = members.pop("action", None)
    if action not in _MEMBERS:
        raise RefusedError(BAD, f'"action" is {", ".join(_MEMBERS)}, not {shown(action)}')
    action = cast(Action, action)
    for name in members:
        if name not in _MEMBERS[action]:
            known = ", ".join(_MEMBERS[action]) or "nothing else"
            raise RefusedError(BAD, f"unknown {shown(name)}; {action} takes {known}")
    run_on_load = members.get("run_on_load", False)
    if not isinstance(run_on_load, bool):
        raise RefusedError(BAD, f'"run_on_load" is true or false, not {shown(run_on_load)}')
    args = msgspec.json.encode(members.get("args"))
    if len(args) > ARGS_BYTES:
        raise RefusedError(BAD, f'"args" have {len(args)} bytes; at most {ARGS_BYTES} are taken')
    return ScriptRequest(
        action, _source(members, action), _events(members.get("events")), run_on_load, args
    )


def _source(members: Mapping[str, object], action: Action) -> str | None:
    source = members.get("source")
    if source is None and action == "add":
        raise RefusedError(BAD, 'a script needs a "source"')
    if source is None:
        return None
    if not isinstance(source, str):
        raise RefusedError(BAD, f'"source" is a text, not {shown(source)}')
    try:
        check_source(source)
    except ScriptError as error:
        raise RefusedError(BAD, str(error)) from None
    return source


def _events(events: object) -> bytes | None:
    if events is None:
        return None
    if not isinstance(events, list) or not all(isinstance(each, str | dict) for each in events):
        raise RefusedError(BAD, '"events" is a list of topic filters or of subscriptions')
    if len(events) > MOST_EVENTS:
        raise RefusedError(BAD, f'"events" are {len(events)}; a script has at most {MOST_EVENTS}')
    return msgspec.json.encode(events)
