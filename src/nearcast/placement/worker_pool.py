"""A bounded pool of worker processes for the scripts of many tenants.

A worker serves one tenant at a time and is replaced before it serves another, so that nothing is
left of the one for the other. Tenants have turns. A worker that says nothing for too long is
killed. Nothing here waits: results come as calls of a listener, on the event loop.
"""

import asyncio
import contextlib
import os
import sys
from collections import OrderedDict, deque
from typing import Protocol

import msgspec

from nearcast.placement.limits import BROKE, CALL_S, KILL_AFTER_S
from nearcast.placement.worker_messages import (
    LARGEST_ANSWER,
    LENGTH_BYTES,
    BatchDone,
    CallBatch,
    CallDone,
    ContextAnswer,
    ContextQuestion,
    FromWorker,
    ScriptCall,
    SourceChecked,
    framed,
)

TURN_S = 0.25
"""While other tenants wait, a worker is not kept by one for much longer."""
IDLE_S = 10.0
"""A worker that has nothing to do for so long ends."""
START_WITHIN_S = 30.0
"""A worker has so long to be ready, on a busy machine."""
MOST_SCRIPTS = 256
"""A worker that has had so many scripts is replaced; one that has grown much is, earlier."""
NICE = 10
"""Workers give way to their parent by so much, from their start on: it takes them longest."""
TOO_LONG = f"it took longer than {CALL_S:g} s"
_BROKEN = (OSError, asyncio.IncompleteReadError, msgspec.MsgspecError)
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "VIRTUAL_ENV")


class BatchListener(Protocol):
    """Whoever wants calls made; all methods are called on the event loop."""

    def checked(self, result: SourceChecked) -> None:
        """Take the result of checking a script, or why its calls cannot be made."""

    def called(self, result: CallDone) -> None:
        """Take the result of the next call."""

    def context(self, node: str) -> bytes:
        """Return the context of a node as JSON; empty if there is none to be seen."""

    def finished(self, broken: bool) -> None:
        """Called once, after all results: calls without one were not made.

        If the worker broke in a batch whose results may come together, it is not known by which
        call.
        """


class ScriptBatch:
    """Calls of one script, to be made in order."""

    __slots__ = (
        "calls", "is_cancelled", "listener", "script", "source", "state", "tenant", "together",
    )  # fmt: skip

    def __init__(
        self,
        tenant: str,
        script: str,
        source: str,
        state: bytes,
        calls: tuple[ScriptCall, ...],
        listener: BatchListener,
        together: bool = False,
    ) -> None:
        self.tenant = tenant
        self.script = script
        """A name of this version of the script."""
        self.source = source
        self.state = state
        self.calls = calls
        """Without any the script is only checked."""
        self.listener = listener
        self.together = together
        """Results may come together, which costs less."""
        self.is_cancelled = False


class WorkerPool:
    """Runs batches in worker processes; to be used from one event loop."""

    def __init__(self, size: int = 2) -> None:
        self._size = size
        self._queues: OrderedDict[str, deque[ScriptBatch]] = OrderedDict()
        """What waits, by tenant; the one whose turn is next comes first."""
        self._workers: dict[str, _Worker] = {}
        """By tenant: each has one at most."""
        self._ending: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._started = self._killed = 0

    def submit(self, batch: ScriptBatch) -> None:
        """Queue a batch."""
        if not self._stopping:
            self._queues.setdefault(batch.tenant, deque()).append(batch)
            self._assign()

    async def stop(self) -> None:
        """Kill all workers; what waits is dropped."""
        self._stopping = True
        self._queues.clear()
        for worker in list(self._workers.values()):
            self._end(worker)
        if self._ending:
            await asyncio.wait(self._ending)

    def statistics(self) -> dict[str, float]:
        """Counters and gauges of the workers."""
        return {
            "script_workers": len(self._workers),
            "script_workers_started_total": self._started,
            "script_workers_killed_total": self._killed,
            "script_batches_waiting": sum(map(len, self._queues.values())),
        }

    @property
    def pids(self) -> list[int]:
        """The ids of the worker processes."""
        return [each.process.pid for each in self._workers.values() if each.process is not None]

    def _assign(self) -> None:
        """Give tenants that wait a worker, as long as there are any."""
        for tenant in [each for each in self._queues if not self._is_served(each)]:
            worker = self._workers.get(tenant)
            if worker is None:
                if len(self._workers) >= self._size and not self._replace_idle():
                    return
                worker = self._workers[tenant] = _Worker(tenant)
                self._started += 1
            worker.stop_timer()
            worker.task = asyncio.get_running_loop().create_task(self._turn(worker), name="scripts")

    def _is_served(self, tenant: str) -> bool:
        worker = self._workers.get(tenant)
        return worker is not None and worker.task is not None

    def _replace_idle(self) -> bool:
        """End a worker that has nothing to do; False if there is none."""
        for worker in self._workers.values():
            if worker.task is None:
                self._end(worker)
                return True
        return False

    def _end(self, worker: "_Worker") -> None:
        """Kill a worker: it has nothing to lose."""
        del self._workers[worker.tenant]
        worker.stop_timer()
        task = asyncio.get_running_loop().create_task(worker.end(), name="end of a script worker")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _turn(self, worker: "_Worker") -> None:
        """Run batches of a tenant for a turn, or as long as nobody else waits."""
        loop, tenant = asyncio.get_running_loop(), worker.tenant
        try:
            await worker.start()
            until = loop.time() + TURN_S
            while tenant in self._queues and not worker.is_spent:
                batch = self._queues[tenant].popleft()
                if not self._queues[tenant]:
                    del self._queues[tenant]
                if not batch.is_cancelled:
                    await worker.run(batch)
                if loop.time() > until and any(not self._is_served(each) for each in self._queues):
                    worker.is_spent = True
            if tenant in self._queues:
                self._queues.move_to_end(tenant)
        finally:
            worker.task = None
            self._killed += worker.was_killed
            if worker.is_spent and self._workers.get(tenant) is worker:
                self._end(worker)
        if not worker.is_spent:
            worker.timer = loop.call_later(IDLE_S, self._end, worker)
        self._assign()


