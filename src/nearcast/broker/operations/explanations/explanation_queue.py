"""Explanations for those who ask a running broker: one at a time, in another process.

Playing a log again takes seconds of a core and much memory: neither is the broker's. The process is
started when somebody asks, and ends when nobody does, or after some requests, so that its memory is
given back. Who stops to wait cancels the work.
"""

import asyncio
import contextlib
import sys
from pathlib import Path

import msgspec

from nearcast.broker.operations.explanations.explanation_worker import (
    LENGTH_BYTES,
    ExplainAnswer,
    ExplainRequest,
    framed,
)
from nearcast.errors import NearcastError

MOST_WAITING = 16
"""The most requests at once, with the one that is being answered."""
WITHIN_S = 120.0
"""How long an explanation may take."""
REQUESTS = 50
"""After so many the process is replaced by a new one."""
IDLE_S = 5.0
"""A process that nobody asks for so long ends."""


class ExplanationBusyError(NearcastError):
    """Too many wait for an explanation already."""


class ExplanationFailedError(NearcastError):
    """An explanation took too much time or memory."""


class ExplanationQueue:
    """Explains the decisions of one log; to be used from one event loop."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._process: asyncio.subprocess.Process | None = None
        self._answered = 0
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many requests are not answered yet."""
        return self._waiting

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none."""
        return None if self._process is None else self._process.pid

    async def explain(
        self, event: str, node: str, publisher: str | None = None, asker: str | None = None
    ) -> ExplainAnswer:
        """Explain why a node did or did not get an event, to an asker (None: the operator).

        Raises `ExplanationBusyError` or `ExplanationFailedError`; cancelling it ends the work.
        """
        if self._waiting >= MOST_WAITING:
            raise ExplanationBusyError("many explanations are being made; try again later")
        request = ExplainRequest(str(self._log), event, node, publisher, asker)
        self._waiting += 1
        try:
            async with self._turn:
                return await self._ask(request)
        finally:
            self._waiting -= 1

    async def stop(self) -> None:
        """End the process."""
        self._kill()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _ask(self, request: ExplainRequest) -> ExplainAnswer:
        if self._idle is not None:
            self._idle.cancel()
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "nearcast.broker.operations.explanations.explanation_worker",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            self._answered = 0
        try:
            async with asyncio.timeout(WITHIN_S):
                answer = await _exchange(process, request)
        except TimeoutError:
            self._kill()
            raise ExplanationFailedError(
                f"it took longer than {WITHIN_S:.0f} s; ask nearcast explain, which has no limit"
            ) from None
        except (OSError, asyncio.IncompleteReadError):
            self._kill()
            raise ExplanationFailedError(
                "it took too much memory; ask nearcast explain, which has no limit"
            ) from None
        except asyncio.CancelledError:
            self._kill()
            raise
        self._answered += 1
        if self._answered >= REQUESTS:
            self._kill()
        else:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._kill)
        return answer

    def _kill(self) -> None:
        """End the process; it has nothing to lose."""
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        task = asyncio.create_task(_reap(process))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _exchange(process: asyncio.subprocess.Process, request: ExplainRequest) -> ExplainAnswer:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(framed(request))
    await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES), "big")
    data = await process.stdout.readexactly(length)
    return msgspec.msgpack.decode(data, type=ExplainAnswer)


async def _reap(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process, and close its pipes."""
    await process.wait()
    assert process.stdin is not None
    process.stdin.close()
