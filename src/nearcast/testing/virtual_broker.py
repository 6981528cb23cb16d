"""A broker in virtual time: the broker's own logic on a virtual network and a virtual disk.

It follows the rules of the real server: all that is read at one moment is one tick, packets that
promise durability are sent in order once it is on disk, silent and stalled clients are closed once
a second. It may crash at any moment and be restarted from its disk.
"""

from pathlib import Path
from random import Random

from msgspec.structs import replace

from nearcast.broker.awareness.link_estimator import LinkFigures
from nearcast.broker.awareness.link_meter import LinkMeter
from nearcast.broker.config.settings import NodeSection, Settings
from nearcast.broker.delivery.batch import Batch
from nearcast.broker.durability.commit_gate import CommitGate, OnCommit
from nearcast.broker.durability.journal import Entries
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.links import DEAF_AT
from nearcast.core.propagation.link_pace import LinkPace
from nearcast.core.propagation.outbox import WITHHELD
from nearcast.simulation.network.virtual_connection import End, Tell
from nearcast.simulation.network.virtual_network import VirtualNetwork
from nearcast.simulation.virtual_clock import Alarm
from nearcast.testing.virtual_disk import DiskQuality, FilesLeft, VirtualDisk
from nearcast.wire.mqtt import ReasonCode

SWEEP_S = 1.0
PIPELINE_TOKEN = "virtual"
"""The token of the pipeline."""


class VirtualBroker:
    """One broker of a virtual world; without a directory it has no durable state."""

    def __init__(
        self,
        network: VirtualNetwork,
        name: str = "broker",
        directory: Path | None = None,
        settings: Settings | None = None,
        disk: DiskQuality | None = None,
        tell: Tell = lambda who, what: None,
    ) -> None:
        self.name = name
        self.settings = replace(settings or Settings(), node=NodeSection(name))
        self._network = network
        self._clock = network.clock
        self._directory = directory
        self._disk_quality = DiskQuality() if disk is None else disk
        self._tell = tell
        self._running: _Run | None = None
        self.starts = 0

    @property
    def is_up(self) -> bool:
        """True if it runs."""
        return self._running is not None

    @property
    def idle(self) -> bool:
        """True if nothing waits for its disk, and connected clients have nothing queued.

        What is withheld from them does not count.
        """
        return self._running is not None and self._running.idle

    def has(self, client_id: str) -> bool:
        """True if a client is connected, and both sides know it."""
        session = None if self._running is None else self.hub.sessions.get(client_id)
        if session is None or session.connection is None:
            return False
        link = session.connection.host
        assert isinstance(link, _Link)
        return link.end.is_whole

    @property
    def hub(self) -> Hub:
        """The logic of the broker, while it runs."""
        assert self._running is not None, f"{self.name} is down"
        return self._running.hub

    @property
    def disk(self) -> VirtualDisk:
        """The disk, while it runs and if it has one."""
        assert self._running is not None, f"{self.name} is down"
        assert self._running.disk is not None, f"{self.name} keeps nothing"
        return self._running.disk

    def set_figures(self, client_id: str, figures: LinkFigures | None) -> None:
        """Let the link of a client measure as given from now on; None: as it is."""
        assert self._running is not None, f"{self.name} is down"
        self._running.set_figures(client_id, figures)

    def start(self) -> None:
        """Restore the state from the disk, and listen."""
        assert self._running is None, f"{self.name} is up already"
        self.starts += 1
        disk = None
        if self._directory is not None:
            disk = VirtualDisk(self._clock, self._directory, self.name, self._disk_quality)
        self._running = _Run(self._network, self.settings, disk, self.starts)
        self._network.listen(self.name, self._running.accept)
        self._tell(self.name, "starts")

    def crash(self, *, told: bool = True, power_cut: bool = False) -> None:
        """Stop at once; with `told` the clients' systems learn that the connections are gone."""
        if self._running is None:
            return
        run, self._running = self._running, None
        run.halt()
        self._network.crash(self.name, told=told)
        if run.disk is not None:
            run.disk.crash(power_cut=power_cut)
        self._tell(self.name, "loses its power" if power_cut else "crashes")

    def lose_power(self, left: FilesLeft, *, in_checkpoint: bool = False) -> None:
        """Lose power while something is written; `left` says what of it is on the disk."""
        assert self._running is not None, f"{self.name} is down"
        run, self._running = self._running, None
        run.halt()
        self._network.crash(self.name, told=False)
        assert run.disk is not None, f"{self.name} keeps nothing"
        run.disk.lose_power(left, in_checkpoint=in_checkpoint)
        self._tell(self.name, "loses its power while it writes")

    def stop(self) -> None:
        """Disconnect all clients, store what was acknowledged, and stop."""
        if self._running is None:
            return
        run, self._running = self._running, None
        run.goodbye()
        run.halt()
        self._network.stop_listening(self.name)
        self._tell(self.name, "stops")

    def restart(self) -> None:
        """Start again after a crash or a stop, or crash and start."""
        self.crash()
        self.start()


