"""A process that runs the scripts of one tenant: batches of calls in, what they did out.

It reads from its standard input and writes to its standard output. Its memory is limited, it opens
no files, and it ends with its parent. What breaks the interpreter ends the process, and nothing
else.
"""

import ctypes
import os
import signal
import time
from contextlib import suppress
from typing import BinaryIO

import msgspec

from nearcast.placement.errors import ScriptError
from nearcast.placement.limits import CALL_MEMORY_BYTES
from nearcast.placement.sandbox import Program, Sandbox
from nearcast.placement.worker_messages import (
    LENGTH_BYTES,
    BatchDone,
    CallBatch,
    ContextAnswer,
    ContextQuestion,
    FromWorker,
    SourceChecked,
    ToWorker,
    framed,
)

WORN_BYTES = CALL_MEMORY_BYTES // 4
"""A process that has grown so much between batches is replaced."""
FLUSH_S = 0.05
FLUSH_BYTES = 64 << 10
_PR_SET_PDEATHSIG = 1


class Worker:
    """Answers the batches of a parent."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._sandbox = Sandbox(self._ask_context)
        self._programs: dict[str, Program | ScriptError] = {}
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._sent_at = 0.0
        self._own_bytes = memory_bytes()

    def work(self) -> None:
        """Say that it is ready, and work until there are no more batches."""
        self._tell(BatchDone())
        self._flush()
        while (message := self._read()) is not None:
            assert isinstance(message, CallBatch)
            self._sent_at = time.monotonic()
            self._run(message)
            has_grown = memory_bytes() - self._own_bytes > WORN_BYTES
            self._tell(BatchDone(has_grown or self._sandbox.is_broken))
            self._flush()

    def _run(self, batch: CallBatch) -> None:
        program = self._program(batch)
        if isinstance(program, ScriptError):
            self._tell(SourceChecked(problem=str(program)))
            return
        if not batch.calls:
            self._tell(SourceChecked(program.functions))
        state = batch.state
        for call in batch.calls:
            done = self._sandbox.call(program, call, state)
            if done.state is not None:
                state = done.state
            self._tell(done)
            if not batch.together:
                self._flush()
            if self._sandbox.is_broken:
                # The rest is for another process.
                return

    def _program(self, batch: CallBatch) -> Program | ScriptError:
        if batch.source:
            try:
                self._programs[batch.script] = self._sandbox.load(batch.source)
            except ScriptError as error:
                self._programs[batch.script] = error
        return self._programs[batch.script]

    def _ask_context(self, node: str) -> bytes:
        self._tell(ContextQuestion(node))
        self._flush()
        answer = self._read()
        assert isinstance(answer, ContextAnswer)
        return answer.context

    def _tell(self, message: FromWorker) -> None:
        data = framed(message)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > FLUSH_BYTES or time.monotonic() - self._sent_at > FLUSH_S:
            self._flush()

    def _flush(self) -> None:
        self._answers.write(b"".join(self._unsent))
        self._answers.flush()
        self._unsent.clear()
        self._unsent_bytes = 0
        self._sent_at = time.monotonic()

    def _read(self) -> ToWorker | None:
        length = self._requests.read(LENGTH_BYTES)
        if len(length) < LENGTH_BYTES:
            return None
        data = self._requests.read(int.from_bytes(length, "big"))
        message: ToWorker = msgspec.msgpack.decode(data, type=ToWorker)
        return message


def memory_bytes() -> int:
    """Return the address space of this process, which is what its limit counts."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def confine() -> None:
    """Limit what this process may use, and let it end with its parent."""
    # Its end is decided by the broker, also when Ctrl-C reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError):
        import resource

        own = 0
        with suppress(OSError):
            own = memory_bytes()
        for limit, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_AS if own else resource.RLIMIT_DATA, own + CALL_MEMORY_BYTES),
        ):
            with suppress(ValueError, OSError):
                resource.setrlimit(limit, (most, most))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
