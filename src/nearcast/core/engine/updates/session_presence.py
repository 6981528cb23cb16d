"""Attending: connection, loss and end of sessions.

A session that reconnects gets the live events it missed, and so does a session whose queue had been
full once there is room. For a session from before a restart it is unknown what it missed: it gets
all matching live events that it has not seen, and so what is left of a replay of retained messages.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers, Outcome
from nearcast.core.engine.updates.silence_updates import SilenceUpdates
from nearcast.core.matching.tables import I32
from nearcast.core.model.inputs import (
    Input,
    Left,
    Presence,
    QueueDrained,
    Restarted,
    Undelivered,
)


class SessionPresence:
    """Tracks which sessions have a connection."""

    def __init__(self, state: EngineState, silence: SilenceUpdates) -> None:
        self._silence = silence
        self._shard = state.shard
        self._matcher = state.matcher
        self._announcements = state.announcements
        self._live = state.live
        self._subscriptions = state.subscriptions
        self._recent = state.recent
        self._live_delivery = state.live_delivery
        self._contexts = state.contexts
        self._uncertain: set[str] = set()
        """Restored sessions: unknown what they missed."""
        self._replays_go_on = False
        """True if those get what is left of a replay; in earlier releases its end was lost."""
        self.handlers: Handlers = {
            Presence: self.be_present,
            Undelivered: self.miss,
            QueueDrained: self.catch_up,
            Left: self.leave,
        }

    def be_present(self, each: Presence, step: EngineStep) -> None:
        """Record that a session connected or lost its connection."""
        session = each.session or each.node
        if each.here:
            self._subscriptions.present.add(session)
            self._subscriptions.away.discard(session)
            self._return(session, step.outcome)
        else:
            self._silence.end(each.node, session, step)
            self._lose(session)

    def _lose(self, session: str) -> None:
        # Who has a connection matters to shared groups, whose members are sessions of any shard.
        self._subscriptions.present.discard(session)
        if self._shard.has(session):
            self._subscriptions.away.add(session)

    def miss(self, each: Undelivered, step: EngineStep) -> None:
        """Record live events that did not reach a session."""
        for key, name in each.live:
            self._live.miss(key, name, each.session or each.node)

    def catch_up(self, each: QueueDrained, step: EngineStep) -> None:
        """Deliver live events that a session missed, as many as one input brings."""
        self._live_delivery.catch_up(each.session or each.node, step.outcome)

    def in_force(self) -> Iterator[Presence | Undelivered]:
        """Yield which sessions have or lost their connection, and what they missed."""
        present, away = self._subscriptions.present, self._subscriptions.away
        for session in sorted(present | away - self._uncertain):
            yield Presence(_node_of(session), session in present, session)
        for session, live in self._live.missed():
            yield Undelivered(_node_of(session), tuple(live), session)

    def uncertain(self) -> list[str]:
        """The sessions that have not come back since a restart."""
        return sorted(self._uncertain)

    def resume(self, standing: Iterable[Input], restarted: Restarted) -> None:
        """Restore presence and what sessions missed, without deliveries."""
        untold = EngineStep(0.0)
        for value in standing:
            if isinstance(value, Presence):
                session = value.session or value.node
                if value.here:
                    self._subscriptions.present.add(session)
                else:
                    self._lose(session)
            elif isinstance(value, Undelivered):
                self.miss(value, untold)
        self._uncertain.update(filter(self._shard.has, restarted.sessions))
        self._subscriptions.away.update(self._uncertain)
        self._replays_go_on = restarted.replays_go_on

    def leave(self, each: Left, step: EngineStep) -> None:
        """End a session: drop its subscriptions, announcements and delivery state."""
        session = each.session or each.node
        self._silence.end(each.node, session, step)
        self._subscriptions.leave(session)
        self._subscriptions.present.discard(session)
        self._subscriptions.away.discard(session)
        self._uncertain.discard(session)
        self._recent.refresh()
        self._live.forget(session)
        self._announcements.leave(session)
        self._contexts.leave(session)

    def _return(self, session: str, outcome: Outcome) -> None:
        """Deliver the live events that a session missed while it had no connection."""
        if session not in self._uncertain:
            self._live_delivery.bring_missed(session, outcome)
            return
        self._uncertain.discard(session)
        if self._replays_go_on:
            self._live_delivery.bring_unseen(session, outcome)
        else:
            self._live.missed_by(session)
            self._live_delivery.bring(session, self._met_by(session), outcome)

    def _met_by(self, session: str) -> I32:
        """Rows of live events that a session's subscriptions match now, oldest version first.

        As releases decided that lost the end of a replay.
        """
        found: list[I32] = [np.zeros(0, np.int32)]
        for name in self._subscriptions.of_session(session):
            each = self._subscriptions.by_id[name]
            if each.group is None:
                number = self._subscriptions.number(each.id)
                if each.plain:
                    found.append(self._live.met_plainly(number, each.subject))
                else:
                    found.append(self._matcher.live_matches([number], (), [each.owner]).row)
        return self._matcher.live.in_order(np.unique(np.concatenate(found)))


def _node_of(session: str) -> str:
    """The node that a session belongs to."""
    return session.partition("~")[0]
