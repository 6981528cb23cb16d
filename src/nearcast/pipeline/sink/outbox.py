"""The outbox: what a pipeline tells its brokers is put into their backlogs, and sent from there.

Each broker has a sender, a thread of the driver. One that is away, busy or refuses holds up nobody
else: its rows wait on disk, and the sender tries again until it has them. An epoch that was put
into the backlogs is done; it is then waited for, for some seconds, so that a query stays in step
with brokers that are there. Nothing newer is sent to a broker before its backlog, and a broker
drops an epoch that it has released before: each gets every row once, in order.
"""

import logging
import math
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from random import Random

from nearcast.client.link.backoff import Backoff
from nearcast.logs import log_event
from nearcast.pipeline.errors import LinkRefusedError, PipelineError
from nearcast.pipeline.sink.backlog import Backlog, BacklogStatus, Entry
from nearcast.pipeline.sink.broker_link import BrokerLink, borrowed
from nearcast.pipeline.sink.interest import BrokerInterest
from nearcast.pipeline.sink.pending_timers import PendingTimers
from nearcast.pipeline.sink.sink_options import DROP_OLDEST, SinkOptions, SinkPart
from nearcast.store import broker_directory
from nearcast.wire.handover import Abort, Packer, Release, Staged, Tick, manifest_bytes, rows_in

log = logging.getLogger("nearcast.pipeline")

ANSWER_WITHIN_S = 10.0
"""How long a broker may be unreachable or busy before an attempt has failed."""
AGAIN = Backoff(0.2, 5.0)
TICK_WITHIN_S = 2.0
TIMERS = "timers.json"
"""In the directory of the backlogs: when timers of the queries will fire."""
STOP_WITHIN_S = 15.0
SLICE_BYTES = 64 << 20
"""About how much of an epoch a broker gets at once: it holds no more than a few times that."""


