"""`nearcast sub`: print messages as they come."""

import asyncio
import contextlib
import signal
import sys
from base64 import b64encode
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
import typer

from nearcast.cli.client import server_options as server
from nearcast.cli.client.broker_warnings import SHOWN, show
from nearcast.cli.client.option_checks import check_subscription, position_of
from nearcast.client.api.commands import ERRORS, problem_of
from nearcast.client.errors import RejectedError
from nearcast.client.link.connection import ClientConnection
from nearcast.client.receive.received import received
from nearcast.core.model.geometry.position import Position, plain
from nearcast.wire.mqtt import MQTT_5, Properties, Publish, ReasonCode, TopicFilter

ADVICE = "publish $me/position"
"""The broker's advice for clients without a position."""
STOPPED = 130
"""The exit code if fewer messages came than requested."""
_Subscribe = Callable[[], Coroutine[None, None, object]]


@server.with_broker
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
    where: Annotated[
        str | None, typer.Option(metavar="CQL2", help="Only what fits, such as 'speed < 20'.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="AREA",
            help="Only what happens there: circle:LAT,LON,METRES, circle:me,500, place:x.",
        ),
    ] = None,
    relevance: Annotated[
        str | None,
        typer.Option(
            metavar="VECTOR",
            help="How much each atom of --where matters: '1,0.5,0', levels:3,2,0, or role.",
        ),
    ] = None,
    aggregate: Annotated[
        str | None,
        typer.Option(
            metavar="NEED",
            help="Let events wait and come together: 'volume 20', 'time 300 or people 10 wait 60'.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="LAT,LON", help="Say first where you are.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="A name for the subscription, as which the session keeps it."),
    ] = None,
    envelope: Annotated[
        bool,
        typer.Option("--envelope", help="With --name: JSON with what is known round the message."),
    ] = False,
    meta: Annotated[
        bool, typer.Option("--meta", help="Ask for nc- properties; --json shows them.")
    ] = False,
    broker: server.BrokerOptions,
    mqtt: server.MqttOption = MQTT_5,
) -> None:
    """Print what is published, as `TOPIC MESSAGE`, until Ctrl-C."""
    if session_expiry and broker.client_id is None:
        raise typer.BadParameter("a session that is kept needs an --id", param_hint="--id")
    here = None if at is None else position_of(at, "--at")
    situation = _Situation(where, from_, relevance, aggregate, here, name, envelope, meta)
    situation.check(topics, mqtt)
    options = broker.client_options(
        "sub",
        version=mqtt,
        clean_start=not session_expiry,
        session_expiry_s=session_expiry if mqtt == MQTT_5 else 0,
    )
    connection = broker.connection(options)
    connection.warn = _warn
    handling = 2 if no_retained and mqtt == MQTT_5 else 0
    filters = [TopicFilter(topic, qos, retain_handling=handling) for topic in topics]
    fails_on_errors = name is not None and mqtt != MQTT_5
    wanted = _Wanted(
        as_json, count, no_retained and mqtt != MQTT_5, fails_on_errors, ERRORS in topics
    )
    subscribe = situation.subscribing(connection, filters)
    asyncio.run(_print_until_stopped(connection, subscribe, wanted))
    if count is not None and wanted.printed < count:
        raise typer.Exit(STOPPED)


class _Wanted(msgspec.Struct):
    """Which messages are printed, and how many were."""

    as_json: bool
    count: int | None
    without_retained: bool
    fails_on_errors: bool
    """Whether a refusal comes as a message, since MQTT 3 has no other way."""
    prints_errors: bool
    """Whether the error topic was subscribed to like any other."""
    printed: int = 0

    @property
    def enough(self) -> bool:
        return self.count is not None and self.printed >= self.count


