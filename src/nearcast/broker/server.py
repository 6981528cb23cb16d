"""The server: sockets and a disk around the hub.

What is read in one iteration of the event loop, or in several under load, is one tick. Every
connection gets at most one write per tick, and a write that promises durability waits until its
batch is on disk. Listens for MQTT on TCP, TLS and WebSocket.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from nearcast.broker.auth import Admitted, Authenticator, Peer
from nearcast.broker.auth import AuthRefusal as Refusal
from nearcast.broker.auth.admission import Admission, OpenAccess
from nearcast.broker.auth.server_access import ServerAccess
from nearcast.broker.broker_clock import HostClocks
from nearcast.broker.config.settings import Settings
from nearcast.broker.delivery.batch import Batch
from nearcast.broker.durability.clock_follower import ClockFollower, clock_for
from nearcast.broker.durability.commit_gate import CommitGate
from nearcast.broker.durability.disk_space import DiskCondition, DiskSpace
from nearcast.broker.durability.journal import Entries
from nearcast.broker.durability.log_copier import LogCopier, copy_of_log
from nearcast.broker.durability.node_erasures import NodeErasures
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import StoreWriter, journal_for
from nearcast.broker.handover import pipeline_access
from nearcast.broker.hub import Hub
from nearcast.broker.net.buffer_limits import BufferLimits
from nearcast.broker.net.connection import Connection
from nearcast.broker.net.links import (
    Hold,
    Link,
    SocketLinks,
)
from nearcast.broker.net.listeners import (
    possible_connections,
    start_listeners,
    warn_of_strangers,
)
from nearcast.broker.net.tick_scheduler import TickScheduler
from nearcast.broker.operations import control
from nearcast.broker.operations.diagnostics import Diagnostics
from nearcast.broker.operations.operator_requests import OperatorRequests
from nearcast.broker.operations.priority_figures import priority_figures
from nearcast.broker.peers.peer_prover import PeerProver
from nearcast.broker.quotas.memory_budget import resident_bytes
from nearcast.broker.scheduling.phase_timer import Phase
from nearcast.broker.shutdown import CLIENTS_PART, Deadline, close_store
from nearcast.logs import log_event
from nearcast.placement.worker_pool import WorkerPool
from nearcast.store import LogSettings, Store
from nearcast.store.dictionaries import in_use, read_dictionaries, remove_trained
from nearcast.wire.mqtt import Connect, ReasonCode

SWEEP_S = 1.0
KNOCK_S = 0.2
"""Delay before a connection from an address with too many new connections is tried again."""
HELD_BYTES = 2 << 20
"""While more bytes than this wait for the disk, who sends much is not read."""
HELD_MOST_BYTES = 64 << 20
"""While more bytes than this wait for the disk, nobody is read who sends anything."""
LITTLE_BYTES = 16 << 10
"""What a client may send while others are paused: little enough to delay nobody."""
LATE_S = 0.02
"""A tick that has taken so long leaves waiting input to the next one."""

log = logging.getLogger("nearcast.broker")


class Server:
    """An MQTT server; without a store no state outlives it."""

    def __init__(
        self,
        settings: Settings | None = None,
        store: Store | None = None,
        admission: Admission | None = None,
        feed_tick: Callable[[float], None] | None = None,
        clocks: HostClocks | None = None,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self._admission = OpenAccess() if admission is None else admission
        self._store = store
        self._clock = clock_for(store, clocks)
        directory = None if store is None else store.directory
        self.clock = ClockFollower(self._clock, directory)
        journal = None if store is None else journal_for(store)
        self.hub = Hub(self.settings, journal, self._admission)
        if store is not None:
            restore(self.hub, store, self.now())
            self.hub.connect_handler.pipeline_token = pipeline_access.read_token(store.directory)
            self.hub.releasing.may_go_on = lambda: not self.is_full
        self.hub.scheduler.is_late = self._is_late
        self.diagnostics = Diagnostics(self.hub, self.settings.diagnostics.slow_tick_s)
        self.hub.link_classes.begin(SocketLinks())
        self._access = ServerAccess(self.hub, self._admission, self.now, lambda: self.soon())
        self.hub.begin(self.now())
        self._erasures = NodeErasures(
            self.hub, directory, lambda: self._tick(), self.now, lambda: self.is_full
        )
        self._store_writer: StoreWriter | None = None
        self._log_copier: LogCopier | None = None
        self._peer_prover = PeerProver(self.hub.state.peers, lambda: self.soon())
        self._script_workers = WorkerPool(self.settings.scripts.workers)
        self._control: control.Control | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[str, asyncio.Server] = {}
        self._links: set[Link] = set()
        self._most_links = self.settings.limits.connections
        self._commit_gate = CommitGate(self._write)
        self._paused: set[Link] = set()
        self._sent_while_full: dict[Link, int] = {}
        """Bytes of each link since too much waits for the disk."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._sweeper: asyncio.TimerHandle | None = None
        self._feed_tick = feed_tick
        self.stopping = False
        self._ticking = TickScheduler(self._tick, self.now)
        self.soon = self._ticking.soon
        """Schedule a tick after all available input has been read."""
        self.note_input = self._ticking.note_input
        """Note that input was read."""
        self.was_full = False
        """True if too much already waited for the disk when this tick's first input was read."""
        self.measure_memory: Callable[[], int] = resident_bytes
        """Returns the memory in use, in bytes."""

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener."""
        return {
            name: int(listener.sockets[0].getsockname()[1])
            for name, listener in self._listeners.items()
        }

    @property
    def port(self) -> int:
        """The port for MQTT on TCP."""
        return self.ports["mqtt"]

    @property
    def admission(self) -> Admission:
        """The access control in use."""
        return self._admission

    @property
    def is_full(self) -> bool:
        """Whether so many bytes wait for the disk that who sends much is not read."""
        return self.waiting_for_disk_bytes > HELD_BYTES

    @property
    def waiting_for_disk_bytes(self) -> int:
        """The size of what waits for the disk: entries, and answers that promise them."""
        waiting = 0 if self._store_writer is None else self._store_writer.waiting_bytes
        return self._commit_gate.bytes + waiting

    @property
    def failing(self) -> str | None:
        """Why the store cannot be written to now; None if it can."""
        return None if self._store_writer is None else self._store_writer.failing

    @property
    def log_problem(self) -> str | None:
        """Why the log or its copy is not up to date; None if they are."""
        parts = (self._store_writer, self._log_copier)
        return next((each.problem for each in parts if each is not None and each.problem), None)

    def now(self) -> float:
        """The time in seconds since 1970; it never goes back."""
        return self._clock.now()

    async def start(self) -> None:
        """Start the listeners, the store writer and the control socket."""
        self._loop = asyncio.get_running_loop()
        self._ticking.start(self._loop.call_soon)
        if self._store is not None:
            copy = copy_of_log(self._store, self.settings.data.storage)
            self._log_copier = None if copy is None else LogCopier(copy)
            self._store_writer = StoreWriter(
                self._store,
                self.now,
                self._loop.call_soon_threadsafe,
                self.settings.log,
                lambda: (self.hub.engine.seq, self.hub.engine.in_force()),
                None if self._log_copier is None else self._log_copier.wake,
                DiskSpace(self._store.directory, self.settings.disk),
                self._note_disk,
            )
            self._commit_gate = CommitGate(self._write, self._store_writer.submit)
            self.load_dictionaries()
            for problem in self._store.state_problems:
                log_event(log, logging.WARNING, "the state was checked", what=problem)
            for problem in self._store.problems:
                log_event(log, logging.WARNING, "the log was damaged", what=problem)
        wanted = self.settings.limits.connections
        self._most_links = possible_connections(wanted)
        if self._most_links < wanted:
            why = "the system allows no more open files"
            log_event(log, logging.INFO, "fewer connections", possible=self._most_links, why=why)
        try:
            await start_listeners(self, self._listeners)
            if not self._admission.asks_for_names:
                warn_of_strangers(self.settings, isinstance(self._admission, OpenAccess))
            if self._store is not None:
                path = self._store.directory / control.NAME
                self._control = control.Control(path, OperatorRequests(self).answers())
                await self._control.start()
                certificate = self.settings.listen.certificate
                pipeline_access.tell_address(self._store.directory, self._listeners, certificate)
                self._erasures.resume(self._erase_from_log)
        except BaseException:
            await self.stop()
            raise
        self.hub.scripts.start(self._script_workers, self.soon)
        self.soon()
        self._sweep()
        self.diagnostics.start(self._loop)

    async def stop(self, deadline: Deadline | None = None) -> None:
        """Disconnect all clients, store what was promised, and close, by a deadline.

        1. Nobody connects any more; connections without a session are cut off.
        2. All input so far is decided, and clients are told why they are disconnected.
        3. They read what is left, until `CLIENTS_PART` of the time has passed.
        4. Sessions without a connection are stored, and wills are published.
        5. The store commits, writes the last segment, and closes; then the log is copied.

        What is late is left undone, from the last to the first: the copy and the segment are made
        at the next start, wills are published then, and messages of a commit that did not happen
        were not acknowledged.
        """
        self.stopping = True
        self._erasures.stop()
        self._peer_prover.stop()
        assert self._loop is not None
        self.diagnostics.stop()
        # What they were doing has no effect; it is done again after a restart.
        await self._script_workers.stop()
        deadline = deadline or Deadline(self.settings.shutdown.within_s)
        for timer in filter(None, (self._sweeper, self._timer)):
            timer.cancel()
        if self._control is not None:
            await self._control.stop()
        if self._store is not None:
            pipeline_access.remove_address(self._store.directory)
        for listener in self._listeners.values():
            listener.close()
        self._access.passwords.stop()
        for link in [each for each in self._links if each.connection.session is None]:
            link.abort()
        self.hub.shut_down()
        self._tick()
        while self._links and deadline.left_s(CLIENTS_PART):
            await asyncio.sleep(0.01)
        for link in list(self._links):
            link.abort()
        await asyncio.sleep(0)
        while (self._links or self.hub.state.leaving) and deadline.left_s():
            self._tick()
            await asyncio.sleep(0)
        self._tick()
        await close_store(self._store_writer, self._log_copier, deadline)
        self.clock.keep_mark()

    def priority_statistics(self) -> dict[str, float]:
        """Counters and gauges of queues by priority."""
        levels = self.settings.adaptation.levels
        queues = priority_figures(self.hub.state, levels, self.now())
        return queues | self.hub.link_classes.statistics(levels)

    def statistics(self) -> dict[str, float]:
        """Counters and gauges of the hub, the links and access control."""
        return (
            self.hub.statistics()
            | {
                "links": len(self._links),
                "held_batches": len(self._commit_gate),
                "held_bytes": self._commit_gate.bytes,
                "paused_links": len(self._paused),
                "clock_off_s": self._clock.off_s,
            }
            | self.hub.state.peers.statistics()
            | self._access.statistics()
            | self.diagnostics.statistics()
        )

    def keeper_statistics(self) -> dict[str, float]:
        """Statistics of the store writer; empty without a store."""
        found = {} if self._store_writer is None else self._store_writer.statistics()
        return found if self._log_copier is None else found | self._log_copier.statistics()

    async def admit(self, connect: Connect, peer: Peer) -> Admitted | Refusal:
        """Check the credentials of a client that does not use MQTT."""
        return await self._access.admit(connect, peer)

    async def forget(self, node: str) -> dict[str, int]:
        """Erase a node from memory, the stored state and the log; return the counts."""
        # They may hold what it sent; whoever asks trains them anew when the log is erased.
        if self._store is not None and remove_trained(self._store.directory):
            self.load_dictionaries()
        return await self._erasures.forget(node, self._erase_from_log)

    def load_dictionaries(self) -> int:
        """Encode with the dictionaries that are kept now; return their number."""
        if self._store is None:
            return 0
        found = in_use(read_dictionaries(self._store.directory))
        self.hub.state.dictionaries.replace(found)
        return len(found)

    async def _erase_from_log(self, node: str) -> dict[str, int]:
        found = {}
        if self._store_writer is not None:
            found["segments"] = await asyncio.wrap_future(self._store_writer.erase(node))
        if self._log_copier is not None:
            await asyncio.wrap_future(self._log_copier.update())
        return found

    async def commit(self) -> None:
        """Run a tick, and wait until all of it is on disk."""
        self._tick()
        if self._store_writer is not None:
            done = asyncio.get_running_loop().create_future()
            self._store_writer.submit(Entries(), lambda: done.set_result(None))
            await done

    # Called by links

    def joined(self, link: Link) -> None:
        """Register a new link; abort it above the limit, delay it if its address has too many."""
        self._links.add(link)
        connection = link.connection
        if len(self._links) > self._most_links:
            log_event(log, logging.WARNING, "too many connections", address=connection.peer.address)
            link.abort()
            return
        if isinstance(self._admission, Authenticator) and not self._admission.knock(
            connection.peer.address, self.now()
        ):
            link.hold(Hold.KNOCK)
            self.later(KNOCK_S, self._knock_again, link)

    def _knock_again(self, link: Link) -> None:
        """Read from a delayed link once the rate limit of its address allows it."""
        assert isinstance(self._admission, Authenticator)
        if link not in self._links:
            return
        if self._admission.knock(link.connection.peer.address, self.now()):
            link.connection.since = self.now()
            link.let(Hold.KNOCK)
        else:
            self.later(KNOCK_S, self._knock_again, link)

    def left(self, link: Link) -> None:
        """Remove a closed link."""
        self._links.discard(link)
        self.parted(link)

    def parted(self, link: Link) -> None:
        """Detach a link that is closed, or that closes once its client has read everything."""
        self._paused.discard(link)
        self._sent_while_full.pop(link, None)
        self._access.passwords.leave(link.connection)
        if link.transport is not None:
            self.hub.lost(link.connection)
            self.soon()

    def pause_if_much(self, link: Link, size: int) -> None:
        """Stop reading from a link that sends much while too much waits for the disk.

        Called with the size of what it sent. Who sends little goes on, unless far too much waits.
        """
        size += self._sent_while_full.get(link, 0)
        self._sent_while_full[link] = size
        if size > LITTLE_BYTES or self.waiting_for_disk_bytes > HELD_MOST_BYTES:
            self.pause(link)

    def pause(self, link: Link) -> None:
        """Stop reading from a link until the disk has caught up."""
        if not self._paused:
            self._ask_when_kept()
        self._paused.add(link)
        link.hold(Hold.DISK)

    def later(self, delay_s: float, work: Callable[..., None], *arguments: object) -> None:
        """Call a function after a delay."""
        assert self._loop is not None
        self._loop.call_later(delay_s, work, *arguments)

    def begin(self) -> float:
        """Return the time of the tick that input is being collected for."""
        ticking = self._ticking
        if ticking.reading():
            self.was_full = self._store_writer is not None and self.is_full
            if not self.was_full and self._sent_while_full:
                self._sent_while_full.clear()
        return ticking.time

    # Ticks

    def _tick(self) -> None:
        now = self._ticking.began()
        phases = self.hub.state.phases
        phases.switch(Phase.COMMIT)
        batch = self.hub.tick(now)
        for connection, check in batch.slow:
            self._access.check(connection, check)
        writer = self._store_writer
        awaited_s = 0.0 if writer is None else writer.awaited_s
        self._commit_gate.take(batch)
        if writer is not None and writer.awaited_s != awaited_s:
            phases.move(writer.awaited_s - awaited_s, Phase.COMMIT, Phase.DISK)
        for connection in batch.served:
            link: Link = connection.host  # type: ignore[assignment]  # made by a link
            link.let(Hold.TURN)
        if self.hub.state.peers.offers:
            self._peer_prover.begin()
        self._schedule(now)
        self._ticking.ended()
        took_s = self.diagnostics.end_tick()
        if self._feed_tick is not None:
            self._feed_tick(took_s)

    def _is_late(self) -> bool:
        """Whether the tick has taken so long that other input must be looked at."""
        return self.now() - self._ticking.time > LATE_S

    def _note_disk(self, condition: DiskCondition) -> None:
        """Put another condition of the disk in force."""
        self.hub.disk_policy.apply(condition, self.now())
        self._commit_gate.serve_others(condition.failing)
        self.soon()

    def _hear_again(self) -> None:
        """Resume reading from all paused links if the disk has caught up."""
        if self.is_full:
            self._ask_when_kept()
            return
        paused, self._paused = self._paused, set()
        for link in paused:
            link.let(Hold.DISK)

    def _ask_when_kept(self) -> None:
        """Check again whether to resume reading once all submitted entries are on disk."""
        assert self._store_writer is not None
        self._store_writer.submit(Entries(), self._hear_again)

    def _write(self, batch: Batch) -> None:
        for write in batch.writes:
            link: Link = write.connection.host  # type: ignore[assignment]  # made by a link
            transport = link.transport
            if transport is not None and not transport.is_closing() and not link.is_ending:
                if write.pace is not None:
                    link.write_paced(write.data, write.pace)
                elif write.data:
                    link.write(write.data)
                if write.closes:
                    link.end(bool(write.data))
            if write.acknowledgements or write.pace is not None:
                self.hub.written(write)
        if self.hub.state.touched:
            # Paced links took what they were given.
            self.soon()

    def _schedule(self, now: float) -> None:
        """Schedule the next tick if a timer is due within the sweep interval."""
        assert self._loop is not None
        due = self.hub.next_timer(now)
        if due is None or self.stopping:
            return
        if due <= now:
            self.soon()
        elif due < now + SWEEP_S and due != self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self._loop.call_later(due - now, self.soon)

    def _sweep(self) -> None:
        """Close connections that are silent, late with CONNECT, or stalled; runs once a second."""
        assert self._loop is not None
        self.clock.look()
        now, limits = self.now(), self.settings.limits
        for connection in self.hub.silent(now):
            host: Link = connection.host  # type: ignore[assignment]  # made by a link
            if host.is_held():
                # It cannot be heard.
                continue
            log_event(log, logging.INFO, "client is silent", client=_name(connection))
            self.hub.close(connection, ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard")
        self.hub.memory.check(self.measure_memory(), now)
        for connection, why in BufferLimits(limits).exceeding(self._links):
            self.hub.close(connection, ReasonCode.QUOTA_EXCEEDED, why)
        for link in list(self._links):
            connection = link.connection
            self._hold_for_memory(link)
            if link.is_ending:
                if link.stalled_s(now) > limits.stalled_s:
                    link.abort()
            elif connection.session is None:
                late = now - connection.since > limits.connect_within_s
                if late and not link.is_held(Hold.KNOCK) and not link.is_held(Hold.DOORS):
                    address = connection.peer.address
                    log_event(log, logging.INFO, "no CONNECT came", address=address)
                    link.abort()
            elif link.stalled_s(now) > limits.stalled_s:
                log_event(log, logging.WARNING, "client does not read", client=_name(connection))
                self.hub.state.counters["stalled"] += 1
                link.abort()
            else:
                self._access.dismiss(connection, now)
        self.hub.sweep(now)
        if self._access.sweep(self._clock.off_s):
            self.reload_admission()
        self.soon()
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _hold_for_memory(self, link: Link) -> None:
        """Stop reading from a client while memory is short and much is queued for its user."""
        session, paused = link.connection.session, self.hub.memory.paused
        if session is not None and session.usage.user.name in paused:
            link.hold(Hold.MEMORY)
            # It cannot be late with its keep-alive while nobody listens.
            link.connection.heard_at = self.now()
        elif link.is_held(Hold.MEMORY):
            link.let(Hold.MEMORY)

    def reload_admission(self) -> None:
        """Read users and rules again."""
        self._access.reload([link.connection for link in self._links])


def open_server(
    settings: Settings,
    feed_tick: Callable[[float], None] | None = None,
) -> Server:
    """Return a server with these settings, its store opened and access control in place."""
    data = Path(settings.node.data)
    section = settings.log
    rolls = LogSettings(section.roll_s, section.followed_roll_s, section.roll_bytes)
    store = Store(data, settings.node.name, rolls)
    try:
        return Server(settings, store, Authenticator(settings, data), feed_tick)
    except BaseException:
        store.abandon()
        raise


def _name(connection: Connection) -> str:
    session = connection.session
    return connection.peer.address if session is None else session.client_id
