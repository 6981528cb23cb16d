"""The control socket: requests of an operator to a running broker on the same machine.

A Unix socket in the broker's directory, for its owner only; one JSON object is the request, one the
answer.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct

from nearcast.errors import NearcastError

NAME = "control.sock"
LONGEST = 64 * 1024
Ask = Callable[[Mapping[str, object]], Awaitable[object]]


class ControlError(NearcastError):
    """The error that a broker answered."""


class Control(Struct):
    """Listens on the socket and passes requests to their handlers."""

    path: Path
    answers: dict[str, Ask]
    _server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Start listening."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(self.path))
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, object]:
        try:
            request = json.loads(line)
            answer = self.answers[request.pop("do")]
        except (ValueError, KeyError, AttributeError, TypeError):
            return {"error": f"one of {', '.join(self.answers)} is needed"}
        try:
            return {"answer": await answer(request)}
        except Exception as error:
            return {"error": str(error) or repr(error)}


def ask(directory: Path, what: str, timeout_s: float = 600.0, **about: object) -> object:
    """Send a request to a running broker; `ConnectionError` if none uses this directory."""
    path = directory / NAME
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(timeout_s)
            client.connect(str(path))
            client.sendall(json.dumps({"do": what, **about}).encode() + b"\n")
            received = b"".join(iter(lambda: client.recv(LONGEST), b""))
    except OSError as error:
        raise ConnectionError(f"no broker answers on {path}") from error
    found = json.loads(received)
    if "error" in found:
        raise ControlError(found["error"])
    return found["answer"]
