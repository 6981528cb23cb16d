"""A process that is given lines of JSON or words, and answers in lines of JSON."""

import contextlib
import subprocess
import sys
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

import msgspec

from nearcast.benchmarks.errors import BenchmarkError

END_WITHIN_S = 10.0
Answer = TypeVar("Answer")


class ChildProcess(Generic[Answer]):
    """A module of ours in a process of its own; it ends at the end of its input."""

    def __init__(self, module: str, order: object, answers: object) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        # A union is no type to mypy.
        self._answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(cast(Any, answers))
        self.send(msgspec.json.encode(order).decode())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, line: str) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchmarkError(f"{self._module} has ended") from None

    def answer(self) -> Answer:
        """Its next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"{self._module} ended without an answer")
        return self._answers.decode(line)

    def finish(self) -> Answer:
        """Close its input and return its last answer."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.answer()

    def kill(self) -> None:
        """End it at once (SIGKILL); a thread that waits for its answer gets a BenchmarkError."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close its input, wait until it has ended, and kill it if it does not end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.kill()
        self.close()
