"""`nearcast pub`: publish a message, a file, or every line of standard input."""

import asyncio
import contextlib
import json
import math
import os
import secrets
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from nearcast.cli.client import server_options as server
from nearcast.cli.client.broker_warnings import shown
from nearcast.cli.client.option_checks import check_event
from nearcast.client.api.event_options import EventOptions
from nearcast.wire.mqtt import MQTT_5

ID_BYTES = 10


@server.with_broker
def pub(
    topic: Annotated[str, typer.Argument(help="Where to publish.")],
    message: Annotated[str | None, typer.Argument(help="What to publish.")] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Publish what this file holds; - is the input."),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Publish every line of the input as it comes.")
    ] = False,
    qos: Annotated[
        int | None,
        typer.Option(
            min=0, max=2, help="0, 1 or 2 [default: 0; 1 with --at, --to and their like]."
        ),
    ] = None,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep it for later subscribers.")
    ] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="K=V", help="A user property; may be repeated."),
    ] = None,
    expiry: Annotated[
        int | None,
        typer.Option(min=0, max=0xFFFF_FFFF, help="Seconds that the message is good for."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="LAT,LON", help="Where it happens, if not where you are.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="AREA", help="Whom it concerns: circle:LAT,LON,METRES, circle:me,500, place:x."
        ),
    ] = None,
    valid: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds for which it can be met; 0 withdraws it."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--object", help="The thing that this is the newest version of.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=1, help="How urgent it is: 1 is the most.")
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help="Seconds until which it is of use; what is due first leaves first."),
    ] = None,
    people: Annotated[
        int | None,
        typer.Option(min=2, max=10_000, help="Nobody hears of fewer people together than so many."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="RFC3339", help="When it happened, if not now.")
    ] = None,
    event_id: Annotated[
        str | None, typer.Option(help="The event's id: a second one with the same is ignored.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Publish so many times.")] = 1,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the event's id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the id as JSON.")] = False,
    broker: server.BrokerOptions,
    mqtt: server.MqttOption = MQTT_5,
) -> None:
    """Publish to a broker; with QoS 1 and 2, wait until it has the message.

    The id of the event is printed, for `nearcast explain`, unless there are many, or MQTT is older
    than 5, or the message is not an event.
    """
    if (message is not None) + (file is not None) + lines != 1:
        raise typer.BadParameter("give one of MESSAGE, --file and --lines", param_hint="MESSAGE")
    if mqtt != MQTT_5 and (properties or expiry is not None):
        raise typer.BadParameter("--property and --expiry need --mqtt 5", param_hint="--mqtt")
    if valid is not None and not math.isfinite(valid):
        raise typer.BadParameter(
            f"{valid:g} is no number of seconds; to keep an event for as long as it is true, use "
            "--object or --retain",
            param_hint="--valid",
        )
    pairs = tuple(_pair(text) for text in properties or ())
    given = (at, to, valid, key, priority, deadline, people, time, event_id)
    # Errors in these are reported only by an acknowledgement.
    level = qos if qos is not None else int(any(each is not None for each in given))
    event = EventOptions(
        at=at,
        to=to,
        valid=valid,
        object=key,
        priority=priority,
        deadline=deadline,
        people=people,
        time=time,
        id=event_id,
    )
    check_event(event.pack(topic, None, MQTT_5, pairs).properties.user_properties)
    alone = not lines and repeat == 1 and mqtt == MQTT_5 and not topic.startswith("$")
    if alone and not quiet and event_id is None and "nc-id" not in dict(pairs):
        event = replace(event, id=secrets.token_hex(ID_BYTES))
    options = broker.client_options("pub", version=mqtt)
    connection = broker.connection(options)

    # Only a moving target can be without effect.
    warnings_of = contextlib.nullcontext if to is None else shown

    async def work() -> None:
        async with connection, warnings_of(connection):
            async for payload in _payloads(message, file):
                packed = event.pack(topic, payload, mqtt, pairs)
                described = packed.properties
                if expiry is not None:
                    described = replace(described, message_expiry_interval=expiry)
                for _ in range(repeat):
                    await connection.publish(
                        packed.topic,
                        packed.payload,
                        qos=level,
                        retain=retain,
                        properties=described,
                    )
            await connection.settled()

    asyncio.run(work())
    if event.id is not None and not quiet:
        typer.echo(json.dumps({"id": event.id, "subject": topic}) if as_json else event.id)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--property")
    return key, value


async def _payloads(message: str | None, file: Path | None) -> AsyncIterator[bytes]:
    if message is not None:
        yield message.encode(errors="surrogateescape")
    elif file is None:
        async for line in _lines():
            yield line
    elif str(file) == "-":
        yield await asyncio.to_thread(sys.stdin.buffer.read)
    else:
        try:
            yield file.read_bytes()
        except OSError as error:
            raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--file") from None


async def _lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input, without blocking the client."""
    loop = asyncio.get_running_loop()
    # One line at a time, so that the writer waits for the broker.
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(1)

    def read() -> None:
        rest = b""
        while data := os.read(0, 1 << 16):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
        for last in (rest, None) if rest else (None,):
            asyncio.run_coroutine_threadsafe(lines.put(last), loop).result()

    # A daemon thread: a read that never returns does not block Ctrl-C.
    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line.removesuffix(b"\r")
