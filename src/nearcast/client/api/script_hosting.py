"""Running the scripts of the own node in this program, in the sandbox that a broker uses."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from types import TracebackType
from typing import Self

import msgspec

from nearcast.client.api.subscription_request import SubscriptionRequest
from nearcast.client.errors import ClientError, OptionsError, RejectedError
from nearcast.client.receive.received import Received
from nearcast.client.receive.streams import Stream, StreamContext
from nearcast.core.model.subject import check_subject, subject_matches
from nearcast.placement.hosting_messages import CallOrders, HostedSource, HostOrders, HostReport
from nearcast.placement.worker_messages import CallDone, ScriptCall, SourceChecked
from nearcast.placement.worker_pool import BatchListener, ScriptBatch, WorkerPool
from nearcast.wire.mqtt import ReasonCode

CALLS = "$me/calls"
RESULTS = f"{CALLS}/results"
MESSAGE_BYTES = 256 << 10
TELL_STATE_S = 1.0
"""A state that changed without an event is told so much later at most."""
_TENANT = "own"


class _Script:
    """A script that runs here, with its state."""

    def __init__(self, hosted: HostedSource, state: bytes) -> None:
        self.hosted = hosted
        self.state = state
        self.is_untold = False


class _Results(BatchListener):
    """The results of a batch."""

    def __init__(self) -> None:
        self.results: list[CallDone] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def checked(self, result: SourceChecked) -> None:
        """The script cannot be loaded: its first call fails."""
        self.results.append(CallDone(problem=result.problem))

    def called(self, result: CallDone) -> None:
        """Take the result of the next call."""
        self.results.append(result)

    def context(self, node: str) -> bytes:
        """Return nothing: scripts that read contexts run at the broker."""
        return b""

    def finished(self, broken: bool) -> None:
        """Let whoever waits go on."""
        if not self.done.done():
            self.done.set_result(None)


class ScriptHosting:
    """The scripts of the own node, run here; `async with` begins and ends it.

    What this node alone has placed at itself runs here, except scripts that read contexts. The
    broker keeps what they subscribe to and their states, and runs them whenever this program does
    not.
    """

    def __init__(self, context: StreamContext) -> None:
        self._context = context
        self._pool = WorkerPool(1)
        self._scripts: dict[str, _Script] = {}
        self._run = 0
        self._why = ""
        self._begun = asyncio.Event()
        self._in_order = asyncio.Lock()
        """Calls are made, and their results told, one after the other."""
        request = SubscriptionRequest(pattern=CALLS, qos=1)
        self._stream = Stream(context, request, _orders)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        if find_spec("starlark") is None:
            raise OptionsError("running scripts needs the package starlark-pyo3")
        await self._stream.open()
        self._tasks = [
            asyncio.create_task(self._obey()),
            asyncio.create_task(self._tell_states()),
        ]
        await self._begun.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(ClientError):
            await self._tell_untold()
            await self._send(HostReport(self._run, end=True))
        await self._pool.stop()
        await self._stream.close()

    @property
    def ids(self) -> tuple[str, ...]:
        """The scripts that run here now."""
        return tuple(sorted(self._scripts))

    def state(self, id_: str) -> dict[str, object]:
        """Return the state of a script."""
        return msgspec.json.decode(self._scripts[id_].state, type=dict[str, object])

    async def feed(self, subject: str, payload: Mapping[str, object] | str) -> int:
        """Let the scripts hear an event that does not leave this node; return how many did.

        Those hear it that subscribe to its subject without any condition. A mapping is its
        attributes. What they publish has reached the broker on return. Raises `RejectedError` if
        the broker refuses it, or runs the scripts itself, since the connection was lost.
        """
        check_subject(subject)
        if not self._run:
            raise RejectedError(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, self._why)
        argument = _argument(self._context.exchange.client_id, subject, payload)
        heard = 0
        async with self._in_order:
            run = self._run
            for script in list(self._scripts.values()):
                hosted = script.hosted
                if hosted.stopped or not any(subject_matches(t, subject) for t in hosted.topics):
                    continue
                heard += 1
                (result,) = await self._call(script, (ScriptCall("on_event", argument),))
                script.is_untold |= result.state is not None
                if result.outputs or result.problem:
                    told = CallDone(script.state, result.outputs, result.problem)
                    await self._tell(run, script, told)
        return heard

    # Calls

    async def _call(self, script: _Script, calls: tuple[ScriptCall, ...]) -> list[CallDone]:
        """Make calls in order; the state is that after the last one that did not fail."""
        hosted, results = script.hosted, list[CallDone]()
        while len(results) < len(calls):
            found = _Results()
            left = calls[len(results) :]
            self._pool.submit(
                ScriptBatch(_TENANT, hosted.version, hosted.source, script.state, left, found)
            )
            await found.done
            for result in found.results:
                if result.state is not None:
                    script.state = result.state
            results += found.results
        return results

    async def _make_ordered(self, orders: CallOrders) -> None:
        async with self._in_order:
            script = self._scripts.get(orders.id)
            if script is None or script.hosted.version != orders.version:
                await self._send(HostReport(self._run, orders.number))
                return
            run, results = self._run, await self._call(script, orders.calls)
            while results:
                some, size = list[CallDone](), 0
                while results and (not some or size + _size(results[0]) <= MESSAGE_BYTES):
                    size += _size(results[0])
                    some.append(results.pop(0))
                report = HostReport(run, orders.number, results=tuple(some), done=not results)
                await self._send(report)

    # To and from the broker

    async def _obey(self) -> None:
        async for orders in self._stream:
            if orders.run != self._run:
                self._run, self._scripts, self._why = orders.run, {}, orders.why
            if orders.scripts is not None:
                async with self._in_order:
                    self._take_scripts(orders.scripts)
                self._begun.set()
            if orders.calls is not None:
                await self._make_ordered(orders.calls)

    def _take_scripts(self, scripts: Iterable[HostedSource]) -> None:
        """Run these scripts; those that run already, in this version, keep their state."""
        before, self._scripts = self._scripts, {}
        for hosted in scripts:
            old = before.get(hosted.id)
            goes_on = old is not None and old.hosted.version == hosted.version
            state = old.state if old is not None and goes_on else hosted.state
            self._scripts[hosted.id] = _Script(hosted, state)

    async def _tell_states(self) -> None:
        while True:
            await asyncio.sleep(TELL_STATE_S)
            async with self._in_order:
                await self._tell_untold()

    async def _tell_untold(self) -> None:
        run = self._run
        for script in list(self._scripts.values()):
            if script.is_untold:
                # The broker has gone on without this node: its state counts.
                with contextlib.suppress(RejectedError):
                    await self._tell(run, script, CallDone(script.state))

    async def _tell(self, run: int, script: _Script, result: CallDone) -> None:
        """Tell what came of a call in a run: in a later one the state may be another."""
        script.is_untold = False
        hosted = script.hosted
        report = HostReport(run, id=hosted.id, version=hosted.version, results=(result,))
        await self._send(report)

    async def _send(self, report: HostReport) -> None:
        await self._context.commands.send(RESULTS, msgspec.json.encode(report))


def _size(result: CallDone) -> int:
    payloads = sum(len(each.payload) + len(each.options) for each in result.outputs)
    return payloads + len(result.state or b"") + len(result.problem)


def _argument(client_id: str, subject: str, payload: Mapping[str, object] | str) -> bytes:
    is_text = isinstance(payload, str)
    return msgspec.json.encode(
        {
            "id": None,
            "subject": subject,
            "publisher": client_id.partition("~")[0],
            "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "position": None,
            "attributes": None if is_text else payload,
            "text": payload if is_text else None,
        }
    )


def _orders(event: Received) -> HostOrders | None:
    try:
        return msgspec.json.decode(event.payload, type=HostOrders)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
