"""Warnings of a broker, printed to stderr while a command is connected."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import typer

from nearcast.client.api.commands import ERRORS, problem_of
from nearcast.client.link.connection import ClientConnection
from nearcast.client.receive.received import received

# Control characters could overwrite text on a terminal.
SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def show(why: str) -> None:
    """Print a warning."""
    typer.echo(why.translate(SHOWN), err=True)


@contextlib.asynccontextmanager
async def shown(connection: ClientConnection) -> AsyncIterator[None]:
    """Print all warnings about messages sent in this context; other messages are discarded."""
    await connection.subscribe(ERRORS)
    reading = asyncio.create_task(_show_all(connection))
    try:
        yield
        # Warnings in flight come before the answers.
        for _ in range(2):
            await connection.subscribe(ERRORS)
    finally:
        reading.cancel()


async def _show_all(connection: ClientConnection) -> None:
    async for message in connection.messages():
        problem = problem_of(received(message, connection.version))
        if problem.warning:
            show(problem.warning)
