"""The book of subscriptions: their sessions, and the copies of an event that matches make.

One copy per event and session, however many of its subscriptions match: with the best priority,
naming all of them. In a shared group one member at a time gets a copy of its own, in rotation,
connected members before disconnected ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

import numpy as np

from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.engine.books.context_book import ContextBook
from nearcast.core.engine.books.gathering_book import GatheringBook
from nearcast.core.engine.books.subscription_mobility import anchors_of, is_still
from nearcast.core.engine.delivery.deliveries import (
    NO_OWNERS,
    Deliveries,
    Recipient,
    Rows,
    merged_copies,
    sorted_rows,
)
from nearcast.core.engine.delivery.match_order import Flags
from nearcast.core.engine.delivery.routes import Routes
from nearcast.core.engine.delivery.string_pair_table import StringPairTable
from nearcast.core.matching.matcher import NO_MATCHES, Matcher, Matches
from nearcast.core.matching.tables import I32, I64
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.event_batch import EventBatch

NODES = "$node/"


class SubscriptionBook:
    """Subscriptions by id, by number in the matcher and by session."""

    def __init__(self, matcher: Matcher, contexts: ContextBook, gathering: GatheringBook) -> None:
        self._matcher = matcher
        self._contexts = contexts
        self._gathering = gathering
        self._gathered: list[tuple[Event, I32, I32 | None]] = []
        """Matches of subscriptions that gather: event, numbers and priorities."""
        self.by_id: dict[str, Subscription] = {}
        self.routes = Routes()
        self.suspended: dict[str, Subscription] = {}
        """Subscriptions that match nothing now, by id."""
        self.present: set[str] = set()
        """Sessions that have a connection."""
        self.away: set[str] = set()
        """Sessions that lost their connection."""
        self.readers = 0
        """The number of subscriptions to node states."""
        self._numbers: dict[str, int] = {}
        self._recipients: list[Recipient | None] = []
        """By number, the recipient by that subscription alone."""
        self._owners = np.zeros(0, np.int32)
        """By number, the index of its session; negative if it shares a group."""
        self._not_own = np.zeros(0, np.bool_)
        """By number, whether it excludes events of its own session."""
        self._owner_rows: dict[str, int] = {}
        self._owners_made = 0
        self._shared = 0
        self._no_local = 0
        self._crowded = 0
        """The number of sessions with more than one subscription."""
        self._of_session: dict[str, dict[str, None]] = {}
        self.turns: dict[tuple[str, str], int] = {}
        """The number of events that each shared group has had, by group and subject."""
        self.aimed: set[int] = set()
        """Numbers of subscriptions to which a move of their node brings only events with a target.
        """
        self._following: dict[str, dict[str, None]] = {}
        """Subscriptions that follow another node, by area or filter, by that node."""
        self._weighted: dict[str, dict[str, None]] = {}
        """Ids of subscriptions with relevance, by session."""
        self._weighted_numbers: dict[str, I64] = {}
        """Their numbers, once they were asked for; as wide as indexes, which are not converted."""
        self._weighted_sessions: dict[str, dict[str, None]] = {}
        """Sessions that have some, by node."""
        self._names: StringPairTable | None = None

    def add(self, subscriptions: Sequence[Subscription]) -> list[int]:
        """Add subscriptions, replacing those with the same ids; return their numbers."""
        self.drop([each.id for each in subscriptions])
        numbers: list[int] = self._matcher.add_many(subscriptions).tolist()
        for subscription, number in zip(subscriptions, numbers, strict=True):
            self.by_id[subscription.id] = subscription
            self._numbers[subscription.id] = number
            self.routes.add(self._enter(number, subscription))
            self._gathering.add(number, subscription)
            self.readers += subscription.subject.startswith(NODES)
            if is_still(subscription):
                self.aimed.add(number)
            for anchor in anchors_of(subscription):
                self._following.setdefault(anchor, {})[subscription.id] = None
            if subscription.relevance is not None:
                self._weigh(number, subscription)
        return numbers

    def _weigh(self, number: int, subscription: Subscription) -> None:
        session, node = subscription.owner, subscription.node
        sessions = self._weighted_sessions.setdefault(node, {})
        if not sessions:
            self._contexts.classify(node)
        sessions[session] = None
        self._weighted_numbers.pop(session, None)
        self._weighted.setdefault(session, {})[subscription.id] = None
        self._matcher.priorities.set_row([number], self._contexts.row(session))

    def suspend(self, name: str) -> None:
        """Take a subscription out of matching, and remember it."""
        subscription = self.by_id.get(name)
        if subscription is not None:
            self.drop([name])
            self.suspended[name] = subscription

    def resume(self, name: str) -> Subscription | None:
        """Put a suspended subscription back; return it, None if there is none of that id."""
        subscription = self.suspended.get(name)
        if subscription is not None:
            self.add([subscription])
        return subscription

    def everyone(self) -> list[Subscription]:
        """All subscriptions, suspended ones too."""
        return [*self.by_id.values(), *self.suspended.values()]

    def drop(self, ids: Sequence[str]) -> None:
        """Remove subscriptions, suspended ones too; unknown ids are ignored."""
        if self.suspended:
            for name in ids:
                self.suspended.pop(name, None)
        gone = [name for name in ids if name in self.by_id]
        if not gone:
            return
        self._matcher.remove_many(np.array([self._numbers[name] for name in gone], np.int32))
        for name in gone:
            subscription = self.by_id.pop(name)
            number = self._numbers.pop(name)
            self._recipients[number] = None
            self._shared -= subscription.group is not None
            self._no_local -= subscription.no_local
            self.aimed.discard(number)
            self._gathering.remove(number)
            self.routes.remove(subscription)
            self.readers -= subscription.subject.startswith(NODES)
            own = self._of_session[subscription.owner]
            del own[name]
            self._crowded -= len(own) == 1
            if not own:
                del self._of_session[subscription.owner]
                del self._owner_rows[subscription.owner]
            if subscription.group is not None:
                self.turns.pop((subscription.group, subscription.subject), None)
            for anchor in anchors_of(subscription):
                following = self._following[anchor]
                del following[name]
                if not following:
                    del self._following[anchor]
            if subscription.relevance is not None:
                self._unweigh(subscription)

    def _unweigh(self, subscription: Subscription) -> None:
        session, node = subscription.owner, subscription.node
        del self._weighted[session][subscription.id]
        self._weighted_numbers.pop(session, None)
        if not self._weighted[session]:
            del self._weighted[session]
            del self._weighted_sessions[node][session]
            if not self._weighted_sessions[node]:
                del self._weighted_sessions[node]

    def weighted_of(self, session: str) -> list[str]:
        """Ids of a session's subscriptions with relevance, without suspended ones."""
        return list(self._weighted.get(session, ()))

    def weighted_numbers(self, session: str) -> I64:
        """Numbers of a session's subscriptions with relevance."""
        found = self._weighted_numbers.get(session)
        if found is None:
            names = self._weighted.get(session, ())
            found = np.array([self._numbers[name] for name in names], np.int64)
            if len(found):
                self._weighted_numbers[session] = found
        return found

    @property
    def weighted(self) -> Mapping[str, Mapping[str, None]]:
        """Ids of subscriptions with relevance, without suspended ones, by session."""
        return self._weighted

    def weighted_nodes(self) -> list[str]:
        """Nodes that have subscriptions with relevance."""
        return sorted(self._weighted_sessions)

    def weighted_sessions(self, node: str) -> list[str]:
        """Sessions of a node that have subscriptions with relevance."""
        return sorted(self._weighted_sessions.get(node, ()))

    def _enter(self, number: int, subscription: Subscription) -> Recipient:
        if number >= len(self._recipients):
            most = max(64, 2 * number + 2)
            self._recipients += [None] * (most - len(self._recipients))
            self._owners = np.resize(self._owners, most)
            self._not_own = np.resize(self._not_own, most)
        recipient = self._recipients[number] = Recipient((subscription,), (number,))
        owner = subscription.owner
        if self._names is not None:
            self._names.put(number, (owner, subscription.id))
        row = self._owner_rows.get(owner)
        if row is None:
            self._owners_made += 1
            row = self._owner_rows[owner] = self._owners_made
        self._owners[number] = row if subscription.group is None else -row
        self._not_own[number] = subscription.no_local
        self._shared += subscription.group is not None
        self._no_local += subscription.no_local
        own = self._of_session.setdefault(owner, {})
        own[subscription.id] = None
        self._crowded += len(own) == 2
        return recipient

    def number(self, name: str) -> int:
        """The number of a subscription in the matcher."""
        return self._numbers[name]

    def at(self, number: int) -> Subscription:
        """The subscription that has a number in the matcher."""
        return self._recipient(number).subscriptions[0]

    def _recipient(self, number: int) -> Recipient:
        recipient = self._recipients[number]
        assert recipient is not None
        return recipient

    @property
    def names(self) -> StringPairTable:
        """Session and id of subscriptions by number; built on first use, then kept up to date."""
        if self._names is None:
            self._names = StringPairTable(
                [
                    ("", "") if each is None else (each.owner, each.subscriptions[0].id)
                    for each in self._recipients
                ]
            )
        return self._names

    @property
    def takes_turns(self) -> bool:
        """True if some subscriptions share a group, so that deliveries depend on earlier events."""
        return self._shared > 0

    def following(self, node: str) -> list[str]:
        """Ids of subscriptions that follow a node other than their own."""
        return list(self._following.get(node, ()))

    def of_session(self, session: str) -> list[str]:
        """The ids of a session's subscriptions, without suspended ones."""
        return list(self._of_session.get(session, ()))

    def leave(self, session: str) -> None:
        """Remove all subscriptions of a session."""
        suspended = [name for name, each in self.suspended.items() if each.owner == session]
        self.drop([*self.of_session(session), *suspended])

    def owner_rows(self, numbers: I32) -> I32:
        """The index of the session of each subscription."""
        return np.abs(self._owners[numbers])

    def take_evaluations(self) -> list[tuple[Subscription, int]]:
        """Return the number of predicates that each subscription had evaluated outside kernels."""
        evaluations = self._matcher.take_evaluations()
        return [] if not evaluations else self._counted(evaluations.items())

    def take_candidates(self) -> list[tuple[Subscription, int]]:
        """Return how often each subscription was compared with an event by kernels, estimated."""
        numbers, counts = self._matcher.take_candidates()
        return self._counted(zip(numbers.tolist(), counts.tolist(), strict=True))

    def _counted(self, counts: Iterable[tuple[int, int]]) -> list[tuple[Subscription, int]]:
        """Return counts by subscription, without those that are gone."""
        found = ((self._recipients[number], count) for number, count in counts)
        return [(each.subscriptions[0], count) for each, count in found if each is not None]

    def deliveries(self, events: Sequence[Event], matches: Matches) -> Deliveries:
        """Return the deliveries for the matches of events."""
        if self._no_local:
            origins = self._rows_of(event.origin for event in events)
            matches = self._for_others(origins, matches)
        if self._gathering.count:
            matches = self._without_gathered(events, matches)
        rows = self._arranged(sorted_rows(matches))
        # Resolved now, because a subscription may be dropped later in the same step.
        recipients = [self._recipients[number] for number in rows.subscription.tolist()]
        assert None not in recipients
        # With one event, copies are never grouped by session.
        owners = self._owners[rows.subscription] if len(events) > 1 else NO_OWNERS
        return Deliveries(events, rows, owners, recipients)

    def gather(self, event: Event, numbers: I32) -> None:
        """Let an event wait for subscriptions that all gather by one rule."""
        self._gathered.append((event, numbers, None))

    def take_gathered(self) -> list[tuple[Event, I32, I32 | None]]:
        """Return the matches of subscriptions that gather, since the last call.

        Each is an event with numbers of subscriptions and their priorities; None: all have one rule
        and priority 1, and their numbers ascend.
        """
        if not self._gathered:
            return []
        found, self._gathered = self._gathered, []
        return found

    def _without_gathered(self, events: Sequence[Event], matches: Matches) -> Matches:
        """Set matches of subscriptions that gather apart; withdrawals are not gathered."""
        gathers = self._gathering.gathers(matches.subscription)
        withdrawals = [at for at, event in enumerate(events) if event.valid_s == 0.0]
        if withdrawals:
            gathers &= ~np.isin(matches.event, withdrawals)
        if not gathers.any():
            return matches
        if len(events) == 1 and gathers.all():
            self._gathered.append((events[0], matches.subscription, matches.priority))
            return NO_MATCHES
        for place in np.unique(matches.event[gathers]).tolist():
            own = gathers & (matches.event == place)
            found = events[place], matches.subscription[own], matches.priority[own]
            self._gathered.append(found)
        return matches.only(~gathers)

    def separate(self, event: Event, numbers: I32, priority: int) -> Deliveries:
        """Return copies of an event for subscriptions, each a delivery of its own."""
        count = len(numbers)
        rows = Rows(
            np.zeros(count, np.int32), numbers, np.full(count, priority, np.int32),
            np.ones(count, np.bool_),
        )  # fmt: skip
        recipients = list(map(self._recipient, numbers.tolist()))
        return Deliveries([event], rows, self._owners[numbers], recipients)

    def deliveries_of_columns(self, events: Sequence[Event], batch: EventBatch) -> Deliveries:
        """Return the deliveries of events that do not stay and come from their nodes' own sessions.

        As columns only: all is decided before any subscription changes.
        """
        matches = self._matcher.match(batch)
        if self._no_local:
            origins = self._rows_of(batch.publishers)[batch.publisher]
            matches = self._for_others(origins, matches)
        rows = self._arranged(sorted_rows(matches))
        return Deliveries(events, rows, self._owners[rows.subscription])

    def deliveries_of(self, event: Event, matches: Iterable[tuple[int, int]]) -> Deliveries:
        """Return the deliveries of one event for numbers of subscriptions, with priorities."""
        columns = np.array([(0, *each) for each in matches], np.int32).reshape(-1, 3).T
        return self.deliveries([event], Matches(*columns))

    def own(self, numbers: Sequence[int]) -> list[int]:
        """Return those of the subscriptions that share no group."""
        return [number for number in numbers if self._owners[number] > 0]

    def are_own(self, numbers: I32) -> Flags:
        """Return which of the subscriptions share no group."""
        return self._owners[numbers] > 0

    def addressed(
        self,
        event: Event,
        recipients: Iterable[tuple[Sequence[str], int]],
        replayed: bool,
        bases: Mapping[str, PriorityBasis] | None = None,
    ) -> Deliveries:
        """Return the deliveries of an event matched elsewhere, by subscription ids and priority.

        `bases`: what priorities follow from, by the ids of subscriptions.
        """
        matches: list[tuple[int, int, int, bool]] = []
        for names, priority in recipients:
            numbers = [self._numbers[name] for name in names if name in self._numbers]
            matches += [(0, number, priority, not i) for i, number in enumerate(numbers)]
        place, number, level, start = np.array(matches, np.int32).reshape(-1, 4).T
        rows = Rows(place, number, level, start.astype(np.bool_))
        wanted = list(map(self._recipient, number.tolist()))
        found = Deliveries([event], rows, self._owners[number], wanted, replayed)
        found.bases = bases
        return found

    def _arranged(self, rows: Rows) -> Rows:
        """Turn matches into copies: one per session, and one per shared group in rotation."""
        if not self._shared:
            return self._merged(rows)
        shared = self._owners[rows.subscription] < 0
        if not shared.any():
            return self._merged(rows)
        chosen = self._take_turns(rows.only(shared))
        return self._merged(rows.only(~shared)).joined(chosen)

    def _merged(self, rows: Rows) -> Rows:
        return merged_copies(rows, self._owners[rows.subscription]) if self._crowded else rows

    def _take_turns(self, rows: Rows) -> Rows:
        """For each shared group and event, select the match of the member whose turn it is."""
        groups: dict[tuple[int, str, str], list[tuple[str, int]]] = {}
        wanted = zip(rows.event.tolist(), rows.subscription.tolist(), strict=True)
        for row, (place, number) in enumerate(wanted):
            subscription = self.at(number)
            assert subscription.group is not None
            group = (place, subscription.group, subscription.subject)
            groups.setdefault(group, []).append((subscription.owner, row))
        chosen = []
        for (_, *named), members in groups.items():
            here = [each for each in members if each[0] in self.present] or members
            here.sort(key=itemgetter(0))
            turn = self.turns.get((named[0], named[1]), 0)
            self.turns[named[0], named[1]] = turn + 1
            chosen.append(here[turn % len(here)][1])
        return rows.only(np.array(chosen, np.int64))

    def _rows_of(self, sessions: Iterable[str]) -> I32:
        return np.array([self._owner_rows.get(each, 0) for each in sessions], np.int32)

    def _for_others(self, origins: I32, matches: Matches) -> Matches:
        """Drop matches of sessions that do not want their own events.

        `origins` is the session of each event.
        """
        own = self._owners[matches.subscription] == origins[matches.event]
        others = ~(own & self._not_own[matches.subscription])
        return matches.only(others)
