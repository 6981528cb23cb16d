"""A process that explains decisions: it plays the log of a broker again, beside the broker.

It reads requests from its standard input and writes answers to its standard output, each as msgpack
after its length. It gives way to the broker, has a limit of memory, and ends with its parent.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from nearcast.broker.operations.explanations.explanation import (
    AmbiguousEventError,
    as_value,
    explain,
)
from nearcast.store import StoreError, UpgradeError

NICE = 10
MEMORY_BYTES = 2 << 30
"""The most memory for data; beyond it the process ends without an answer."""
LENGTH_BYTES = 4
_PR_SET_PDEATHSIG = 1


class ExplainRequest(Struct, frozen=True):
    """Whose decision on which event is to be explained, and the log to play."""

    log: str
    event: str
    node: str
    publisher: str | None = None
    asker: str | None = None
    """The node that asks, which hears nothing of others' events with a smallest people."""


class ExplainAnswer(Struct, frozen=True):
    """An explanation as plain values, or why there is none."""

    status: Literal["found", "unknown", "ambiguous", "too new"]
    value: dict[str, object] = {}
    publishers: tuple[str, ...] = ()
    """Those that have an event with this id."""
    problem: str = ""


def answer(request: ExplainRequest) -> ExplainAnswer:
    """Explain a decision."""
    try:
        found = explain(
            Path(request.log),
            request.event,
            request.node,
            publisher=request.publisher,
            asker=request.asker,
        )
    except AmbiguousEventError as error:
        return ExplainAnswer("ambiguous", publishers=error.publishers, problem=str(error))
    except UpgradeError as error:
        return ExplainAnswer("too new", problem=str(error))
    except StoreError as error:
        return ExplainAnswer("unknown", problem=str(error))
    return ExplainAnswer("found", as_value(found))


def framed(message: Struct) -> bytes:
    """Return a message as it is sent: msgpack after its length."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def main() -> None:
    """Answer requests until there are no more."""
    _give_way()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while (data := _read(requests)) is not None:
        answers.write(framed(answer(msgspec.msgpack.decode(data, type=ExplainRequest))))
        answers.flush()


def _read(stream: BinaryIO) -> bytes | None:
    length = stream.read(LENGTH_BYTES)
    return stream.read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else None


def _give_way() -> None:
    """Run with less priority and limited memory, and end with the parent."""
    os.nice(NICE)
    # Its end is decided by the broker, also when Ctrl-C reaches all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
