"""`nearcast up`: run a broker."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast import _warm_up, store
from nearcast.broker.bridge.bridge import Bridge
from nearcast.broker.config.configuration import load
from nearcast.broker.config.settings import Settings
from nearcast.broker.net.listeners import NO_LISTENER
from nearcast.broker.operations.health import health_checks
from nearcast.broker.operations.log_handler import set_up
from nearcast.broker.operations.metrics import Figures, Metrics, TickDurations
from nearcast.broker.server import Server, open_server
from nearcast.broker.shutdown import BESIDE_PART, Deadline
from nearcast.cli.broker.addresses import Addresses
from nearcast.cli.broker.file_access import limit_access
from nearcast.cli.broker.pipeline_process import PipelineBeside, pipeline_beside
from nearcast.cli.broker.stop_signals import StopSignals
from nearcast.cli.failures import fail
from nearcast.console.pipeline_figures import pipeline_figures, pipeline_health
from nearcast.console.server import HttpServer
from nearcast.store import broker_directory

if TYPE_CHECKING:
    from nearcast.cli.demo.up_demo import Demonstration

NAMES = {"mqtt": "MQTT", "mqtts": "MQTT over TLS", "ws": "WebSocket", "wss": "secure WebSocket"}
COLLECTED_AT = (50_000, 2, 500)
"""When cycles are collected: rarely, as messages come in bursts of thousands and are short-lived,
and mostly among 150,000 new objects at a time, which takes some 50 ms."""
SWITCH_S = 0.000_5
"""How long a thread that writes to the disk may keep the event loop from running: the interpreter's
lock is asked for again after so long, not after its usual 5 ms."""


def up(
    config: Annotated[
        Path | None, typer.Option(help="Settings in TOML; by default nearcast.toml here.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Where state and log are kept [default: nearcast-data].")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on [default: 127.0.0.1].")
    ] = None,
    mqtt_port: Annotated[
        int | None,
        typer.Option(min=-1, max=65_535, help="MQTT on TCP; 0 any, -1 none [default: 1883]."),
    ] = None,
    ws_port: Annotated[
        int | None, typer.Option(min=-1, max=65_535, help="MQTT on WebSocket [default: 8083].")
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(min=-1, max=65_535, help="Metrics, health and API [default: 8080]."),
    ] = None,
    bridge: Annotated[
        str | None,
        typer.Option(help="Link another MQTT broker, both ways, as in mqtt://HOST:1883."),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Let a small living city connect to it, and show it.")
    ] = False,
    no_pipeline: Annotated[
        bool, typer.Option("--no-pipeline", help="Leave the data pipeline on Spark out.")
    ] = False,
    no_view: Annotated[
        bool,
        typer.Option("--no-view", help="With --demo on a terminal: print lines, draw nothing."),
    ] = False,
    discard_damaged: Annotated[
        bool,
        typer.Option(
            "--discard-damaged",
            help="Go on without what is damaged in the state; a copy of it is set aside.",
        ),
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Planned: several processes on this machine; only 1 works yet.")
    ] = 1,
    join: Annotated[
        str | None, typer.Option(help="Planned: another broker to join; not available yet.")
    ] = None,
) -> None:
    """Run an MQTT broker (3.1, 3.1.1 and 5) that keeps what it acknowledged.

    Without users and rules only this machine may connect: see `nearcast user` and
    `nearcast config`. SIGHUP reads users and rules again; Ctrl-C stops.
    """
    if workers != 1:
        raise typer.BadParameter(
            "a broker is one process; more are not available yet", param_hint="--workers"
        )
    if join is not None:
        raise typer.BadParameter(
            "joining brokers is not available yet; --bridge links any MQTT broker",
            param_hint="--join",
        )
    options = {
        "broker.data": data,
        "listen.host": host,
        "listen.mqtt_port": mqtt_port,
        "listen.ws_port": ws_port,
        "listen.http_port": http_port,
        "bridge.url": bridge,
    }
    gc.set_threshold(*COLLECTED_AT)
    sys.setswitchinterval(SWITCH_S)
    if demo:
        # Only here: a broker without the demo does not need it.
        from nearcast.cli.demo.up_demo import prepare

        with prepare(config, options, in_lines=no_view, with_pipeline=not no_pipeline) as prepared:
            run_until_stopped(prepared.settings, prepared.pipeline, prepared)
        return
    settings = load(config, os.environ, options)
    if discard_damaged:
        _discard_damaged(settings)
    beside = None if no_pipeline else pipeline_beside(config, settings)[0]
    run_until_stopped(settings, beside)


def _discard_damaged(settings: Settings) -> None:
    """Rebuild a damaged state, and say what is gone."""
    data, broker = Path(settings.node.data), settings.node.name
    damage = store.discard_damaged(data, broker)
    if damage is None:
        typer.echo("Nothing is damaged, and nothing was discarded.", err=True)
        return
    typer.echo(f"Going on without what is damaged: {damage}.", err=True)
    for item in damage.items:
        typer.echo(f"  discarded: {item}", err=True)
    typer.echo(f"The damaged files are in {broker_directory(data, broker)}/damaged-*.", err=True)


def run_until_stopped(
    settings: Settings, beside: PipelineBeside | None, demo: "Demonstration | None" = None
) -> None:
    """Run the broker until it is stopped by a signal."""
    handler = set_up(settings.logging, None if demo is None else demo.log)
    try:
        limit_access(settings)
        _run(_serve(settings, beside, demo))
    except OSError as error:
        fail(f"Cannot listen on {settings.listen.host}: {error}.")
    finally:
        handler.close()


def _run(work: Coroutine[object, object, None]) -> None:
    """Run on uvloop, which is twice as fast, where it is available."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


