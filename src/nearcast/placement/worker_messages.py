"""What a worker process and its parent tell each other: msgpack after its length.

The parent sends a batch of calls of one script; the worker answers call by call. Events, arguments
and states are JSON that passes unread through the parent.
"""

import msgspec
from msgspec import Struct

from nearcast.placement.limits import CALL_OUTPUT_BYTES, STATE_BYTES

LENGTH_BYTES = 4
LARGEST_ANSWER = CALL_OUTPUT_BYTES + STATE_BYTES + (64 << 10)
"""The parent takes no longer message: a worker may have been subverted."""


class ScriptCall(Struct, frozen=True, array_like=True):
    """A call of a function with one argument, as JSON, and the state."""

    function: str
    argument: bytes


class CallBatch(Struct, frozen=True, array_like=True, tag=True):
    """Calls of one script, in order; without any the script is only checked."""

    script: str
    """A name of this version of the script."""
    source: str
    """Empty if the worker has had it."""
    state: bytes
    calls: tuple[ScriptCall, ...]
    together: bool = False
    """Results may be sent together."""


class ContextAnswer(Struct, frozen=True, array_like=True, tag=True):
    """The context of a node as JSON; empty if there is none to be seen."""

    context: bytes


class PublishedOutput(Struct, frozen=True, array_like=True):
    """An event that a call publishes, if all of the call succeeds."""

    subject: str
    payload: bytes
    options: bytes
    """Options of the event as a JSON object."""
    qos: int = 1
    retain: bool = False


class SourceChecked(Struct, frozen=True, array_like=True, tag=True):
    """The functions that a script defines, or why it cannot be used."""

    functions: tuple[str, ...] = ()
    problem: str = ""


class CallDone(Struct, frozen=True, array_like=True, tag=True):
    """What came of one call; with a problem it has no effect."""

    state: bytes | None = None
    """The state after it, if it is another than before."""
    outputs: tuple[PublishedOutput, ...] = ()
    problem: str = ""


class ContextQuestion(Struct, frozen=True, array_like=True, tag=True):
    """A running call needs the context of a node."""

    node: str


class BatchDone(Struct, frozen=True, array_like=True, tag=True):
    """All calls of a batch are done."""

    worn: bool = False
    """The process has grown, and is to be replaced."""


ToWorker = CallBatch | ContextAnswer
FromWorker = SourceChecked | CallDone | ContextQuestion | BatchDone


def framed(message: Struct) -> bytes:
    """Return a message as it is sent."""
    data = msgspec.msgpack.encode(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data
