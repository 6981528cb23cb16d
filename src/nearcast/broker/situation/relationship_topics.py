"""Relationships: their states are told on `$relate/NAME`, like retained messages.

A reader is told if it may see all members, and only what is news to it: near and apart alternate
for every reader, also for one from whom members were hidden for a time. What a reader was told last
is the state, except for readers that are remembered because they were not told of it. The store
keeps a relationship with its states, so that they outlive the broker.
"""

from collections.abc import Iterable, Sequence

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.metadata import time_text
from nearcast.broker.situation.topic_names import normalize_topic
from nearcast.broker.situation.topic_readers import TopicReaders
from nearcast.core.engine.engine import Outcome
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, Left, RelationshipEnded, Subscribed
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import subject_matches
from nearcast.store import standing_change

RELATE = "$relate/"
MOST_REPLAYED = 10_000
_Key = tuple[str, str]
"""The name of a relationship, and the member by whose metres it is judged, or nothing."""


class RelationshipTopics(OutcomeFollower):
    """Publishes states of relationships to readers, and keeps them in the store."""

    def __init__(self, state: BrokerState, readers: TopicReaders) -> None:
        self._state = state
        self._readers = readers
        self._names: dict[str, str] | None = None
        """Names of relationships by their normalized topics."""
        self._behind: dict[_Key, dict[str, bool | None]] = {}
        """What sessions were told last that were not told of the present state; None: nothing."""
        self._behind_of: dict[str, set[_Key]] = {}
        self._known: set[str] = set()
        """Sessions that subscribed since the start; what others were told is not known."""

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Tell readers of the states that changed in a step, and new ones of those of now."""
        notices = [each for each in outcome.notices if isinstance(each, RelationshipNotice)]
        for notice in notices:
            self._index(notice)
        newly: dict[str, list[str]] = {}
        """Topic filters of sessions that got the states of now in this step."""
        for value in others:
            if isinstance(value, Subscribed) and value.subscription.subject.startswith(RELATE):
                wanted = value.subscription
                if wanted.group is None:
                    self._begin(wanted, value.replay)
                    newly.setdefault(wanted.owner, []).append(wanted.subject)
            elif isinstance(value, Left):
                self._leave(value.session or value.node)
        if notices:
            self._keep(notices)
            last = {(each.relationship, each.by): each for each in notices}
            ended: set[tuple[str, str]] = set()
            for notice in notices:
                if notice.ended:
                    self._tell_end(notice, ended)
                else:
                    is_last = notice is last[notice.relationship, notice.by]
                    self._tell(notice, is_last, newly)

    # The states of now

    def _begin(self, wanted: Subscription, replay: bool) -> None:
        """Send a new subscriber the states of the relationships whose members it may see."""
        session = self._state.sessions.get(wanted.owner)
        if session is None:
            return
        self._known.add(session.client_id)
        engine = self._state.engine
        for topic, name in self._matching(wanted.subject):
            found = engine.relationship(name)
            defined = found.defined
            sees = self._sees_all(session, defined.members, defined.needed_sight)
            for number, state in enumerate(found.states):
                by = defined.members[number] if defined.metres else ""
                if not sees or state.veiled or not replay:
                    self._note((name, by), session, None)
                    continue
                self._drop((name, by), session)
                payload = _payload(
                    state.near, defined.members, found.distance(number), state.since, by
                )
                event = _event(topic, payload, state.since)
                self._readers.put(session, [wanted], event, True, f"{RELATE}{name}")

    def _matching(self, pattern: str) -> Iterable[tuple[str, str]]:
        """The topics that a filter matches, with the names of their relationships."""
        names = self._names_by_topic()
        if "+" not in pattern and "#" not in pattern:
            name = names.get(pattern)
            return () if name is None else ((pattern, name),)
        found = [each for each in names.items() if subject_matches(pattern, each[0])]
        return found[:MOST_REPLAYED]

    # Changes

    def _tell(self, notice: RelationshipNotice, is_last: bool, newly: dict[str, list[str]]) -> None:
        """Tell readers of a state, if it is news to them."""
        key = notice.relationship, notice.by
        if notice.veiled or (notice.is_old and key not in self._behind):
            return
        written = f"{RELATE}{notice.relationship}"
        topic = normalize_topic(written)
        rights, event = self._state.engine.rights, None
        for session, wanted in self._readers.of(topic):
            client = session.client_id
            if any(subject_matches(each, topic) for each in newly.get(client, ())):
                continue
            told = self._behind.get(key, {}).get(client, notice.before)
            sees = self._sees_all(session, notice.members, notice.sight)
            if sees and not is_last:
                # A member that has just become visible has no past.
                sees = all(rights.may_witness(session.node, each) for each in notice.members)
            if not sees:
                self._note(key, session, told)
                continue
            self._drop(key, session)
            if told != notice.near or notice.defined:
                if event is None:
                    event = self._event_of(notice, topic)
                self._readers.put(session, wanted, event, topic=written)

    def _tell_end(self, notice: RelationshipNotice, ended: set[tuple[str, str]]) -> None:
        """Tell whoever was told near that a relationship ended, once."""
        name = notice.relationship
        key = name, notice.by
        topic = normalize_topic(f"{RELATE}{name}")
        behind = self._behind.get(key, {})
        following = self._state.engine.relationships.get(name)
        payload = {"state": "apart", "ended": True, "time": time_text(notice.time)}
        event = _event(topic, payload, notice.time)
        for session, wanted in self._readers.of(topic):
            client, told = session.client_id, notice.before
            if client in behind:
                told = behind[client]
            elif client not in self._known:
                told = told and self._sees_all(session, notice.members, notice.sight)
            if not told or (name, client) in ended:
                continue
            if following is not None and self._sees_all(
                session, following.members, following.needed_sight
            ):
                # It is told the state of the one that took its place.
                continue
            ended.add((name, client))
            self._readers.put(session, wanted, event, topic=f"{RELATE}{name}")
        for client in behind:
            self._behind_of[client].discard(key)
        self._behind.pop(key, None)

    def _event_of(self, notice: RelationshipNotice, topic: str) -> Event:
        distance = notice.distance
        if notice.is_old:
            found = self._state.engine.relationship(notice.relationship)
            distance = found.distance(found.defined.members.index(notice.by) if notice.by else 0)
        payload = _payload(notice.near, notice.members, distance, notice.time, notice.by)
        return _event(topic, payload, notice.time)

    def _sees_all(self, session: Session, members: Iterable[str], needed: int) -> bool:
        may_see = self._state.engine.matcher.world.may_see
        return all(may_see(session.node, each) & needed == needed for each in members)

    # What is remembered

    def _keep(self, notices: Iterable[RelationshipNotice]) -> None:
        """Store relationships with their new states."""
        journal, book = self._state.journal, self._state.engine.relationships
        if not journal.keeps:
            return
        for name in dict.fromkeys(each.relationship for each in notices):
            found = book.get(name)
            change = standing_change(RelationshipEnded(name) if found is None else found)
            journal.note(change, sync=False)

    def _index(self, notice: RelationshipNotice) -> None:
        names = self._names_by_topic()
        topic = normalize_topic(f"{RELATE}{notice.relationship}")
        if notice.defined:
            names[topic] = notice.relationship
        elif notice.ended and self._state.engine.relationships.get(notice.relationship) is None:
            names.pop(topic, None)

    def _names_by_topic(self) -> dict[str, str]:
        if self._names is None:
            names = self._state.engine.relationships.names()
            self._names = {normalize_topic(f"{RELATE}{name}"): name for name in names}
        return self._names

    def _note(self, key: _Key, session: Session, told: bool | None) -> None:
        """Remember what a session was told, since it is not told of the present state."""
        client = session.client_id
        self._behind.setdefault(key, {})[client] = told
        self._behind_of.setdefault(client, set()).add(key)

    def _drop(self, key: _Key, session: Session) -> None:
        client = session.client_id
        behind = self._behind.get(key)
        if behind is not None and behind.pop(client, key) is not key:
            self._behind_of[client].discard(key)
            if not behind:
                del self._behind[key]

    def _leave(self, client: str) -> None:
        """Forget what a session was told."""
        self._known.discard(client)
        for key in self._behind_of.pop(client, ()):
            behind = self._behind[key]
            del behind[client]
            if not behind:
                del self._behind[key]


def members_told(payload: bytes) -> Sequence[object]:
    """Return the members that a message on `$relate/` names; the end of one names nobody."""
    try:
        document = msgspec.json.decode(payload, type=dict[str, object])
    except msgspec.DecodeError:
        return ()
    # In an envelope the payload is a member.
    inner = document.get("payload", document)
    found = inner.get("members") if isinstance(inner, dict) else None
    return found if isinstance(found, list) else ()


def _payload(
    near: bool, members: Sequence[str], distance: float | None, time: float, by: str
) -> dict[str, object]:
    payload: dict[str, object] = {
        "state": "near" if near else "apart",
        "members": members,
        "distance": distance,
        "time": time_text(time),
    }
    return {**payload, "by": by} if by else payload


def _event(topic: str, payload: dict[str, object], time: float) -> Event:
    """Return a message as an event of the broker itself."""
    encoded = msgspec.json.encode(payload)
    return Event("", topic, "", time, attributes_of(encoded), payload=encoded, qos=1)
