"""Silence: nodes that report their position only when they leave a region.

The position of such a node does not age while the session that keeps silent has its connection.
When that ends, the position is as old as the end: until then the node would have reported.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers
from nearcast.core.model.context import NodeState
from nearcast.core.model.inputs import Input, SilenceTold


class SilenceUpdates:
    """Begins and ends the silence of sessions."""

    def __init__(self, state: EngineState) -> None:
        self._nodes = state.nodes
        self.handlers: Handlers = {SilenceTold: self.tell}

    def tell(self, each: SilenceTold, step: EngineStep) -> None:
        """Let a session of a node keep silent, or end it."""
        session = each.session or each.node
        if each.silent:
            self._nodes.silent.setdefault(each.node, set()).add(session)
        else:
            self.end(each.node, session, step)

    def end(self, node: str, session: str, step: EngineStep) -> None:
        """End the silence of a session, if it keeps silent."""
        sessions = self._nodes.silent.get(node)
        if sessions is None or session not in sessions:
            return
        sessions.discard(session)
        if sessions:
            return
        del self._nodes.silent[node]
        before = self._nodes.by_name.get(node)
        if before is not None and before.position is not None:
            step.node_changed(node, self._confirm(before, step.now), before)

    def end_all(self, now: float) -> None:
        """End the silence of all, since their connections are lost."""
        silent = sorted(self._nodes.silent)
        self._nodes.silent.clear()
        for node in silent:
            before = self._nodes.by_name.get(node)
            if before is not None and before.position is not None:
                self._confirm(before, now)

    def _confirm(self, before: NodeState, now: float) -> NodeState:
        """Let a position be as old as this moment."""
        state = self._nodes.by_name[before.node] = replace(before, position_at=now)
        self._nodes.fixed(before.node, now)
        return state

    def in_force(self) -> Iterator[SilenceTold]:
        """Yield who keeps silent."""
        for node, sessions in sorted(self._nodes.silent.items()):
            for session in sorted(sessions):
                yield SilenceTold(node, True, "" if session == node else session)

    def resume(self, standing: Iterable[Input]) -> None:
        """Restore who keeps silent."""
        untold = EngineStep(0.0)
        for each in standing:
            if isinstance(each, SilenceTold):
                self.tell(each, untold)