class _Link:
    """A connection to the broker, as the hub's host."""

    def __init__(self, run: "_Run", end: End) -> None:
        self._run = run
        self.end = end
        limits = run.settings.limits
        end.limit(limits.unsent_bytes, limits.unsent_bytes // 4)
        self.connection = Connection(self, since=run.clock.now())
        self._blocked_since: float | None = None
        self._unsent = 0
        self._deaf = False
        self._waits = False
        self.meter: LinkMeter | None = None

    def write(self, data: bytes, pace: LinkPace | None) -> None:
        """Write bytes; those of a paced link wait in its session's queue as far as possible."""
        if pace is not None:
            if self.meter is None:
                self.meter = LinkMeter(None)
                self.end.limit(0, 0)
            self.meter.written_bytes += len(data)
        self.end.write(data)

    def release_pace(self) -> None:
        """Buffer as other links do."""
        self.meter = None
        limits = self._run.settings.limits
        self.end.limit(limits.unsent_bytes, limits.unsent_bytes // 4)

    def received(self, data: bytes) -> None:
        run, connection = self._run, self.connection
        if connection.closing:
            return
        run.hub.take(connection, data, run.clock.now())
        if connection.must_wait:
            self.wait_for_turn(True)
        run.soon()
        if self._blocked_since is not None:
            self._stop_hearing()

    def _stop_hearing(self) -> None:
        """Stop reading from a client that does not read its answers."""
        if self.end.unsent_bytes > DEAF_AT * self._run.settings.limits.unsent_bytes:
            self._deaf = True
            self.end.pause_reading()

    def wait_for_turn(self, waits: bool) -> None:
        """Read no further input while what was read waits for its turn."""
        self._waits = waits
        if waits:
            self.end.pause_reading()
        elif not self._deaf:
            self.end.resume_reading()

    def lost(self) -> None:
        self._run.left(self)

    def pause_writing(self) -> None:
        self._blocked_since = self._run.clock.now()
        if self.meter is not None:
            self.meter.block(self._blocked_since)
        self._unsent = self.end.unsent_bytes
        self._run.hub.block(self.connection, True)

    def resume_writing(self) -> None:
        if self.meter is not None:
            self.meter.unblock(self._run.clock.now())
        self._blocked_since = None
        if self._deaf:
            self._deaf = False
            if not self._waits:
                self.end.resume_reading()
        self._run.hub.block(self.connection, False)
        self._run.soon()

    def stalled_s(self, now: float) -> float:
        if self._blocked_since is None:
            return 0.0
        if self.end.unsent_bytes < self._unsent:
            self._blocked_since = now
        self._unsent = self.end.unsent_bytes
        return now - self._blocked_since


class _Run:
    """A broker from one start to its stop or crash."""

    def __init__(
        self, network: VirtualNetwork, settings: Settings, disk: VirtualDisk | None, number: int
    ) -> None:
        self.clock = network.clock
        self.settings = settings
        self.disk = disk
        now = self.clock.now()
        journal = None if disk is None else journal_for(disk.store)
        # The same ids when a seed is replayed, and others after each start.
        chance = Random(f"{settings.node.name} {number} {now!r}")
        self.hub = Hub(settings, journal, random_bytes=chance.randbytes)
        if disk is not None:
            restore(self.hub, disk.store, now)
        self.hub.begin(now)
        self._figures: dict[str, LinkFigures] = {}
        self.hub.link_classes.begin(self)
        self.hub.connect_handler.pipeline_token = PIPELINE_TOKEN
        self._links: dict[_Link, None] = {}
        self._commit_gate = CommitGate(self._write, None if disk is None else self._keep)
        self._due = False
        self._timer: Alarm | None = None
        self._halted = False
        self._sweep()

    def accept(self, end: End) -> _Link:
        link = _Link(self, end)
        self._links[link] = None
        return link

    def left(self, link: _Link) -> None:
        if self._links.pop(link, link) is None:
            self.hub.lost(link.connection)
            self.soon()

    # Links, as what classifies them sees them

    def set_figures(self, client_id: str, figures: LinkFigures | None) -> None:
        if figures is None:
            self._figures.pop(client_id, None)
        else:
            self._figures[client_id] = figures
        session = self.hub.sessions.get(client_id)
        if session is not None and session.pace is not None:
            session.pace.wrote = True

    def figures(self, connection: Connection, now: float) -> LinkFigures | None:
        link, session = connection.host, connection.session
        assert isinstance(link, _Link)
        assert session is not None
        if session.client_id in self._figures:
            return self._figures[session.client_id]
        return None if link.meter is None else link.meter.figures(now, link.end.unsent_bytes)

    def acknowledged(self, connection: Connection, took_s: float) -> None:
        link = connection.host
        assert isinstance(link, _Link)
        if link.meter is not None:
            link.meter.estimator.acknowledged(took_s)

    def release(self, connection: Connection) -> None:
        link = connection.host
        assert isinstance(link, _Link)
        link.release_pace()

    def soon(self) -> None:
        if not self._due and not self._halted:
            self._due = True
            self.clock.soon(self._tick)

    def halt(self) -> None:
        self._halted = True

    def goodbye(self) -> None:
        self.hub.shut_down()
        self._tick()
        if self.disk is not None:
            self.disk.stop()
        self._commit_gate.release_all()
        for link in self._links:
            link.end.close()

    @property
    def idle(self) -> bool:
        if len(self._commit_gate) or self._due or not (self.disk is None or self.disk.idle):
            return False
        for session in self.hub.sessions.values():
            waits = session.by_priority().keys() - {WITHHELD}
            if session.connection is not None and (waits or session.statistics()["in_flight"]):
                return False
        return True

    def _tick(self) -> None:
        self._due = False
        if self._halted:
            return
        now = self.clock.now()
        batch = self.hub.tick(now)
        assert not batch.slow, "the doors of a virtual broker are open"
        self.hub.validate_state()
        self._commit_gate.take(batch)
        for connection in batch.served:
            link = connection.host
            assert isinstance(link, _Link)
            link.wait_for_turn(False)
        self._schedule(now)

    def _keep(self, entries: Entries, done: OnCommit | None) -> None:
        assert self.disk is not None
        self.disk.submit(entries, done)

    def _write(self, batch: Batch) -> None:
        if self._halted:
            return
        for write in batch.writes:
            link = write.connection.host
            assert isinstance(link, _Link)
            if link.end.is_open:
                if write.data:
                    link.write(write.data, write.pace)
                if write.closes:
                    link.end.close()
            if write.acknowledgements or write.pace is not None:
                self.hub.written(write)
        if self.hub.state.touched:
            self.soon()

    def _schedule(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.hub.next_timer(now)
        if due is None:
            return
        if due <= now:
            self.soon()
        elif due < now + SWEEP_S:
            self._timer = self.clock.at(due, self.soon)

    def _sweep(self) -> None:
        """Once a second: close silent, unauthenticated and stalled connections."""
        if self._halted:
            return
        now, limits = self.clock.now(), self.settings.limits
        for connection in self.hub.silent(now):
            self.hub.close(connection, ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard")
        for link in list(self._links):
            if link.connection.session is None:
                if now - link.connection.since > limits.connect_within_s:
                    link.end.abort()
            elif link.stalled_s(now) > limits.stalled_s:
                link.end.abort()
        self.hub.sweep(now)
        if self.disk is not None:
            self.disk.sweep()
        self.soon()
        self.clock.after(SWEEP_S, self._sweep)
