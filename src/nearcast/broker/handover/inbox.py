"""The handover inbox: rows of the pipeline are staged, then released exactly once.

Tasks stage rows, which are stored without effect. A release names the attempts that count: from the
tick that accepts it this broker is responsible for delivering them. They are delivered in chunks,
each in one commit with the end of its staging, so that a large epoch delays no client and a crash
at any moment neither loses nor repeats a row. An epoch that was already released is acknowledged
and dropped. The next chunk is held back, for some seconds at most, while the queue of one of its
clients is more than half full.

An event that does not stay is neither published nor recorded if nobody here has subscribed to it.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.handover.release_throttle import ReleaseThrottle
from nearcast.broker.handover.row_bases import bases_of, check_judged
from nearcast.broker.handover.staged_rows import Chunk, StagedRows
from nearcast.broker.ingest.publish_request import claim_live, with_smallest_people
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.sizes import event_bytes
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import BAD, NO_EVENT_OPTIONS, area_of
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position, number, position
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import check_subject
from nearcast.store import delivery_row, tick_row
from nearcast.wire.handover import (
    LAST_PART,
    PART,
    WHOLE,
    Abort,
    DeliveryRow,
    EventRow,
    HandedRow,
    HandoverError,
    Interest,
    Manifest,
    Release,
    RowRecipient,
    Staged,
    Tick,
    interest_text,
    manifest_in,
    parse_topic,
    rows_in,
    subjects_in,
)
from nearcast.wire.mqtt import ProtocolError, Publish, ReasonCode

MOST_AT_ONCE = 1_000
"""About how many deliveries are made in one tick; the rest follow in the next."""
WAIT_S = 0.02
"""The delay while too much waits for the disk, or for a client."""


class HandoverInbox:
    """Stages rows of the pipeline and delivers released ones."""

    def __init__(
        self, state: BrokerState, driver: EngineDriver, dispatcher: DeliveryDispatcher
    ) -> None:
        self._state = state
        self._driver = driver
        self._dispatcher = dispatcher
        self.staging = StagedRows(state.journal)
        self.may_go_on: Callable[[], bool] = lambda: True
        """Whether the disk can take more; set by the host."""
        self._next: tuple[Chunk, list[HandedRow]] | None = None
        """The next chunk, and its decoded rows."""
        self._patience = ReleaseThrottle(state)
        self._not_before = 0.0

    # From the pipeline

    def take(
        self, connection: Connection, session: Session, packet: Publish, now: float
    ) -> str | None:
        """Handle a message on a topic of the pipeline; raises `RefusedError`.

        Returns the answer to a question.
        """
        if not _may_hand_over(connection):
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, "only the pipeline hands over rows")
        if not packet.qos:
            raise RefusedError(BAD, "rows are handed over with QoS 1")
        try:
            match parse_topic(packet.topic):
                case Staged() as staged:
                    self._stage(staged, packet.payload)
                case Release(query, epoch):
                    self._release(query, epoch, manifest_in(packet.payload))
                case Abort(query, epoch):
                    self.staging.drop(query, epoch)
                case Tick():
                    self._record_time(now)
                case Interest():
                    return self._interest(subjects_in(packet.payload), now)
        except HandoverError as error:
            raise RefusedError(BAD, str(error)) from None
        # Also for a repeat: the original may not be on disk yet.
        self._state.journal.must_sync = True
        return None

    def _stage(self, staged: Staged, data: bytes) -> None:
        staging = self.staging
        if staging.is_released(staged.query, staged.epoch) or staging.has(staged):
            return
        if data[:1] == WHOLE:
            _check(data[1:])
        elif data[:1] not in (PART, LAST_PART):
            raise HandoverError("a packet of rows begins with 0, or 1 or 2 for a part")
        staging.put(staged, data)

    def _release(self, query: str, epoch: int, manifest: Manifest) -> None:
        if self.staging.is_released(query, epoch):
            self._state.counters["repeated_releases"] += 1
            return
        chunks = self.staging.find(query, epoch, manifest)
        for chunk in chunks:
            if len(chunk.packets) > 1:
                _check(chunk.data)
        self.staging.release(query, epoch, manifest, chunks)
        self._state.counters["releases"] += 1

    def _interest(self, subjects: list[str], now: float) -> str:
        """Say for each subject whether its events are wanted here."""
        # Subscriptions that came before count.
        self._driver.step(now)
        return interest_text(map(self._is_wanted, subjects))

    def _is_wanted(self, subject: str) -> bool:
        """Whether an event that does not stay may reach anybody, or is counted by a filter."""
        engine = self._state.engine
        return engine.matcher.counting or engine.has_subscribers(subject)

    def _record_time(self, now: float) -> None:
        """Record the time, by which the pipeline's timers go while nothing else is recorded."""
        state = self._state
        if state.journal.keeps:
            state.journal.rows.append(tick_row(state.name, state.engine.next_seq(), now))
            state.counters["ticks"] += 1

    # To clients

    @property
    def pending(self) -> bool:
        """Whether released rows are still to be delivered."""
        return bool(self.staging.ready)

    def due(self, now: float) -> float:
        """The time to deliver the next rows, of which there are some."""
        if self._held_back(now):
            return self._not_before
        return now if self.may_go_on() else now + WAIT_S

    def go_on(self, now: float) -> None:
        """Deliver some of the released rows."""
        ready = self.staging.ready
        if not ready or self._held_back(now) or not self.may_go_on():
            return
        # Rows published here are not in a queue until the engine has decided, so few are taken.
        left = min(MOST_AT_ONCE, max(1, self._state.limits.queued // 2))
        while ready and left > 0:
            rows = self._rows_of(ready[0])
            if self._patience.holds_back(rows, now):
                self._not_before = now + WAIT_S
                return
            chunk = ready.popleft()
            self._next = None
            left -= self._hand_out(rows, now)
            self.staging.done(chunk)

    def _held_back(self, now: float) -> bool:
        # If the clock was set back, the delay must not become longer.
        return 0.0 < self._not_before - now <= WAIT_S

    def _rows_of(self, chunk: Chunk) -> list[HandedRow]:
        if self._next is None or self._next[0] is not chunk:
            self._next = chunk, rows_in(chunk.data)
        return self._next[1]

    def _hand_out(self, rows: list[HandedRow], now: float) -> int:
        done = 0
        for row in rows:
            if isinstance(row, EventRow):
                self._publish(row, now)
                done += 1
            else:
                self._deliver(row, now)
                done += len(row.recipients)
        self._state.counters["released_rows"] += len(rows)
        return done

    def _publish(self, row: EventRow, now: float) -> None:
        """Queue an event row for the engine."""
        state, stays = self._state, row.stays
        if not stays and not self._is_wanted(row.subject):
            state.counters["unwanted_rows"] += 1
            return
        valid_s = 0.0 if row.retain and not row.payload else row.valid_s
        at = _position(row)
        event = Event(
            row.id,
            row.subject,
            row.publisher,
            now if row.time is None else row.time,
            attributes_of(row.payload) if stays or state.engine.matcher.reads_attributes else {},
            at,
            at is not None,
            None if row.to is None else area_of(row.to, "to"),
            valid_s,
            row.object,
            row.retain,
            payload=row.payload,
            qos=row.qos,
            about=row.about,
            headers=row.headers,
        )
        try:
            hidden = with_smallest_people(state, row.subject, NO_EVENT_OPTIONS, stays=stays)
        except RefusedError:
            state.counters["refused_rows"] += 1
            return
        if hidden.people:
            # What the pipeline makes names people too: all of it is of one person.
            event = replace(event, people=hidden.people, base_set=hidden.base_set)
        if stays and valid_s != 0.0:
            try:
                claim_live(state, state.quotas.broker, event, event_bytes(event))
            except RefusedError:
                state.counters["refused_rows"] += 1
                return
        self._driver.publish(event, now)

    def _deliver(self, row: DeliveryRow, now: float) -> None:
        """Deliver a row to the recipients that the pipeline decided on."""
        state = self._state
        if state.pending:
            # Earlier events are decided by the subscriptions in force when they came.
            self._driver.step(now)
        self._dispatcher.flush()
        event = Event(
            row.id,
            row.subject,
            row.publisher,
            row.time,
            position=_position(row),
            at_given=row.at_given,
            retain=row.retain,
            payload=row.payload,
            qos=row.qos,
            session=row.session,
            headers=row.headers,
            expires_at=row.expires,
            deadline_s=_deadline_s(row, state.now),
            gathered=row.gathered,
        )
        bases = bases_of(row)
        for replayed in (False, True):
            some = [
                (each.subscriptions, self._priority(each, bases))
                for each in row.recipients
                if each.replayed is replayed
            ]
            if some:
                decided = state.engine.addressed(event, some, replayed, bases)
                self._dispatcher.deliver(decided)
        # Which session has seen a live event is tracked where it was decided.
        state.seen.clear()
        if not state.engine.settings.routes and state.journal.keeps:
            got = [(e.session, e.subscriptions, e.priority, e.replayed) for e in row.recipients]
            told = delivery_row(event, got, state.name, state.engine.next_seq(), now)
            state.journal.rows.append(told)

    def _priority(self, to: RowRecipient, bases: Mapping[str, PriorityBasis]) -> int:
        """The priority of a copy now: classes, roles and tasks may have changed meanwhile."""
        basis = bases.get(to.subscriptions[0]) if bases and to.subscriptions else None
        if basis is None:
            return to.priority
        return self._state.engine.priorities(to.session)(basis)


def _check(chunk: bytes) -> None:
    """Refuse rows that could not be delivered, before they have any effect."""
    for row in rows_in(chunk):
        try:
            _position(row)
            check_subject(row.subject)
            times = {"time": row.time}
            if isinstance(row, EventRow):
                times["valid_s"] = row.valid_s
                if row.to is not None:
                    area_of(row.to, "to")
            else:
                times["expires"] = row.expires
                if row.urgency is not None:
                    times["deadline"] = row.urgency.deadline
                check_judged(row)
            for name, value in times.items():
                if value is not None:
                    number(value, name)
            if row.headers:
                Publish("x", raw_properties=row.headers).validate()
        except (ModelError, RefusedError, ProtocolError, HandoverError) as error:
            why = error.why if isinstance(error, RefusedError) else str(error)
            raise HandoverError(f"row {row.id!r}: {why}") from None


def _deadline_s(row: DeliveryRow, now: float) -> float | None:
    """The seconds that are left until a row is late."""
    said = row.urgency
    return None if said is None or said.deadline is None else said.deadline - now


def _position(row: HandedRow) -> Position | None:
    return None if row.lat is None or row.lon is None else position(row.lat, row.lon)


def _may_hand_over(connection: Connection) -> bool:
    """Whether a client is the pipeline or a superuser; other broker parts may not hand over."""
    admitted = connection.admitted
    if admitted is None or not admitted.identity.superuser:
        return False
    return connection.trusted is None or admitted.identity.user is not None