class Outbox:
    """The backlogs and senders of all brokers of a pipeline."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._directory = Path(options.backlog)
        self._lock = threading.Lock()
        self.timers = PendingTimers(self._directory / TIMERS)
        self._senders: dict[str, BrokerSender] = {}
        for path in sorted(self._directory.glob("*/")):
            self._sender(path.name)

    def release(self, parts: Iterable[SinkPart]) -> None:
        """Put an epoch into the backlogs of its brokers, and wait a little until they have it.

        A backlog that is full is waited for after all others have the epoch.
        """
        found: dict[str, list[SinkPart]] = {}
        dues: dict[str, list[float]] = {}
        logs: dict[str, SinkPart] = {}
        for part in parts:
            if part.as_of:
                timer = log_timer(part.query, part.broker)
                logs[timer] = max(logs.get(timer, part), part, key=_age)
            elif part.dues:
                dues.setdefault(part.query, []).extend(part.dues)
            else:
                found.setdefault(part.broker, []).append(part)
        for query, times in dues.items():
            self.timers.add(query, times)
        for timer, part in logs.items():
            self.timers.replace(timer, part.dues[:1])
        senders = {broker: self._sender(broker) for broker in sorted(found)}
        in_turn = sorted(senders.items(), key=lambda each: each[1].is_full)
        added = [(sender, sender.add(found[broker])) for broker, sender in in_turn]
        deadline = time.monotonic() + self._options.wait_s
        for sender, entry in added:
            sender.wait(entry, max(0.0, deadline - time.monotonic()))

    def tick(self) -> None:
        """Ask one broker to record the time; a log of any is one of all."""
        logs = Path(self._options.path).glob("brokers/*/log")
        senders = [self._sender(path.parent.name) for path in sorted(logs)]
        for sender in senders:
            if sender.may_tick:
                sender.tick()
                return

    def tick_of(self, broker: str) -> None:
        """Ask one broker to record the time, unless it is known not to."""
        sender = self._sender(broker)
        if sender.may_tick:
            sender.tick()

    def statuses(self) -> list[BacklogStatus]:
        """What waits for each broker."""
        with self._lock:
            senders = list(self._senders.values())
        return [sender.status() for sender in senders]

    def close(self) -> None:
        """Stop sending; what waits stays on disk."""
        with self._lock:
            senders = list(self._senders.values())
        for sender in senders:
            sender.close()
        for sender in senders:
            sender.join()

    def _sender(self, broker: str) -> "BrokerSender":
        with self._lock:
            sender = self._senders.get(broker)
            if sender is None:
                sender = self._senders[broker] = BrokerSender(broker, self._options)
            return sender


class BrokerSender:
    """Sends the backlog of one broker, in a thread of its own."""

    def __init__(self, broker: str, options: SinkOptions) -> None:
        self._broker = broker
        self._options = options
        self._place = options.place(broker)
        self._backlog = Backlog(backlog_directory(options, broker))
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._problem = ""
        self._waiting_for_room = 0
        self._dropped_rows = 0
        self._tick_wanted = False
        self._no_tick_before = 0.0
        self._may_be_staged = True
        """True if an attempt that failed may have left rows at the broker."""
        self._interest = BrokerInterest(broker)
        self._chance = Random(secrets.randbits(64))
        self._thread = threading.Thread(target=self._run, name=f"send-{broker}", daemon=True)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """True if no more may be added now."""
        return self._backlog.size >= self._options.backlog_bytes

    @property
    def may_tick(self) -> bool:
        """True if the broker is known to take rows, or nothing else is known."""
        return not self._problem and time.monotonic() >= self._no_tick_before

    def tick(self) -> None:
        """Ask the broker to record the time."""
        with self._changed:
            self._tick_wanted = True
            self._changed.notify_all()

    def add(self, parts: Iterable[SinkPart]) -> Entry:
        """Add an epoch to the backlog; waits while it is full, or drops the oldest epochs."""
        with self._changed:
            self._make_room()
            entry = self._backlog.add(parts)
            self._changed.notify_all()
        return entry

    def wait(self, entry: Entry, timeout_s: float) -> None:
        """Return when an entry was sent, when sending fails, or after the timeout."""
        with self._changed:
            self._changed.wait_for(
                lambda: entry not in self._backlog or self._problem or self._closed.is_set(),
                timeout_s,
            )

    def status(self) -> BacklogStatus:
        """What waits, since when, and why."""
        with self._changed:
            first = self._backlog.first
            return BacklogStatus(
                self._broker,
                self._backlog.rows,
                self._backlog.size,
                None if first is None else first.since,
                "" if first is None else self._problem,
                self._waiting_for_room > 0,
                self._dropped_rows,
            )

    def close(self) -> None:
        """Stop after the current attempt."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join(STOP_WITHIN_S)

    def _make_room(self) -> None:
        if self._options.backlog_full == DROP_OLDEST:
            while self.is_full and (oldest := self._backlog.first) is not None:
                self._backlog.remove(oldest)
                self._dropped_rows += oldest.rows
                log_event(
                    log, logging.WARNING, "rows dropped: the backlog of a broker is full",
                    broker=self._broker, query=oldest.query, epoch=oldest.epoch, rows=oldest.rows,
                )  # fmt: skip
            return
        if self.is_full:
            log_event(
                log, logging.WARNING, "a query waits: the backlog of a broker is full",
                broker=self._broker, rows=self._backlog.rows, why=self._problem,
            )  # fmt: skip
        self._waiting_for_room += 1
        self._changed.wait_for(lambda: not self.is_full or self._closed.is_set())
        self._waiting_for_room -= 1
        if self.is_full:
            raise PipelineError(f"stopped while the backlog of broker {self._broker} was full")

    # In the thread

    def _run(self) -> None:
        tries = 0
        while not self._closed.is_set():
            entry = self._next()
            if self._tick_wanted:
                self._send_tick()
            if entry is None:
                continue
            try:
                with borrowed(self._place, ANSWER_WITHIN_S) as link:
                    self._send(link, entry)
            except Exception as error:
                # Whatever it is, the rows stay and the status tells why.
                self._failed(entry, error)
                self._closed.wait(AGAIN.delay_s(tries, self._chance))
                tries += 1
            else:
                self._sent(entry)
                tries = 0

    def _next(self) -> Entry | None:
        """Wait for the next entry; None if there is something else to do."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._backlog.first or self._tick_wanted or self._closed.is_set()
            )
            return None if self._closed.is_set() else self._backlog.first

    def _send_tick(self) -> None:
        """Ask the broker to record the time; if it does not, another one is asked next."""
        self._tick_wanted = False
        try:
            with borrowed(self._place, TICK_WITHIN_S) as link:
                link.send(Tick().topic, b"")
                link.flush()
            self._no_tick_before = 0.0
        except LinkRefusedError as error:
            # An earlier release, or one without the rights.
            self._no_tick_before = math.inf
            log_event(
                log, logging.WARNING, "broker records no time for the pipeline",
                broker=self._broker, why=str(error),
            )  # fmt: skip
        except Exception as error:
            is_first = not self._no_tick_before
            self._no_tick_before = time.monotonic() + ANSWER_WITHIN_S
            if is_first:
                log_event(
                    log, logging.INFO, "broker was not there to record the time",
                    broker=self._broker, why=str(error),
                )  # fmt: skip

    def _send(self, link: BrokerLink, entry: Entry) -> None:
        """Send an entry in slices, of which a broker drops those that it has released before."""
        self._interest.begin()
        for number, chunks in enumerate(_slices(self._backlog.chunks(entry))):
            query = entry.query if not number else f"{entry.query} slice {number}"
            self._send_slice(link, entry, query, chunks)

    def _send_slice(
        self, link: BrokerLink, entry: Entry, query: str, chunks: Iterable[bytes]
    ) -> None:
        """Stage rows, and release them unless the entry was dropped meanwhile."""
        epoch = entry.epoch
        if self._may_be_staged:
            link.send(Abort(query, epoch).topic, b"")
        self._may_be_staged = True
        attempt, count = secrets.token_hex(8), 0
        packer = Packer(link.largest_payload)

        def stage(packets: Iterable[bytes]) -> None:
            nonlocal count
            for packet in packets:
                link.send(Staged(query, epoch, 0, attempt, count).topic, packet)
                count += 1

        for chunk in chunks:
            for row in self._interest.wanted(rows_in(chunk), link):
                stage(packer.add(row))
        stage(packer.rest())
        link.flush()
        with self._changed:
            if entry not in self._backlog:
                raise PipelineError("the entry was dropped while it was sent")
        if count:
            link.send(Release(query, epoch).topic, manifest_bytes([(0, attempt, count)]))
        link.flush()
        self._may_be_staged = False

    def _sent(self, entry: Entry) -> None:
        with self._changed:
            self._backlog.remove(entry)
            problem, self._problem = self._problem, ""
            self._changed.notify_all()
        if problem:
            log_event(log, logging.INFO, "broker takes rows again", broker=self._broker)

    def _failed(self, entry: Entry, error: Exception) -> None:
        why = str(error) or type(error).__name__
        with self._changed:
            if entry not in self._backlog:
                return  # It was dropped meanwhile.
            known, self._problem = self._problem, why
            self._changed.notify_all()
        if not known:
            log_event(
                log, logging.WARNING, "broker takes no rows; they wait in its backlog",
                broker=self._broker, why=why,
            )  # fmt: skip


def _slices(chunks: Iterator[bytes]) -> Iterator[Iterator[bytes]]:
    """Cut the chunks of an entry; always at the same places, so that a slice can be told again.

    Each slice must be used up before the next.
    """

    def one(first: bytes) -> Iterator[bytes]:
        size = 0
        for chunk in chain((first,), chunks):
            yield chunk
            size += len(chunk)
            if size >= SLICE_BYTES:
                return

    for first in chunks:
        yield one(first)


def log_timer(query: str, broker: str) -> str:
    """Return the name of the timer of a query that goes by the log of a broker."""
    return f"{query} of {broker}"


def _age(part: SinkPart) -> tuple[int, float]:
    """Later rows know better; as of one row each shard has a timer, and the first one counts."""
    return part.as_of, -min(part.dues, default=math.inf)


# The outboxes of this process

_outboxes: dict[str, Outbox] = {}
_lock = threading.Lock()


def open_outbox(options: SinkOptions) -> Outbox:
    """Return the outbox of a directory of backlogs; it is opened if it is not open."""
    with _lock:
        found = _outboxes.get(options.backlog)
        if found is None:
            found = _outboxes[options.backlog] = Outbox(options)
        return found


def close_outbox(directory: str) -> None:
    """Close the outbox of a directory, if it is open."""
    with _lock:
        found = _outboxes.pop(directory, None)
    if found is not None:
        found.close()


def backlog_directory(options: SinkOptions, broker: str) -> Path:
    """Return the directory of a broker's backlog; raises `StoreError` for an unusable name."""
    return Path(options.backlog) / broker_directory(Path(options.path), broker).name
