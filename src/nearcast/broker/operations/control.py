"""The control socket: requests of an operator to a running broker on the same machine.

A Unix socket in the broker's directory, for its owner only; one line with a JSON object is the
request, one the answer. Requests are bounded in length, in number at once, and in the time that a
client may take to say one.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from nearcast.errors import NearcastError

NAME = "control.sock"
LONGEST = 64 * 1024
ASKED_WITHIN_S = 10.0
"""A client that has not sent its request by then is disconnected."""
MOST_AT_ONCE = 32
"""Connections at the same time; one more is refused."""
Ask = Callable[[Mapping[str, object]], Awaitable[object]]


class ControlError(NearcastError):
    """The error that a broker answered."""


class Control(Struct):
    """Listens on the socket and passes requests to their handlers."""

    path: Path
    answers: dict[str, Ask]
    _server: asyncio.AbstractServer | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        """Start listening."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, str(self.path), limit=LONGEST
            )
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            for writer in self._open:
                writer.close()
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            answer = await self._answer(await self._request(reader))
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except OSError:
            pass  # it is gone, or asked for nothing in time
        finally:
            self._open.discard(writer)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> dict[str, object] | str:
        """Return the request, or why it is none."""
        if len(self._open) > MOST_AT_ONCE:
            return f"{MOST_AT_ONCE} requests are under way; try again later"
        try:
            async with asyncio.timeout(ASKED_WITHIN_S):
                line = await reader.readline()
            request: dict[str, object] = json.loads(line)
        except (ValueError, RecursionError):
            # Also for a line that is too long.
            return f"a request is a JSON object in a line of at most {LONGEST} bytes"
        what = request.get("do") if isinstance(request, dict) else None
        if not isinstance(what, str) or what not in self.answers:
            return f"one of {', '.join(self.answers)} is needed"
        return request

    async def _answer(self, request: dict[str, object] | str) -> dict[str, object]:
        if isinstance(request, str):
            return {"error": request}
        try:
            return {"answer": await self.answers[str(request.pop("do"))](request)}
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
    if not received:
        raise ConnectionError(f"the broker on {path} ended before it answered")
    found = json.loads(received)
    if "error" in found:
        raise ControlError(found["error"])
    return found["answer"]