class _Worker:
    """One process."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.process: asyncio.subprocess.Process | None = None
        self.task: asyncio.Task[None] | None = None
        """The turn that it is in; None: it is idle."""
        self.timer: asyncio.TimerHandle | None = None
        self.is_spent = False
        """It is not to be used any more."""
        self.was_killed = False
        self._known: set[str] = set()
        """Scripts whose source it has."""

    def stop_timer(self) -> None:
        """It is not idle any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    async def start(self) -> None:
        """Start the process, if it does not run."""
        if self.process is None:
            # Nothing of the environment is for scripts, whatever they may break.
            variables = {
                name: value
                for name, value in os.environ.items()
                if name in _KEPT_VARIABLES or name.startswith("PYTHON")
            }
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "nearcast.placement.worker_process",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, limit=LARGEST_ANSWER,
                env=variables | {"RUST_BACKTRACE": "0"},
            )  # fmt: skip
            _give_way(self.process.pid)
            self._known.clear()
            # If it does not come, the first batch finds out.
            with contextlib.suppress(*_BROKEN):
                await self._next(START_WITHIN_S)

    async def run(self, batch: ScriptBatch) -> None:
        """Run a batch, and pass the results to its listener."""
        broken = False
        try:
            self._send(self._request(batch))
            while not isinstance(result := await self._next(), BatchDone):
                self._pass_on(result, batch)
            self.is_spent = result.worn or len(self._known) >= MOST_SCRIPTS
        except TimeoutError:
            broken, why = True, TOO_LONG
        except _BROKEN:
            broken, why = True, BROKE
        if broken:
            self.is_spent = self.was_killed = True
            self._kill()
            if not batch.calls:
                batch.listener.checked(SourceChecked(problem=why))
            elif not batch.together:
                batch.listener.called(CallDone(problem=why))
        batch.listener.finished(broken and batch.together)

    def _request(self, batch: ScriptBatch) -> CallBatch:
        source = "" if batch.script in self._known else batch.source
        self._known.add(batch.script)
        return CallBatch(batch.script, source, batch.state, batch.calls, batch.together)

    def _pass_on(self, result: FromWorker, batch: ScriptBatch) -> None:
        if isinstance(result, ContextQuestion):
            self._send(ContextAnswer(batch.listener.context(result.node)))
        elif isinstance(result, SourceChecked):
            batch.listener.checked(result)
        elif isinstance(result, CallDone):
            batch.listener.called(result)

    def _send(self, message: CallBatch | ContextAnswer) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(framed(message))

    async def _next(self, within_s: float = KILL_AFTER_S) -> FromWorker:
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(within_s):
            head = await self.process.stdout.readexactly(LENGTH_BYTES)
            length = int.from_bytes(head, "big")
            if length > LARGEST_ANSWER:
                raise asyncio.IncompleteReadError(b"", length)
            data = await self.process.stdout.readexactly(length)
        message: FromWorker = msgspec.msgpack.decode(data, type=FromWorker)
        return message

    def _kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    async def end(self) -> None:
        """Kill the process, and wait until it is gone."""
        task = self.task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._kill()
        if self.process is not None:
            # Reads what is left, so that the pipes are closed too.
            await self.process.communicate()


def _give_way(pid: int) -> None:
    """Lower the priority of a process."""
    with contextlib.suppress(OSError, AttributeError):
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, pid, own + NICE)
