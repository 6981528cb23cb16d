"""Attending: sessions come, are away and leave.

Who comes back gets what is live and went out while it was away, and whose queue was full gets it
when there is room. Of a session from before a restart nobody knows what it missed: it gets all
that concerns it and that it has not seen.
"""

from collections.abc import Iterable

from nearcast.core.engine.books.live_book import Met
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers
from nearcast.core.matching.reference import decide
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, Left, Presence, QueueDrained, Undelivered


class SessionPresence:
    """Knows which sessions are there."""

    def __init__(self, state: EngineState) -> None:
        self._world = state.matcher.world
        self._announcements = state.announcements
        self._live = state.live
        self._subscriptions = state.subscriptions
        self._recent = state.recent
        self._live_delivery = state.live_delivery
        self._uncertain: set[str] = set()
        """Sessions from before: nobody knows what they missed."""
        self.handlers: Handlers = {
            Presence: self.be_present,
            Undelivered: self.miss,
            QueueDrained: self.catch_up,
            Left: self.leave,
        }

    def be_present(self, each: Presence, step: EngineStep) -> None:
        """A session has a connection, or lost it."""
        session = each.session or each.node
        if each.here:
            self._subscriptions.present.add(session)
            self._subscriptions.away.discard(session)
            self._live_delivery.deliver_live(self._missed_by(session), step.outcome)
        else:
            self._subscriptions.present.discard(session)
            self._subscriptions.away.add(session)

    def miss(self, each: Undelivered, step: EngineStep) -> None:
        """A session did not get what was for it."""
        for key, name in each.live:
            self._live.miss(key, name, each.session or each.node)

    def catch_up(self, each: QueueDrained, step: EngineStep) -> None:
        """A session gets what it did not get before."""
        met = self._missed_by(each.session or each.node)
        self._live_delivery.deliver_live(met, step.outcome)

    def resume(self, standing: Iterable[Input]) -> None:
        """Sessions of another are there, or away, telling nobody."""
        untold = EngineStep(0.0)
        for value in standing:
            if isinstance(value, Presence):
                self.be_present(value, untold)
                self._uncertain.add(value.session or value.node)

    def leave(self, each: Left, step: EngineStep) -> None:
        """A session ended."""
        session = each.session or each.node
        self._subscriptions.drop(self._subscriptions.of_session(session))
        self._subscriptions.present.discard(session)
        self._subscriptions.away.discard(session)
        self._uncertain.discard(session)
        self._recent.refresh()
        self._live.forget(session)
        self._announcements.leave(session)

    def _missed_by(self, session: str) -> list[Met]:
        """What a session that comes back did not get while it was away, as it matches now."""
        wanted = [
            self._subscriptions.by_id[name] for name in self._subscriptions.of_session(session)
        ]
        missed = self._live.missed_by(session)
        if session in self._uncertain:
            self._uncertain.discard(session)
            missed = self._all_met_by(wanted)
        found: list[Met] = []
        for event in missed:
            for each in wanted:
                priority = decide(event, each, self._world).priority
                if priority is not None:
                    found.append((event, self._subscriptions.number(each.id), priority))
        return found

    def _all_met_by(self, wanted: Iterable[Subscription]) -> list[Event]:
        """Live events that concern any of these subscriptions now."""
        found: list[Event] = []
        for each in wanted:
            if each.group is None:
                number = self._subscriptions.number(each.id)
                plainly = self._live.met_plainly(number, each.subject)
                met = plainly if each.plain else self._live_delivery.met_by_one(each.id)
                found += (event for event, _, _ in met)
        return self._live.in_order(found)
