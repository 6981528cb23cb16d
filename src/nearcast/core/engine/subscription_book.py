"""The book of subscriptions: whose they are, and which copies of an event their matches make.

One copy per event and session, however many of its subscriptions fit: best priority, all of
them named. Of a shared group one member gets a copy of its own, in turn, those that are present
before those that are away.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from nearcast.core.engine.copies import (
    Copies,
    Draft,
    drafted,
    find_duplicates,
    gathered,
    one_by_one,
)
from nearcast.core.engine.fan import Fan, Spread, SubscriptionEntry, fans_of
from nearcast.core.engine.live_book import Met
from nearcast.core.engine.routes import Routes
from nearcast.core.engine.string_pair_table import StringPairTable
from nearcast.core.engine.subscription_mobility import anchor_of, is_still
from nearcast.core.matching.matcher import Matcher, Matches
from nearcast.core.matching.tables import I32
from nearcast.core.model.event import Delivery, Event, Subscription
from nearcast.core.model.event_batch import EventBatch

NODES = "$node/"
SEVERAL = 4
"""So many events are worth going through them session by session."""


class SubscriptionBook:
    """Subscriptions by id, by number in the matcher and by session."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self.by_id: dict[str, Subscription] = {}
        self.routes = Routes()
        self.present: set[str] = set()
        """Sessions that have a connection."""
        self.away: set[str] = set()
        """Sessions that had one, and have lost it."""
        self.readers = 0
        """How many of them are to what is known of nodes."""
        self._numbers: dict[str, int] = {}
        self._filed: list[SubscriptionEntry | None] = []
        """By number."""
        self._owners = np.zeros(0, np.int32)
        """By number, which session it is of; negative if it shares a group."""
        self._not_own = np.zeros(0, np.bool_)
        """By number, whether what its session publishes is not for it."""
        self._owner_rows: dict[str, int] = {}
        self._owners_made = 0
        self._shared = 0
        self._no_local = 0
        self._crowded = 0
        """How many sessions have more than one of them."""
        self._of_session: dict[str, dict[str, None]] = {}
        self._turns: dict[tuple[str, str], int] = {}
        self.aimed: set[int] = set()
        """Numbers of those to which a move of their node brings only what has a target."""
        self._following: dict[str, dict[str, None]] = {}
        """Subscriptions whose area moves with another node, by that node."""
        self._words: StringPairTable | None = None

    def add(self, subscriptions: Sequence[Subscription]) -> list[int]:
        """File subscriptions in place of those with the same ids; their numbers."""
        self.drop([each.id for each in subscriptions if each.id in self.by_id])
        numbers: list[int] = self._matcher.add_many(subscriptions).tolist()
        for subscription, number in zip(subscriptions, numbers, strict=True):
            self.by_id[subscription.id] = subscription
            self._numbers[subscription.id] = number
            self._file(number, subscription)
            self.routes.add(subscription)
            self.readers += subscription.subject.startswith(NODES)
            if is_still(subscription):
                self.aimed.add(number)
            if (anchor := anchor_of(subscription)) is not None:
                self._following.setdefault(anchor, {})[subscription.id] = None
        return numbers

    def drop(self, ids: Sequence[str]) -> None:
        """Take subscriptions out, those that are there."""
        gone = [name for name in ids if name in self.by_id]
        if not gone:
            return
        self._matcher.remove_many(np.array([self._numbers[name] for name in gone], np.int32))
        for name in gone:
            subscription = self.by_id.pop(name)
            number = self._numbers.pop(name)
            self._filed[number] = None
            self._shared -= subscription.group is not None
            self._no_local -= subscription.no_local
            self.aimed.discard(number)
            self.routes.remove(subscription)
            self.readers -= subscription.subject.startswith(NODES)
            own = self._of_session[subscription.owner]
            del own[name]
            self._crowded -= len(own) == 1
            if not own:
                del self._of_session[subscription.owner]
                del self._owner_rows[subscription.owner]
            if subscription.group is not None:
                self._turns.pop((subscription.group, subscription.subject), None)
            if (anchor := anchor_of(subscription)) is not None:
                following = self._following[anchor]
                del following[name]
                if not following:
                    del self._following[anchor]

    def _file(self, number: int, subscription: Subscription) -> None:
        if number >= len(self._filed):
            most = max(64, 2 * number + 2)
            self._filed += [None] * (most - len(self._filed))
            self._owners = np.resize(self._owners, most)
            self._not_own = np.resize(self._not_own, most)
        self._filed[number] = SubscriptionEntry(subscription)
        owner = subscription.owner
        if self._words is not None:
            self._words.put(number, (owner, subscription.id))
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

    def number(self, name: str) -> int:
        """The number of a subscription in the matcher."""
        return self._numbers[name]

    def at(self, number: int) -> Subscription:
        """The subscription that has a number in the matcher."""
        filed = self._filed[number]
        assert filed is not None
        return filed.subscription

    @property
    def words(self) -> StringPairTable:
        """Session and id of subscriptions by number; kept true from the first time on."""
        if self._words is None:
            self._words = StringPairTable(
                [("", "") if each is None else (each.owner, each.id) for each in self._filed]
            )
        return self._words

    @property
    def takes_turns(self) -> bool:
        """Whether some share a group, so that the next event is for another of them."""
        return self._shared > 0

    def following(self, node: str) -> list[str]:
        """The ids of subscriptions whose area moves with a node that is not their own."""
        return list(self._following.get(node, ()))

    def reaches_nobody(self, delivery: Delivery) -> bool:
        """Whether a delivery is lost: of QoS 0, for one who is away."""
        if delivery.owner not in self.away:
            return False
        wanted = [self.by_id[name] for name in delivery.subscriptions]
        return not delivery.event.qos or not any(each.qos for each in wanted)

    def is_shared(self, delivery: Delivery) -> bool:
        """Whether a delivery is the copy of a group."""
        return self.by_id[delivery.subscriptions[0]].group is not None

    def is_plain(self, delivery: Delivery) -> bool:
        """Whether a delivery is what any MQTT broker makes: nothing but its subject decided."""
        wanted = [self.by_id[name] for name in delivery.subscriptions]
        return delivery.event.to is None and all(each.plain for each in wanted)

    def of_session(self, session: str) -> list[str]:
        """The ids of a session's subscriptions."""
        return list(self._of_session.get(session, ()))

    def sent(self, events: Sequence[Event], matches: Matches) -> list[Spread | Fan | Delivery]:
        """What goes out for the matches of a batch, in the order of the events."""
        if self._no_local:
            origins = self._rows_of(event.origin for event in events)
            matches = self._for_others(origins, matches)
        if not len(matches.event):
            return []
        draft = drafted(*matches)
        owners = self._owners[draft.number]
        apart = self._apart(draft, owners)
        apart.update(place for place, event in enumerate(events) if event.stays)
        if not apart and len(events) >= SEVERAL:
            return [Spread(events, draft, self._filed, owners)]
        odd = {id(events[place]) for place in apart}
        sent: list[Spread | Fan | Delivery] = []
        waiting: list[Met] = []
        for fan in fans_of(events, draft, self._filed):
            event = fan.event
            if waiting and waiting[0][0] is not event:
                sent += self.copies(waiting)
                waiting = []
            if id(event) in odd:
                waiting += ((event, self._numbers[each.id], fan.priority) for each in fan.filed)
            else:
                sent.append(fan)
        return sent + self.copies(waiting)

    def sent_columns(self, batch: EventBatch, matches: Matches) -> Copies:
        """The same as columns, for events that do not stay and are of their nodes' own sessions."""
        if self._no_local:
            origins = self._rows_of(batch.publishers)[batch.publisher]
            matches = self._for_others(origins, matches)
        draft = drafted(*matches)
        shared = draft.event[self._owners[draft.number] < 0] if self._shared else ()
        if not len(shared):
            return self._gathered(draft).copies()
        # Whose turn it is follows from the events before.
        turning = np.zeros(len(batch), np.bool_)
        turning[shared] = True
        rest = self._gathered(draft.of(~turning[draft.event]))
        turns = one_by_one(draft.of(turning[draft.event]), batch, self.copies, self.number)
        return rest.joined(turns).copies()

    def _gathered(self, draft: Draft) -> Draft:
        return gathered(draft, self._owners[draft.number]) if self._crowded else draft

    def _rows_of(self, sessions: Iterable[str]) -> I32:
        return np.array([self._owner_rows.get(each, 0) for each in sessions], np.int32)

    def _for_others(self, origins: I32, matches: Matches) -> Matches:
        """Matches but those of sessions that do not want what they publish themselves.

        `origins` are the sessions of the events.
        """
        own = self._owners[matches.subscription] == origins[matches.event]
        others = ~(own & self._not_own[matches.subscription])
        return Matches(*(column[others] for column in matches))

    def _apart(self, draft: Draft, owners: I32) -> set[int]:
        """The places of events that a fan does not do for.

        One goes to a shared group, or fits two wishes of one session.
        """
        found: set[int] = set()
        if self._shared:
            found.update(draft.event[owners < 0].tolist())
        if self._crowded:
            crowded = np.zeros(int(draft.event[-1]) + 1, np.bool_)
            if find_duplicates(draft.event, np.abs(owners), crowded):
                found.update(np.flatnonzero(crowded).tolist())
        return found

    def copies(self, found: Iterable[Met], replayed: bool = False) -> list[Delivery]:
        """What goes out for these matches, in the order of the events.

        What was there before is for everyone alone: a shared group has had its copy.
        """
        copies: dict[tuple[int, str], Delivery] = {}
        shared: dict[tuple[int, str, str], list[tuple[Event, Subscription, int]]] = {}
        for event, number, priority in found:
            filed = self._filed[number]
            assert filed is not None
            subscription = filed.subscription
            owner = subscription.owner
            if subscription.group is not None:
                if replayed:
                    continue
                members = (id(event), subscription.group, subscription.subject)
                shared.setdefault(members, []).append((event, subscription, priority))
                continue
            if subscription.no_local and owner == event.origin:
                continue
            at = (id(event), owner)
            copy = copies.get(at)
            copies[at] = (
                _copy(event, subscription, priority, replayed)
                if copy is None
                else replace(
                    copy,
                    subscriptions=(*copy.subscriptions, subscription.id),
                    priority=min(copy.priority, priority),
                )
            )
        if not shared:
            return list(copies.values())
        chosen = [self._chosen(*group[1:], members) for group, members in shared.items()]
        return list(copies.values()) + chosen

    def _chosen(
        self, group: str, pattern: str, members: list[tuple[Event, Subscription, int]]
    ) -> Delivery:
        here = [each for each in members if each[1].owner in self.present] or members
        here.sort(key=lambda each: each[1].owner)
        turn = self._turns.get((group, pattern), 0)
        self._turns[group, pattern] = turn + 1
        return _copy(*here[turn % len(here)])


def _copy(
    event: Event, subscription: Subscription, priority: int, replayed: bool = False
) -> Delivery:
    node, session = subscription.node, subscription.session
    return Delivery(event, node, (subscription.id,), priority, session, replayed)
