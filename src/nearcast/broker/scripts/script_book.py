"""The scripts of a broker, by host: in memory, in the store, and in the quotas."""

from collections.abc import Iterator

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.quotas.quota_usage import SessionUsage
from nearcast.broker.scripts.hosted_script import HostedScript
from nearcast.broker.scripts.placed_script import PlacedScript
from nearcast.store import Forgotten, Kept, decoded, encoded

SCRIPTS = "scripts"
STATES = "script states"
"""The spaces of the store for scripts and for their states."""


class ScriptBook:
    """All scripts, by the names of their sessions."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._scripts: dict[str, HostedScript] = {}
        self._by_host: dict[str, dict[str, HostedScript]] = {}
        self._restored: dict[str, PlacedScript] = {}
        self._states: dict[str, bytes] = {}

    def __iter__(self) -> Iterator[HostedScript]:
        return iter(list(self._scripts.values()))

    def __len__(self) -> int:
        return len(self._scripts)

    def get(self, client_id: str) -> HostedScript | None:
        """Return a script by the name of its session."""
        return self._scripts.get(client_id)

    def at(self, node: str) -> list[HostedScript]:
        """Return the scripts of a host, by their ids."""
        return [script for _, script in sorted(self._by_host.get(node, {}).items())]

    # Changes

    def check_room(self, sender: SessionUsage, more: int, more_bytes: int) -> None:
        """Raise `RefusedError` if a sender may not have so much more."""
        amounts = {Resource.SCRIPTS: more, Resource.SCRIPT_BYTES: max(0, more_bytes)}
        self._state.quotas.check(sender, amounts)

    def add(self, script: HostedScript) -> None:
        """Put a script in force, and store it."""
        placed = script.placed
        self._scripts[placed.client_id] = script
        self._by_host.setdefault(placed.node, {})[placed.id] = script
        self._count(script, 1)
        self._keep(placed)

    def remove(self, script: HostedScript) -> bool:
        """Remove a script; False if it was not there."""
        placed = script.placed
        if self._scripts.get(placed.client_id) is not script:
            return False
        del self._scripts[placed.client_id]
        del self._by_host[placed.node][placed.id]
        if not self._by_host[placed.node]:
            del self._by_host[placed.node]
        self._count(script, -1)
        self._state.journal.note(Forgotten(SCRIPTS, placed.client_id))
        self._state.journal.note(Forgotten(STATES, placed.client_id))
        return True

    def change(self, script: HostedScript, placed: PlacedScript) -> None:
        """Put another version of a script in force; its state stays."""
        self._count(script, -1)
        script.placed = placed
        self._count(script, 1)
        self._keep(placed)

    def set_state(self, script: HostedScript, state: bytes) -> None:
        """Set the state of a script; raises `RefusedError` if a quota forbids it."""
        more = len(state) - len(script.state)
        usage = self._usage(script.placed)
        if more > 0:
            self.check_room(usage, 0, more)
        usage.add(Resource.SCRIPT_BYTES, more)
        script.state = state
        self._state.journal.note(Kept(STATES, script.placed.client_id, state))

    def _keep(self, placed: PlacedScript) -> None:
        self._state.journal.note(Kept(SCRIPTS, placed.client_id, encoded(placed)))

    def _count(self, script: HostedScript, change: int) -> None:
        usage = self._usage(script.placed)
        usage.add(Resource.SCRIPTS, change)
        usage.add(Resource.SCRIPT_BYTES, change * (script.placed.size + len(script.state)))
        self._state.quotas.tidy(usage)

    def _usage(self, placed: PlacedScript) -> SessionUsage:
        quotas = self._state.quotas
        return quotas.find(placed.sender) or quotas.of(placed.sender, user_name(placed.owner))

    # After a restart

    def restore(self, space: str, client_id: str, value: bytes) -> None:
        """Take a stored script or state."""
        if space == SCRIPTS:
            self._restored[client_id] = decoded(value, PlacedScript)
        else:
            self._states[client_id] = value

    def take_restored(self) -> Iterator[tuple[PlacedScript, bytes | None]]:
        """Yield the stored scripts with their states, once."""
        restored, self._restored = self._restored, {}
        states, self._states = self._states, {}
        for client_id, placed in restored.items():
            yield placed, states.get(client_id)

    def resume(self, script: HostedScript, state: bytes | None) -> None:
        """Put a stored script in force."""
        placed = script.placed
        if state is not None:
            script.state = state
        self._scripts[placed.client_id] = script
        self._by_host.setdefault(placed.node, {})[placed.id] = script
        self._count(script, 1)

    def recount(self) -> Iterator[tuple[str, int]]:
        """Yield the sender and the size of every script."""
        for script in self._scripts.values():
            yield script.placed.sender, script.placed.size + len(script.state)
