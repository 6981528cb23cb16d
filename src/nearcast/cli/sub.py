"""`nearcast sub`: print messages as they come."""

import asyncio
import contextlib
import signal
import sys
from base64 import b64encode
from typing import Annotated, Any

import msgspec
import typer

from nearcast.cli import server_options as server
from nearcast.client.connection import Connection
from nearcast.wire.mqtt import MQTT_5, Publish, TopicFilter

STOPPED = 130
"""The exit code where fewer messages came than were asked for."""
# Control characters could rewrite what stands on a terminal.
_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def sub(
    topics: Annotated[list[str], typer.Argument(help="Topic filters, with + and #.")],
    *,
    qos: Annotated[int, typer.Option(min=0, max=2, help="0, 1 or 2.")] = 0,
    count: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many.", show_default="until Ctrl-C")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each message.")
    ] = False,
    no_retained: Annotated[
        bool, typer.Option("--no-retained", help="Leave out what was published before.")
    ] = False,
    session_expiry: Annotated[
        int,
        typer.Option(
            min=0,
            max=0xFFFF_FFFF,
            help="Seconds for which the broker keeps messages of QoS 1 and 2 when this has "
            "ended, to be had by the same --id; with MQTT 3 the broker decides how long.",
        ),
    ] = 0,
    url: server.Url = None,
    host: server.Host = None,
    port: server.Port = None,
    user: server.User = None,
    password_file: server.PasswordFile = None,
    ca_file: server.Authority = None,
    client_id: server.Id = None,
    mqtt: server.Mqtt = MQTT_5,
) -> None:
    """Print what is published, as `TOPIC MESSAGE`, until Ctrl-C."""
    if session_expiry and client_id is None:
        raise typer.BadParameter("a session that is kept needs an --id", param_hint="--id")
    options = server.client_options(
        client_id,
        "sub",
        version=mqtt,
        clean_start=not session_expiry,
        session_expiry_s=session_expiry if mqtt == MQTT_5 else 0,
    )
    broker = server.Broker(url, host, port, user, password_file, ca_file)
    connection = broker.connection(options)
    handling = 2 if no_retained and mqtt == MQTT_5 else 0
    filters = [TopicFilter(topic, qos, retain_handling=handling) for topic in topics]
    wanted = _Wanted(as_json, count, no_retained and mqtt != MQTT_5)
    server.run(lambda: _print_until_stopped(connection, filters, wanted))
    if count is not None and wanted.printed < count:
        raise typer.Exit(STOPPED)


class _Wanted(msgspec.Struct):
    """What is printed, and how much of it was."""

    as_json: bool
    count: int | None
    without_retained: bool
    printed: int = 0

    @property
    def enough(self) -> bool:
        return self.count is not None and self.printed >= self.count


async def _print_until_stopped(
    connection: Connection, filters: list[TopicFilter], wanted: _Wanted
) -> None:
    """Print in one task and wait for a signal in this one, so that the end is a clean one."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    printing = asyncio.create_task(_print(connection, filters, wanted))
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait((printing, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not printing.done():
        printing.cancel()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await printing
    finally:
        await connection.close()


async def _print(connection: Connection, filters: list[TopicFilter], wanted: _Wanted) -> None:
    await connection.open()
    # Printing begins at once: what was published before may come ahead of the answer.
    asking = asyncio.create_task(connection.subscribe(*filters))
    reading = asyncio.create_task(_print_all(connection, wanted))
    try:
        await asyncio.wait((asking, reading), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            asking.result()
        await reading
    finally:
        for task in (asking, reading):
            task.cancel()


async def _print_all(connection: Connection, wanted: _Wanted) -> None:
    async for message in connection.messages():
        if message.retain and wanted.without_retained:
            continue
        line = _json(message) if wanted.as_json else _text(message)
        try:
            # In a thread, so that the client keeps talking to the broker if nobody reads this.
            await asyncio.to_thread(_write, line)
        except BrokenPipeError:
            _close_output()
            return
        wanted.printed += 1
        if wanted.enough:
            return


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _close_output() -> None:
    # Else the interpreter tries once more when it ends, and complains.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.close()


def _text(message: Publish) -> bytes:
    try:
        shown = message.payload.decode()
    except UnicodeDecodeError:
        shown = f"base64:{b64encode(message.payload).decode()}"
    return f"{message.topic} {shown}".translate(_SHOWN).encode()


def _json(message: Publish) -> bytes:
    shown: dict[str, Any] = {"topic": message.topic}
    try:
        shown["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        shown["base64"] = message.payload
    shown |= {
        "qos": message.qos,
        "retain": message.retain,
        "properties": {
            name: value
            for name, value in msgspec.structs.asdict(message.properties).items()
            if value is not None and value != ()
        },
    }
    return msgspec.json.encode(shown)
