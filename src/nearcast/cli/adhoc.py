"""`nearcast adhoc`: nodes without a broker, and the keys of their groups."""

import asyncio
import os
import secrets
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nearcast.cli.failures import fail
from nearcast.core.model.geometry.position import parse_position
from nearcast.wire.beacons.group_key import KEY_BYTES, GroupKey
from nearcast.wire.beacons.signatures import (
    Member,
    MembersError,
    SigningKey,
    check_member_name,
    member_line,
)

app = typer.Typer(no_args_is_help=True, help="Meet other nodes without a broker, over multicast.")

Node = Annotated[str, typer.Option(help="The name of this node.")]
At = Annotated[str, typer.Option(help="Where this node is: LAT,LON.")]
Key = Annotated[
    list[Path] | None,
    typer.Option(help="A file with the group key; of several the first seals, and all open."),
]
Interface = Annotated[
    str | None, typer.Option(help="A network interface; by default the one that multicast goes to.")
]
Sign = Annotated[
    Path | None, typer.Option(help="This node's signing key: a file made by nearcast adhoc sign.")
]
Members = Annotated[
    Path | None, typer.Option(help="The members' public keys: only what they signed is taken.")
]
Pseudonym = Annotated[
    float | None,
    typer.Option(help="Be known to others by a name that changes after so many seconds."),
]
Ipv6 = Annotated[bool, typer.Option("--ipv6", help="Use IPv6.")]


@app.callback()
def _adhoc() -> None:
    """Meet other nodes without a broker, over multicast."""


@app.command("key")
def make_key(
    file: Annotated[Path, typer.Argument(help="The file to make; it must not exist yet.")],
) -> None:
    """Make a group key: copy the file to all members, over a channel that only they can read."""
    secret = secrets.token_bytes(KEY_BYTES)
    _keep(file, secret, "members of a group share one key")
    typer.echo(
        f"Made {file}, the key {GroupKey(secret).fingerprint.hex()}. Copy it to all members."
    )


@app.command("sign")
def make_signing_key(
    node: Annotated[str, typer.Argument(help="The node that is to sign.")],
    file: Annotated[Path, typer.Argument(help="The file to make; it must not exist yet.")],
    gateway: Annotated[
        bool, typer.Option("--gateway", help="It may pass on what others published elsewhere.")
    ] = False,
) -> None:
    """Make a node's signing key, and print its line for the file of the members.

    The key stays on the node; the line goes into the file that every member has.
    """
    try:
        check_member_name(node)
    except MembersError as error:
        fail(str(error))
    secret = secrets.token_bytes(KEY_BYTES)
    _keep(file, secret, "a node keeps its signing key, or all members need its new line")
    typer.echo(member_line(node, Member(SigningKey(secret).public, gateway)))


def _keep(file: Path, secret: bytes, why: str) -> None:
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        fail(f"{file} exists: {why}; name another file for a new one")
    except OSError as error:
        fail(f"{file} cannot be made: {error.strerror}")
    with os.fdopen(handle, "w", encoding="ascii") as out:
        out.write(f"{secret.hex()}\n")


@app.command()
def listen(
    pattern: Annotated[str, typer.Argument(help="A subject, with the wildcards + and #.")],
    at: At,
    node: Node = "listener",
    where: Annotated[str | None, typer.Option(help="A filter in CQL2.")] = None,
    key: Key = None,
    sign: Sign = None,
    members: Members = None,
    pseudonym: Pseudonym = None,
    interface: Interface = None,
    ipv6: Ipv6 = False,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many events; 0: never.")] = 0,
) -> None:
    """Print the events that reach this node, one JSON object a line."""
    place = parse_position(at)

    async def run() -> None:
        from nearcast.adhoc.adhoc_node import adhoc

        got = 0
        async with adhoc(
            node, key=key, sign=sign, members=members, pseudonym_s=pseudonym,
            interface=interface, family=6 if ipv6 else 4,
        ) as me:  # fmt: skip
            await me.move(place.lat, place.lon)
            async with me.subscribe(pattern, where=where) as events:
                async for event in events:
                    line = {
                        "subject": event.subject,
                        "publisher": event.publisher,
                        "time": event.time,
                        "attributes": event.attributes,
                    }
                    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
                    sys.stdout.flush()
                    got += 1
                    if got == count:
                        return

    _run(run())


@app.command()
def send(
    subject: Annotated[str, typer.Argument(help="The subject of the events.")],
    at: At,
    to: Annotated[str, typer.Option(help="The area that they concern.")] = "circle:me,200",
    node: Node = "sender",
    key: Key = None,
    sign: Sign = None,
    members: Members = None,
    pseudonym: Pseudonym = None,
    interface: Interface = None,
    ipv6: Ipv6 = False,
    settle: Annotated[
        float, typer.Option(min=0.0, help="Seconds for others to discover the area.")
    ] = 0.5,
) -> None:
    """Announce a subject, and raise an event for each line of input, a JSON object."""
    place = parse_position(at)

    async def run() -> None:
        from nearcast.adhoc.adhoc_node import adhoc

        loop = asyncio.get_running_loop()
        async with adhoc(
            node, key=key, sign=sign, members=members, pseudonym_s=pseudonym,
            interface=interface, family=6 if ipv6 else 4,
        ) as me:  # fmt: skip
            await me.move(place.lat, place.lon)
            await me.announce(subject, to=to)
            await asyncio.sleep(settle)
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                try:
                    attributes = msgspec.json.decode(line, type=dict[str, object])
                except msgspec.DecodeError as error:
                    fail(f"a line is no JSON object ({error}): {line.strip()[:80]}")
                typer.echo(await me.raise_(subject, attributes))

    _run(run())


def _run(work: Coroutine[None, None, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
