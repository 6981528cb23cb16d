"""The nodes that a running broker is forgetting, over many ticks.

What is to be forgotten is written down first, in a file of its own: a broker that ends in the
middle goes on when it starts again. The file is gone when all is done.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from nearcast.broker.durability.erasure import NodeErasure
from nearcast.broker.hub import Hub
from nearcast.logs import log_event
from nearcast.store import StoreError
from nearcast.store.durable_files import write_whole

NAME = "forgetting.json"
PAUSE_S = 0.05
"""The rest after a slice while the disk is behind."""

log = logging.getLogger("nearcast.broker")
Counts = dict[str, int]


class NodeErasures:
    """Forgets nodes one slice at a time; to be used from one event loop."""

    def __init__(
        self,
        hub: Hub,
        directory: Path | None,
        tick: Callable[[], None],
        now: Callable[[], float],
        must_wait: Callable[[], bool],
    ) -> None:
        """`tick` stores a slice; `must_wait` tells whether the disk is behind."""
        self._hub = hub
        self._directory = directory
        self._tick = tick
        self._now = now
        self._must_wait = must_wait
        self._running: dict[str, asyncio.Task[Counts]] = {}
        self._intents = dict.fromkeys([] if directory is None else read_intents(directory))
        """The nodes to be forgotten, also those where it failed."""
        # Refused from the first moment: clients may come before the work begins.
        hub.state.forgetting.update(self._intents)

    def resume(self, erase_log: Callable[[str], Awaitable[Counts]]) -> None:
        """Go on with what an earlier life of the broker left half way."""
        for node in self._intents:
            log_event(log, logging.WARNING, "forgetting goes on", node=node)
            self._begin(node, erase_log).add_done_callback(_report)

    async def forget(self, node: str, erase_log: Callable[[str], Awaitable[Counts]]) -> Counts:
        """Forget a node; return counts once nothing is left of it.

        `erase_log` erases it from the log, and returns counts too. If it fails, clients cannot
        connect as the node until somebody asks again, or the broker starts again, and it is done.
        """
        task = self._running.get(node)
        if task is None:
            task = self._begin(node, erase_log)
        return await asyncio.shield(task)

    def stop(self) -> None:
        """Stop in the middle; the next start goes on."""
        for task in list(self._running.values()):
            task.cancel()

    def _begin(
        self, node: str, erase_log: Callable[[str], Awaitable[Counts]]
    ) -> asyncio.Task[Counts]:
        task = asyncio.create_task(self._forget(node, erase_log), name=f"forget {node}")
        self._running[node] = task
        return task

    async def _forget(self, node: str, erase_log: Callable[[str], Awaitable[Counts]]) -> Counts:
        try:
            self._intents[node] = None
            await self._note_intents()
            erasure = NodeErasure(self._hub, node)
            while erasure.work(self._now()):
                self._tick()
                await asyncio.sleep(PAUSE_S if self._must_wait() else 0.0)
            self._tick()
            found = {"sessions": erasure.sessions, "messages": erasure.messages}
            found |= await erase_log(node)
            del self._intents[node]
            await self._note_intents()
            erasure.end()
        finally:
            del self._running[node]
        return found

    async def _note_intents(self) -> None:
        if self._directory is not None:
            await asyncio.to_thread(write_intents, self._directory, list(self._intents))


def read_intents(directory: Path) -> list[str]:
    """Return the nodes that a broker was about to forget when it ended."""
    path = directory / NAME
    return msgspec.json.decode(path.read_bytes(), type=list[str]) if path.exists() else []


def write_intents(directory: Path, nodes: list[str]) -> None:
    """Write down which nodes are to be forgotten, durably."""
    if nodes:
        write_whole(directory / NAME, msgspec.json.encode(nodes))
    else:
        (directory / NAME).unlink(missing_ok=True)


def _report(task: asyncio.Task[Counts]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is not None:
        why = str(error) if isinstance(error, StoreError) else repr(error)
        log_event(log, logging.ERROR, "forgetting failed; ask again", why=why)
