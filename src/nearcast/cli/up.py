"""`nearcast up`: run a broker."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from nearcast.broker.bridge import Bridge
from nearcast.broker.configuration import load
from nearcast.broker.doors import DoorsError
from nearcast.broker.metrics import Figures, Health, Metrics, TickDurations
from nearcast.broker.server import NO_LISTENER, Server, open_server
from nearcast.broker.settings import Settings
from nearcast.broker.speaking import set_up
from nearcast.cli.beside import PipelineBeside, obstacle
from nearcast.cli.demo_settings import choose_demo
from nearcast.cli.residents import Residents
from nearcast.console.pipeline_figures import pipeline_figures, pipeline_health
from nearcast.console.server import HttpServer
from nearcast.store import StoreError, broker_directory

NAMES = {"mqtt": "MQTT", "mqtts": "MQTT over TLS", "ws": "WebSocket", "wss": "secure WebSocket"}


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
        bool, typer.Option("--demo", help="Let a small living city connect to it.")
    ] = False,
    no_pipeline: Annotated[
        bool, typer.Option("--no-pipeline", help="Leave the data pipeline on Spark out.")
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
    settings = load(config, os.environ, options)
    beside = None if no_pipeline else _beside(config, settings)
    if demo and beside is not None:
        choose_demo(config, os.environ, options)
        settings = load(config, os.environ, options)
    # Messages come in bursts of thousands and are gone in a moment: look for cycles seldom.
    gc.set_threshold(50_000, 20, 50)
    handler = set_up(settings.logging)
    try:
        _run(_serve(settings, demo, beside))
    except (StoreError, DoorsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"Cannot listen on {settings.listen.host}: {error}.", err=True)
        raise typer.Exit(1) from None
    finally:
        handler.close()


def _run(work: Coroutine[object, object, None]) -> None:
    """Run on uvloop, which is twice as fast, where there is one."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)


def _beside(config: Path | None, settings: Settings) -> PipelineBeside | None:
    """Return the pipeline that is to run beside the broker; None, and why, where it cannot."""
    why = obstacle()
    if why is not None:
        typer.echo(f"Without the data pipeline: {why}.", err=True)
        return None
    told = ["--data", settings.node.data]
    return PipelineBeside(told if config is None else [*told, "--config", str(config)])


async def _serve(settings: Settings, demo: bool, pipeline: PipelineBeside | None) -> None:
    ticks = TickDurations()
    server = open_server(settings, ticks.feed)
    bridge = Bridge(server) if settings.bridge.url else None
    await server.start()
    http: HttpServer | None = None
    try:
        sources: dict[str, Callable[[], Figures]] = {
            "hub": server.statistics,
            "store": server.keeper_statistics,
        }
        checks = {"store": lambda: _health(server)}
        data = Path(settings.node.data)
        sources["pipeline"] = lambda: _pipeline_statistics(data, pipeline)
        if pipeline is not None:
            checks["pipeline"] = lambda: pipeline_health(data)
        if bridge is not None:
            await bridge.start()
            sources["bridge"] = bridge.statistics
            checks["bridge"] = bridge.health
        if settings.listen.http_port != NO_LISTENER:
            # Only here: a broker without HTTP begins a fifth sooner.
            from nearcast.console.http import make_app

            directory = broker_directory(data, settings.node.name)
            app = make_app(Metrics(sources, ticks), checks, settings, directory / "log", server)
            http = HttpServer(app, settings.listen.http_host, settings.listen.http_port)
            await http.start()
        stopped = _stopped_by_signals(server)
        _tell(settings, server, http, bridge)
        async with AsyncExitStack() as stack:
            if pipeline is not None:
                await stack.enter_async_context(pipeline)
            if demo:
                url = f"mqtt://{settings.listen.host}:{server.port}"
                await stack.enter_async_context(Residents(url))
            await stopped.wait()
    finally:
        if http is not None:
            await http.stop()
        if bridge is not None:
            await bridge.stop()
        await server.stop()
    typer.echo("Stopped.")


def _tell(
    settings: Settings, server: Server, http: HttpServer | None, bridge: Bridge | None
) -> None:
    host = settings.listen.host
    for name, port in server.ports.items():
        typer.echo(f"Listening for {NAMES[name]} on {host}:{port}.")
    if http is not None:
        typer.echo(f"Metrics and API on http://{settings.listen.http_host}:{http.port}/api/docs.")
    if bridge is not None:
        typer.echo(f"Bridging {bridge.address} as {bridge.node}.")
    typer.echo("Ctrl-C stops.")
    sys.stdout.flush()


def _stopped_by_signals(server: Server) -> asyncio.Event:
    """Return what is set once the broker is told to stop."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, AttributeError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        loop.add_signal_handler(signal.SIGHUP, server.reload_doors)
    return stopped


def _pipeline_statistics(data: Path, beside: PipelineBeside | None) -> dict[str, float]:
    found = pipeline_figures(data)
    return found if beside is None else found | {"restarts_total": beside.restarts}


def _health(server: Server) -> Health:
    if server.failing is not None:
        return Health("failing", server.failing)
    return Health("ok", "")
