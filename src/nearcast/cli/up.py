"""`nearcast up`: run a broker."""

import asyncio
import contextlib
import signal
from typing import Annotated

import typer

from nearcast.broker.server import Server


def up(
    mqtt_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="TCP port for MQTT; 0 takes a free one.")
    ] = 1883,
    host: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
) -> None:
    """Run an MQTT broker (3.1, 3.1.1 and 5) on this machine, with its sessions in memory.

    What was acknowledged does not yet survive a restart, and there are no passwords: it listens
    on loopback addresses only. Ctrl-C stops it.
    """
    try:
        asyncio.run(_serve(host, mqtt_port))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--host") from None
    except OSError as error:
        typer.echo(f"Port {mqtt_port} on {host} cannot be used: {error.strerror}.", err=True)
        raise typer.Exit(1) from None


async def _serve(host: str, port: int) -> None:
    server = Server()
    await server.start(host, port)
    typer.echo(f"Listening for MQTT on {host}:{server.port}. Ctrl-C stops.")
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    await server.stop()
    typer.echo("Stopped.")
