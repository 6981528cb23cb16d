"""Scripts: computations that a node places where their data is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from nearcast.client.api.commands import Commands
from nearcast.client.api.subscription_request import SubscriptionRequest
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import Stream, StreamContext

if TYPE_CHECKING:
    from nearcast.client.api.script_hosting import ScriptHosting

SCRIPTS = "$me/scripts"
_FEW = 4
Wanted = str | Mapping[str, object]
"""A topic filter, or the members of a subscription, such as `where` and `from`."""


class ListedScript(Struct, frozen=True):
    """A script of this node."""

    id: str
    sender: str = msgspec.field(name="from")
    events: tuple[object, ...] = ()
    """What it subscribes to."""
    state: Literal["runs", "stopped"] = "runs"
    error: str | None = None
    """Why it is stopped."""


class NodeScripts:
    """Places scripts at nodes, and manages those of the own node."""

    def __init__(self, context: StreamContext, node: str) -> None:
        self._script_context = context
        self._script_commands: Commands = context.commands
        self._own_node = node

    async def add_script(
        self,
        id: str,  # noqa: A002  # the word of the contract
        source: str,
        *,
        events: Sequence[Wanted] = (),
        node: str | None = None,
        run_on_load: bool = False,
    ) -> None:
        """Place a script at a node, by default the own; it is in force on return.

        Its source is Starlark: `on_event(event, state)` is called with each of the events,
        `run(args, state)` on command. Raises `RejectedError` if it is not accepted.
        """
        members = {"source": source, "events": list(events), "run_on_load": run_on_load}
        await self._tell_script(node, id, "add", members)

    async def edit_script(
        self,
        id: str,  # noqa: A002
        source: str | None = None,
        *,
        events: Sequence[Wanted] | None = None,
        node: str | None = None,
        run_on_load: bool = False,
    ) -> None:
        """Change a script, and let it go on if it was stopped; its state stays.

        What is not given stays as it is.
        """
        members: dict[str, object] = {"run_on_load": run_on_load}
        if source is not None:
            members["source"] = source
        if events is not None:
            members["events"] = list(events)
        await self._tell_script(node, id, "edit", members)

    async def execute_script(
        self,
        id: str,  # noqa: A002
        args: object = None,
        *,
        node: str | None = None,
    ) -> None:
        """Call `run` of a script; returns once the call is queued."""
        await self._tell_script(node, id, "execute", {"args": args})

    async def remove_script(self, id: str, *, node: str | None = None) -> None:  # noqa: A002
        """Remove a script that this node or its user sent."""
        await self._tell_script(node, id, "remove", {})

    async def evict_script(self, id: str) -> None:  # noqa: A002
        """Remove a script from the own node, whoever sent it."""
        await self._script_commands.send(f"{SCRIPTS}/{quote(id, safe='')}", b"")

    def host_scripts(self) -> "ScriptHosting":
        """Return what runs the scripts of the own node in this program, while it is entered.

        Only those that this node has placed itself; needs the extra `broker`.
        """
        # The sandbox is more than most programs need.
        from nearcast.client.api.script_hosting import ScriptHosting

        return ScriptHosting(self._script_context)

    async def scripts(self) -> list[ListedScript]:
        """Return the scripts of the own node."""
        request = SubscriptionRequest(pattern=SCRIPTS)
        async with Stream(self._script_context, request, _listed, buffer=_FEW) as stream:
            return await anext(stream)

    async def _tell_script(
        self, node: str | None, id_: str, action: str, members: Mapping[str, object]
    ) -> None:
        topic = script_topic(self._own_node if node is None else node, id_)
        payload = msgspec.json.encode({"action": action, **members})
        await self._script_commands.send(topic, payload)


def script_topic(node: str, id_: str) -> str:
    """Return the topic by which a script is placed."""
    return f"$node/{quote(node, safe='')}/scripts/{quote(id_, safe='')}"


def _listed(event: Received) -> list[ListedScript] | None:
    try:
        return msgspec.json.decode(event.payload, type=list[ListedScript])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
