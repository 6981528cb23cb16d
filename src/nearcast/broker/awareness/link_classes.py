"""Classes of links: measured modules of awareness, for sessions with relevance, on change.

Such a session is paced, and its link is measured. Twice a second the modules that a policy gives to
its node classify what was measured, and the engine is told of a class that changed; measurements
are not recorded. A module without a value keeps its class, for `KEPT_S`: then the link may be
another one. Sessions without relevance cost nothing.
"""

from collections.abc import Sequence
from typing import Protocol

from nearcast.broker.awareness.link_estimator import LinkFigures
from nearcast.broker.awareness.measures import Measures
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.net.connection import Connection
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.session import Session
from nearcast.core.engine.engine import Outcome
from nearcast.core.model.inputs import Classified, Input, Subscribed
from nearcast.store import standing_change

EVERY_S = 0.5
AT_ONCE = 200
"""So many sessions are looked at in one go, then input has its turn."""
KEPT_S = 60.0


class LinkHost(Protocol):
    """What writes to links and measures them; it tells `Hub.written` of each paced write."""

    def figures(self, connection: Connection, now: float) -> LinkFigures | None:
        """The figures of a connection since the last call; None if nothing was measured."""

    def acknowledged(self, connection: Connection, took_s: float) -> None:
        """Note how long an acknowledgement took."""

    def release(self, connection: Connection) -> None:
        """Pace a connection no longer."""


class LinkWatch:
    """What is known of one session's link."""

    __slots__ = ("connection", "figures", "valued")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.figures = LinkFigures()
        """The last value of each figure."""
        self.valued: dict[str, float] = {}
        """When each module last had a value."""


class LinkClasses(OutcomeFollower):
    """Paces and classifies the links of sessions with relevance."""

    def __init__(self, state: BrokerState, measures: Measures | None = None) -> None:
        self._state = state
        self._measures = Measures() if measures is None else measures
        self.host: LinkHost | None = None
        """None: nothing is paced or measured."""
        self.watched: dict[str, LinkWatch] = {}
        """By client id."""
        self._turn: list[str] = []
        """Sessions that are to be looked at in this round."""
        self._due_at = 0.0

    def begin(self, host: LinkHost) -> None:
        """Watch sessions with relevance from now on, by what a host measures."""
        self.host = host
        for name in self._state.engine.sessions_with_relevance():
            self._watch(name, 0.0)

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Watch sessions from their first subscription with relevance on."""
        if self.host is None:
            return
        for each in others:
            if isinstance(each, Subscribed) and each.subscription.relevance is not None:
                self._watch(each.subscription.owner, now)

    def next_timer(self) -> float | None:
        """The time of the next look."""
        return self._due_at if self.watched else None

    def remind(self, now: float) -> None:
        """Classify links if it is time."""
        if not self.watched or now < self._due_at:
            return
        if not self._turn:
            self._turn = list(self.watched)
        some, self._turn = self._turn[-AT_ONCE:], self._turn[:-AT_ONCE]
        for name in some:
            self._look(name, now)
        share = len(some) / max(1, len(self.watched))
        self._due_at = now + EVERY_S * min(1.0, share)

    def statistics(self, levels: int) -> dict[str, float]:
        """How many links there are by class, and how many are thin."""
        state, thin = self._state, 0
        classes = dict.fromkeys(range(1, levels + 1), 0)
        for name in self.watched:
            session = state.sessions.get(name)
            if session is not None and session.connection is not None:
                classes[state.engine.context_class(name)] += 1
                thin += session.pace is not None and session.pace.is_thin
        found = {f'links{{class="{each}"}}': float(count) for each, count in classes.items()}
        return found | {"links_thin": float(thin)}

    def acknowledged(self, connection: Connection, session: Session, packet_id: int) -> None:
        """Time the acknowledgement of a message on a paced link."""
        if session.pace is not None:
            took_s = session.pace.acknowledged(packet_id, connection.heard_at)
            if took_s is not None and self.host is not None:
                self.host.acknowledged(connection, took_s)

    def _watch(self, name: str, now: float) -> None:
        session = self._state.sessions.get(name)
        if session is None or name in self.watched:
            return
        if not self._state.engine.has_relevance(name):
            return
        if not self.watched:
            self._due_at = now + EVERY_S
        self.watched[name] = LinkWatch()
        session.pace_link(True)

    def _look(self, name: str, now: float) -> None:
        session, watch = self._state.sessions.get(name), self.watched.get(name)
        if watch is None:
            return
        if session is None or session.pace is None or not self._state.engine.has_relevance(name):
            self._unwatch(name, session)
            return
        connection, pace = session.connection, session.pace
        if connection is None:
            return
        if connection is not watch.connection:
            watch.connection, watch.figures = connection, LinkFigures()
            watch.valued = dict.fromkeys(watch.valued, now)
        figures: LinkFigures | None = None
        if pace.wrote or connection.blocked:
            pace.wrote = False
            assert self.host is not None
            figures = self.host.figures(connection, now)
        if figures is not None:
            watch.figures = figures
            if figures.throughput_kbps is not None:
                session.link_measured(figures.throughput_kbps)
        self._classify(session, watch, figures, now)

    def _classify(
        self, session: Session, watch: LinkWatch, figures: LinkFigures | None, now: float
    ) -> None:
        engine = self._state.engine
        before = engine.link_classes(session.client_id)
        measured = [each for each in engine.awareness_of(session.node).modules if each.measure]
        for module in measured:
            value = None if figures is None else self._measures.value(module.measure, figures)
            known = before.get(module.name)
            if value is not None:
                watch.valued[module.name] = now
                self._tell(session, module.name, known, module.classify(value, known))
            elif known is not None and now - watch.valued.setdefault(module.name, now) > KEPT_S:
                self._tell(session, module.name, known, None)
        for name in before.keys() - {each.name for each in measured}:
            self._tell(session, name, before[name], None)

    def _tell(self, session: Session, module: str, before: int | None, now: int | None) -> None:
        if before != now:
            told = Classified(session.node, module, now, session.part)
            self._state.pending.ask(told)
            if session.durable:
                # What waits is prioritised by it after a restart too.
                self._state.journal.note(standing_change(told), sync=False)

    def _unwatch(self, name: str, session: Session | None) -> None:
        del self.watched[name]
        if session is None:
            return
        for module, known in self._state.engine.link_classes(name).items():
            self._tell(session, module, known, None)
        if session.pace is not None:
            session.pace_link(False)
            if session.connection is not None and self.host is not None:
                self.host.release(session.connection)
