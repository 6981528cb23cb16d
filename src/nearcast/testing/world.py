"""A world in virtual time: brokers, clients and the network between them, from one seed.

The same seed gives the same run, to the byte: `trace` has it line by line. Nothing sleeps, no
socket is opened, and a minute with a hundred messages takes some milliseconds.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from msgspec.structs import replace

from nearcast.broker.config.settings import Settings
from nearcast.client.api.options import ClientOptions
from nearcast.simulation.network.faults import Fault, FaultKind
from nearcast.simulation.network.virtual_connection import LinkQuality
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.virtual_clock import VirtualClock
from nearcast.testing.virtual_broker import VirtualBroker
from nearcast.testing.virtual_client import VirtualClient
from nearcast.testing.virtual_disk import DiskQuality

IN_MEMORY = Path("/dev/shm")
SLOW_BYTES_PER_S = 300.0
TOLD_LINES = 12


class World:
    """All participants of one run; a context manager, which removes its files."""

    def __init__(self, seed: int | str = 0, quality: LinkQuality | None = None) -> None:
        self.seed = seed
        self.clock = VirtualClock(seed)
        self.network = VirtualNetwork(self.clock, quality, self.tell)
        self.brokers: dict[str, VirtualBroker] = {}
        self.clients: dict[str, VirtualClient] = {}
        self._chance = self.clock.chance("faults")
        self._lines: list[tuple[float, str, str]] = []
        self.directory: Path | None = None
        """The data directory of its brokers, once one has a disk."""

    def broker(
        self,
        name: str = "broker",
        *,
        disk: DiskQuality | None = None,
        settings: Settings | None = None,
    ) -> VirtualBroker:
        """Start a broker; without a disk it loses its state in a crash."""
        assert name not in self.brokers | self.clients, f"there is a {name} already"
        directory = None if disk is None else self._new_directory()
        broker = VirtualBroker(self.network, name, directory, settings, disk, self.tell)
        self.brokers[name] = broker
        broker.start()
        return broker

    def client(
        self, name: str, options: ClientOptions | None = None, *, broker: str = "broker"
    ) -> VirtualClient:
        """Create and connect a client; its name is its client id."""
        assert name not in self.brokers | self.clients, f"there is a {name} already"
        chosen = replace(options or ClientOptions(), client_id=name)
        client = VirtualClient(self.network, chosen, broker, tell=self.tell)
        self.clients[name] = client
        client.connect()
        return client

    # Time

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(seconds)

    def run_until(self, condition: Callable[[], bool], within_s: float = 60.0) -> None:
        """Let time pass until a condition holds; raises `TimeoutError` if it does not in time."""
        deadline = self.clock.now() + within_s
        while not condition():
            if self.clock.now() >= deadline or not self.clock.step():
                raise TimeoutError(f"it does not hold after {within_s:g} s of virtual time")

    def settle(self, within_s: float = 120.0) -> None:
        """Let time pass until all clients are connected and no message is in flight."""
        self.run_until(self._settled, within_s)

    # Faults

    def inflict(self, faults: Iterable[Fault]) -> None:
        """Schedule faults at their times."""
        for fault in faults:
            self.clock.after(fault.at_s - self.clock.elapsed_s, lambda fault=fault: self._do(fault))  # type: ignore[misc]

    def tell(self, who: str, what: str) -> None:
        """Add a line to the trace."""
        self._lines.append((self.clock.elapsed_s, who, what))

    @property
    def trace(self) -> str:
        """The trace, line by line: the same for the same seed."""
        return "".join(f"{at:.6f} {who} {what}\n" for at, who, what in self._lines)

    def close(self) -> None:
        """Stop the brokers, and remove their files."""
        for broker in self.brokers.values():
            broker.crash()
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> "World":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            last = "".join(self.trace.splitlines(keepends=True)[-TOLD_LINES:])
            error.add_note(
                f"In World(seed={self.seed!r}), after {self.clock.elapsed_s:.6f} s. "
                f"The same seed gives the same run. It ended so:\n{last}"
            )
        self.close()

    def _settled(self) -> bool:
        for client in self.clients.values():
            if client.is_wanted:
                broker = self.brokers[client.broker]
                if not (client.online and client.idle and broker.has(client.name)):
                    return False
        return all(broker.is_up and broker.idle for broker in self.brokers.values())

    def _new_directory(self) -> Path:
        if self.directory is None:
            # A RAM disk is sufficient here, and much faster.
            memory = IN_MEMORY if os.access(IN_MEMORY, os.W_OK | os.X_OK) else None
            self.directory = Path(tempfile.mkdtemp(prefix="nearcast-world-", dir=memory))
        return self.directory

    def _do(self, fault: Fault) -> None:
        self.tell(fault.host, f"{fault.kind.value} for {fault.lasts_s:.6f} s")
        if fault.kind.of_broker:
            self._strike_broker(self.brokers[fault.host], fault)
        else:
            self._strike_client(self.clients[fault.host], fault)

    def _strike_broker(self, broker: VirtualBroker, fault: Fault) -> None:
        if not broker.is_up:
            return
        power_cut = fault.kind is FaultKind.POWER_CUT
        broker.crash(told=not power_cut, power_cut=power_cut)
        self.clock.after(fault.lasts_s, broker.start)

    def _strike_client(self, client: VirtualClient, fault: Fault) -> None:
        network, name, other, lasts_s = self.network, client.name, client.broker, fault.lasts_s
        at_once = self._chance.uniform(0.0, 0.05)
        match fault.kind:
            case FaultKind.LOST:
                network.lose(name, learns_s=at_once, other_learns_s=lasts_s)
            case FaultKind.HALF_OPEN:
                network.lose(name, learns_s=at_once, other_learns_s=None)
            case FaultKind.UNHEARD:
                network.lose(name, learns_s=None, other_learns_s=at_once)
            case FaultKind.PARTED:
                network.part(name, other)
                self.clock.after(lasts_s, lambda: network.heal(name, other))
            case FaultKind.SLOW:
                usual = network.quality(name, other)
                slow = replace(usual, bytes_per_s=SLOW_BYTES_PER_S, held_bytes=256)
                network.set_quality(name, other, slow)
                self.clock.after(lasts_s, lambda: network.set_quality(name, other, None))
            case FaultKind.DEAF:
                client.stop_listening()
                self.clock.after(lasts_s, client.listen)
            case _ if client.is_wanted:
                client.crash(told=self._chance.random() < 0.5)
                if fault.kind is FaultKind.CLIENT_AMNESIA:
                    client.forget()
                self.clock.after(lasts_s, client.connect)
            case _:
                pass