class _Situation(msgspec.Struct, frozen=True):
    """Options of a subscription besides topics."""

    where: str | None
    from_: str | None
    relevance: str | None
    aggregate: str | None
    at: Position | None
    name: str | None
    envelope: bool
    meta: bool

    def check(self, topics: list[str], version: int) -> None:
        """Refuse invalid combinations of options."""
        if self.name is not None and len(topics) != 1:
            raise typer.BadParameter("a name is for one topic filter", param_hint="--name")
        if self.envelope and self.name is None:
            raise typer.BadParameter("an envelope needs a --name", param_hint="--envelope")
        has_options = bool(self._options()) or self.meta
        if has_options and self.name is None and version != MQTT_5:
            raise typer.BadParameter(
                "--where, --from, --relevance, --aggregate and --meta need --mqtt 5 or a --name",
                param_hint="--mqtt",
            )
        check_subscription([(f"nc-{name}", value) for name, value in self._options().items()])

    def _options(self) -> dict[str, str]:
        pairs = (
            ("where", self.where), ("from", self.from_), ("relevance", self.relevance),
            ("aggregate", self.aggregate),
        )  # fmt: skip
        return {name: value for name, value in pairs if value is not None}

    def subscribing(self, connection: ClientConnection, filters: list[TopicFilter]) -> _Subscribe:
        """Return the function that subscribes."""
        options = self._options()
        wanted = filters[0]
        members = {"subject": wanted.filter, "qos": wanted.qos, **options}
        if self.envelope:
            members["envelope"] = True
        pairs = [(f"nc-{name}", value) for name, value in options.items()]
        if self.meta:
            pairs.append(("nc-meta", "1"))
        properties = Properties(user_properties=tuple(pairs))

        async def subscribe() -> None:
            if self.at is not None:
                here = f"{plain(self.at.lat)},{plain(self.at.lon)}"
                await connection.publish("$me/position", here.encode(), qos=1)
            if options or (self.name is not None and connection.version != MQTT_5):
                # Later warnings that the subscription cannot match come there.
                await connection.subscribe(ERRORS)
            if self.name is None:
                await connection.subscribe(*filters, properties=properties)
            else:
                topic = f"$me/subscriptions/{self.name}"
                await connection.publish(topic, msgspec.json.encode(members), qos=1)

        return subscribe


async def _print_until_stopped(
    connection: ClientConnection, subscribe: _Subscribe, wanted: _Wanted
) -> None:
    """Print in one task and wait for a signal in this one, so that it closes cleanly."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    printing = asyncio.create_task(_print(connection, subscribe, wanted))
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


async def _print(connection: ClientConnection, subscribe: _Subscribe, wanted: _Wanted) -> None:
    await connection.open()
    # Printing starts at once: retained messages may come before the answer.
    subscribing = asyncio.ensure_future(subscribe())
    reading = asyncio.create_task(_print_all(connection, wanted))
    try:
        await asyncio.wait((subscribing, reading), return_when=asyncio.FIRST_COMPLETED)
        if subscribing.done():
            subscribing.result()
        await reading
    finally:
        for task in (subscribing, reading):
            task.cancel()


async def _print_all(connection: ClientConnection, wanted: _Wanted) -> None:
    async for message in connection.messages():
        if message.topic == ERRORS:
            problem = problem_of(received(message, connection.version))
            if problem.warning:
                _warn(problem.topic, problem.warning)
            elif wanted.fails_on_errors:
                raise RejectedError(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, problem.error)
            if not wanted.prints_errors:
                continue
        if message.retain and wanted.without_retained:
            continue
        line = _json(message) if wanted.as_json else _text(message)
        try:
            # In a thread, so that the client stays connected if the output is not read.
            await asyncio.to_thread(_write, line)
        except BrokenPipeError:
            _close_output()
            return
        wanted.printed += 1
        if wanted.enough:
            return


def _warn(topic: str, why: str) -> None:
    """Print why the subscription matches nothing."""
    show(why.replace(ADVICE, f"give --at or {ADVICE}"))


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def _close_output() -> None:
    # Otherwise the interpreter flushes again on exit, and reports an error.
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.close()


def _text(message: Publish) -> bytes:
    try:
        shown = message.payload.decode()
    except UnicodeDecodeError:
        shown = f"base64:{b64encode(message.payload).decode()}"
    return f"{message.topic} {shown}".translate(SHOWN).encode()


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