async def _serve(
    settings: Settings, pipeline: PipelineBeside | None, demo: "Demonstration | None"
) -> None:
    end_others = (lambda: None) if pipeline is None else pipeline.kill
    signals = StopSignals(settings.shutdown.within_s, end_others)
    ticks = TickDurations()
    server = open_server(settings, ticks.feed)
    bridge = Bridge(server) if settings.bridge.url else None
    await server.start()
    # What was loaded and restored stays, mostly: no collection looks at it again.
    gc.freeze()
    # Beside the first clients, who would wait longer for the first use of each kernel.
    loading = asyncio.create_task(asyncio.to_thread(_warm_up.load), name="load kernels")
    http: HttpServer | None = None
    try:
        sources: dict[str, Callable[[], Figures]] = {
            "hub": server.statistics,
            "store": server.keeper_statistics,
            "priority": server.priority_statistics,
        }
        checks = health_checks(server)
        data = Path(settings.node.data)
        sources["pipeline"] = lambda: _pipeline_statistics(data, pipeline)
        if pipeline is not None:
            checks["pipeline"] = lambda: pipeline_health(data)
        if bridge is not None:
            await bridge.start()
            sources["bridge"] = bridge.statistics
            checks["bridge"] = bridge.health
        if settings.listen.http_port != NO_LISTENER:
            # Only here: a broker without HTTP starts a fifth faster.
            from nearcast.console.http import make_app

            directory = broker_directory(data, settings.node.name)
            metrics = Metrics(sources, ticks)
            app = make_app(metrics, checks, settings, directory / "log", server)
            http = HttpServer(app, settings.listen.http_host, settings.listen.http_port)
            metrics.sources["http"] = http.statistics
            await http.start()
        signals.install()
        _reload_by_signal(server)
        addresses = _addresses(settings, server, http)
        _print_addresses(addresses, bridge, () if demo is None else demo.notices(addresses))
        if pipeline is not None:
            pipeline.start()
        if demo is None:
            await signals.stopped.wait()
        else:
            await demo.show(addresses, server.statistics, signals.stopped)
    finally:
        await _stop(signals.deadline(), server, http, bridge, pipeline)
        await loading
    typer.echo("Stopped.")


async def _stop(
    deadline: Deadline,
    server: Server,
    http: HttpServer | None,
    bridge: Bridge | None,
    pipeline: PipelineBeside | None,
) -> None:
    """Stop all parts; what uses the broker has a part of the time before it stops."""
    users: list[asyncio.Task[None]] = []
    if http is not None:
        users.append(asyncio.create_task(http.stop(deadline.left_s(BESIDE_PART))))
    if bridge is not None:
        users.append(asyncio.create_task(bridge.stop()))
    if pipeline is not None:
        users.append(asyncio.create_task(pipeline.stop(deadline)))
    if users:
        await asyncio.wait(users, timeout=deadline.left_s(BESIDE_PART))
    await server.stop(deadline)
    await asyncio.gather(*users)


def _addresses(settings: Settings, server: Server, http: HttpServer | None) -> Addresses:
    host = settings.listen.host
    found = {NAMES[name]: f"{host}:{port}" for name, port in server.ports.items()}
    api = None if http is None else f"http://{settings.listen.http_host}:{http.port}/api/docs"
    return Addresses(host, server.ports.get("mqtt"), found, api)


def _print_addresses(addresses: Addresses, bridge: Bridge | None, more: Sequence[str]) -> None:
    for name, address in addresses.listeners.items():
        typer.echo(f"Listening for {name} on {address}.")
    if addresses.api is not None:
        typer.echo(f"Metrics and API on {addresses.api}.")
    if bridge is not None:
        typer.echo(f"Bridging {bridge.address} as {bridge.node}.")
    for each in more:
        typer.echo(each)
    typer.echo("Ctrl-C stops.")
    sys.stdout.flush()


def _reload_by_signal(server: Server) -> None:
    """Read users and rules again on SIGHUP."""
    with contextlib.suppress(NotImplementedError, AttributeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.reload_admission)


def _pipeline_statistics(data: Path, beside: PipelineBeside | None) -> dict[str, float]:
    found = pipeline_figures(data)
    return found if beside is None else found | {"restarts_total": beside.restarts}
