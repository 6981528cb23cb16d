"""An executor that makes the calls of scripts in this process, in a sandbox, when it is told."""

from collections import deque

from nearcast.placement.errors import ScriptError
from nearcast.placement.sandbox import Sandbox
from nearcast.placement.worker_messages import SourceChecked
from nearcast.placement.worker_pool import ScriptBatch


class InlineExecutor:
    """Checks sources at once; calls wait until `run`."""

    def __init__(self) -> None:
        self.batches: deque[ScriptBatch] = deque()
        """Calls that were begun and not made yet."""

    def submit(self, batch: ScriptBatch) -> None:
        if batch.calls:
            self.batches.append(batch)
            return
        try:
            functions = Sandbox(lambda node: b"").load(batch.source).functions
            batch.listener.checked(SourceChecked(functions))
        except ScriptError as error:
            batch.listener.checked(SourceChecked(problem=str(error)))
        batch.listener.finished(False)

    def run(self) -> None:
        """Make all calls that were begun."""
        while self.batches:
            batch = self.batches.popleft()
            sandbox = Sandbox(batch.listener.context)
            program, state = sandbox.load(batch.source), batch.state
            for call in batch.calls:
                done = sandbox.call(program, call, state)
                state = state if done.state is None else done.state
                batch.listener.called(done)
            batch.listener.finished(False)

    def statistics(self) -> dict[str, float]:
        return {}
