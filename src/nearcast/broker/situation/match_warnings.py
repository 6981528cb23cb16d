"""Warnings about subscriptions that can match nothing because something is missing.

Known problems are in the SUBACK. Later ones are sent to `$me/errors`, so only subscriptions of
sessions subscribed to it are watched: they are found by the node or the place that they need when
it is lost, without any work before. Once a subscription can match, nothing is reported.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from nearcast.broker.auth.rules.topic_patterns import levels_of, overlaps
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.nc_properties import SubscriptionOptions
from nearcast.broker.situation.topic_names import ERRORS
from nearcast.core.engine.engine import Outcome
from nearcast.core.engine.queries.attribute_watch import ENOUGH
from nearcast.core.engine.queries.unmet_needs import (
    needed_nodes,
    needs_place,
    unmet_area,
    unmet_needs,
)
from nearcast.core.gathering.needs.aggregability import parse_aggregability
from nearcast.core.language.quoted_names import advice_on, likely_values
from nearcast.core.model.event import Announcement, Subscription
from nearcast.core.model.geometry.area import Area, Around, PlaceHere
from nearcast.core.model.inputs import (
    Announced,
    Input,
    Left,
    PlaceDefined,
    Presence,
    RulesSet,
    Subscribed,
    Unsubscribed,
)
from nearcast.core.model.visibility import SEE_WHERE_NAMED

SETTLE_S = 5.0
"""How long a client that reconnects has to send its position before it is warned."""
MOST_NAMED = 5
MOST_DUE = 10_000
"""The maximum of scheduled warnings; further ones are dropped."""
NAMED = "$me/subscriptions/"


class _Watched(NamedTuple):
    """A subscription of a session that is subscribed to errors."""

    owner: str
    node: str
    nodes: tuple[str, ...]
    """The nodes that it needs."""


class MatchWarnings(OutcomeFollower):
    """Decides which sessions to warn, and when."""

    def __init__(self, state: BrokerState, driver: EngineDriver, errors: ErrorReports) -> None:
        self._state = state
        self._driver = driver
        self._errors = errors
        self._watched: dict[str, _Watched] = {}
        self._by_node: dict[str, set[str]] = {}
        self._by_place: set[str] = set()
        self._of_session: dict[str, set[str]] = {}
        self._due: list[tuple[float, str]] = []
        self._unsaid: dict[str, str] = {}
        """Scheduled subscriptions, with the warning if it need not be checked again."""

    # Known at subscribe time

    def known_now(self, wanted: Sequence[Subscription], options: SubscriptionOptions) -> list[str]:
        """Return why subscriptions of one packet can match nothing; the engine is up to date."""
        found = list(dict.fromkeys(filter(None, map(self._unasked_function, wanted))))
        if options.where is None and options.from_ is None:
            return found
        texts = dict(options.texts)
        found += [advice_on(name) for name in likely_values(texts.get("where", ""))[:MOST_NAMED]]
        world = self._state.engine.matcher.world
        for each in wanted:
            found += [why for why in unmet_needs(each, world) if why not in found]
        return found

    def _unasked_function(self, wanted: Subscription) -> str | None:
        """Return the warning that the function of a subscription is not asked about some events."""
        if not wanted.aggregate or parse_aggregability(wanted.aggregate).by_function is None:
            return None
        levels = levels_of(wanted.subject)
        for pattern, elsewhere in self._state.engine.settings.elsewhere:
            if elsewhere and overlaps(levels, levels_of(pattern)):
                return (
                    f"events on {pattern} are decided in the pipeline, where no function is asked: "
                    "they leave after the `wait` of `aggregate`"
                )
        return None

    def tell(self, session: Session, id_: str, why: Iterable[str], now: float) -> None:
        """Report on `$me/errors` the warnings that a SUBACK could not carry."""
        text = "; ".join(why)
        if text:
            self._say(session, id_, text, now)

    def listen(self, session: Session, now: float) -> None:
        """Report the current problems to a client that subscribed to errors."""
        self._driver.step(now)
        self._check(self._add_all(session), now)

    def warn(self, session: Session, topic: str, why: str, now: float) -> None:
        """Warn of a message without effect, within the rate limit."""
        self._errors.warn(session, topic, why, now)

    def check_target(self, session: Session, topic: str, area: Area, now: float) -> None:
        """Warn of a target area that is empty because a position is missing."""
        if session.granted_filter(ERRORS) is None or not isinstance(area, Around | PlaceHere):
            return
        # Apply earlier inputs first.
        self._driver.step(now)
        self._warn_of_target(session, topic, area, now)

    # Problems that arise later

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Check which subscriptions lost something in a step; `others` has no events or moves."""
        for value in others:
            if isinstance(value, Subscribed):
                self._add(value.subscription)
            elif isinstance(value, Unsubscribed):
                self._drop(value.id)
            elif isinstance(value, Left):
                for name in list(self._of_session.get(value.session or value.node, ())):
                    self._drop(name)
            elif isinstance(value, Presence) and value.here:
                session = self._state.sessions.get(value.session or value.node)
                for name in () if session is None else self._add_all(session):
                    self._schedule(name, now + SETTLE_S)
            elif isinstance(value, PlaceDefined) and value.geometry is None:
                self._check(self._by_place, now)
            elif isinstance(value, RulesSet):
                self.rules_changed(now)
            elif isinstance(value, Announced):
                self._announced(value.announcement, now)
        if self._by_node:
            for changed in outcome.node_changes:
                if changed.by_move or changed.before.position is None:
                    continue
                if changed.state is None or changed.state.position is None:
                    self._lost(changed.node, now)
        if not self._watched:
            return
        for name, unseen in self._state.engine.attribute_watch.take():
            self._never_seen(name, unseen, now)

    def rules_changed(self, now: float) -> None:
        """Check the watched subscriptions after a change of the sight rules."""
        self._check([name for name, each in self._watched.items() if each.nodes], now)

    def remind(self, now: float) -> None:
        """Send delayed warnings that still apply."""
        while self._due and self._due[0][0] <= now:
            _, name = heapq.heappop(self._due)
            unsaid = self._unsaid.pop(name)
            if unsaid and name in self._watched:
                self._tell(name, unsaid, now)
            else:
                self._check((name,), now)

    def next_timer(self) -> float | None:
        """The time of the next scheduled warning."""
        return self._due[0][0] if self._due else None

    def _add_all(self, session: Session) -> list[str]:
        """Watch all subscriptions of a session that is subscribed to errors."""
        subscriptions = self._state.engine.subscriptions
        found = [subscriptions[name] for name in session.granted if name in subscriptions]
        for each in found:
            self._add(each)
        return [each.id for each in found if each.id in self._watched]

    def _add(self, subscription: Subscription) -> None:
        """Watch a subscription if its session is subscribed to errors."""
        name, owner = subscription.id, subscription.owner
        self._drop(name)
        session = self._state.sessions.get(owner)
        if session is None or session.granted_filter(ERRORS) is None:
            return
        if subscription.where is None and subscription.from_ is None:
            return
        nodes = needed_nodes(subscription)
        self._watched[name] = _Watched(owner, subscription.node, nodes)
        self._of_session.setdefault(owner, set()).add(name)
        for node in nodes:
            self._by_node.setdefault(node, set()).add(name)
        if needs_place(subscription):
            self._by_place.add(name)
        self._state.engine.attribute_watch.add(subscription)

    def _drop(self, name: str) -> None:
        watched = self._watched.pop(name, None)
        if watched is None:
            return
        self._state.engine.attribute_watch.remove(name)
        self._by_place.discard(name)
        by_node = ((self._by_node, node) for node in watched.nodes)
        for index, key in ((self._of_session, watched.owner), *by_node):
            names = index[key]
            names.discard(name)
            if not names:
                del index[key]

    def _announced(self, announcement: Announcement, now: float) -> None:
        session = self._state.sessions.get(announcement.owner)
        in_force = self._state.engine.announcements.get((announcement.node, announcement.subject))
        listens = session is not None and session.granted_filter(ERRORS) is not None
        if session is not None and listens and in_force is announcement:
            topic = f"$me/announcements/{announcement.subject}"
            self._warn_of_target(session, topic, announcement.to, now)

    def _warn_of_target(self, session: Session, topic: str, area: Area, now: float) -> None:
        why = unmet_area(area, session.node, self._state.engine.matcher.world)
        if why is not None:
            self.warn(session, topic, f"{why}: `to` holds nobody", now)

    def _lost(self, node: str, now: float) -> None:
        """Warn subscriptions that need the position of a node that is no longer known."""
        world = self._state.engine.matcher.world
        # A subscriber that may not see the node must not learn of the loss either.
        names = [
            name
            for name in self._by_node.get(node, ())
            if (mine := self._watched[name].node) == node
            or world.may_see(mine, node) & SEE_WHERE_NAMED == SEE_WHERE_NAMED
        ]
        self._check(names, now)

    def _never_seen(self, name: str, unseen: Sequence[str], now: float) -> None:
        names = ", ".join(repr(each) for each in unseen[:MOST_NAMED])
        hint = next((f" ({advice_on(each)})" for each in unseen if not each.isidentifier()), "")
        self._tell(
            name,
            f"none of {ENOUGH} events that you could have got had {names}: nothing can match "
            f"`where`{hint}",
            now,
        )

    def _check(self, names: Iterable[str], now: float) -> None:
        """Warn of those of the subscriptions that can match nothing."""
        engine = self._state.engine
        for name in list(names):
            subscription = engine.subscriptions.get(name)
            if subscription is None:
                self._drop(name)
            elif why := unmet_needs(subscription, engine.matcher.world):
                self._tell(name, "; ".join(why), now, again=True)

    def _tell(self, name: str, why: str, now: float, again: bool = False) -> None:
        subscription = self._state.engine.subscriptions.get(name)
        session = None if subscription is None else self._state.sessions.get(subscription.owner)
        if session is not None:
            self._say(session, name, why, now, again)

    def _say(self, session: Session, name: str, why: str, now: float, again: bool = True) -> None:
        """Warn now, or as soon as allowed; `again`: check it again then."""
        granted = session.granted.get(name)
        if granted is None:
            return
        topic = granted.wanted.filter if granted.name is None else f"{NAMED}{granted.name}"
        later = self._errors.warn(session, topic, why, now)
        if later is not None and name in self._watched:
            self._schedule(name, later, "" if again else why)

    def _schedule(self, name: str, at: float, why: str = "") -> None:
        if name in self._unsaid:
            self._unsaid[name] = self._unsaid[name] or why
        elif len(self._due) < MOST_DUE:
            self._unsaid[name] = why
            heapq.heappush(self._due, (at, name))
