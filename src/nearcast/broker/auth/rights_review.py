"""Review of permissions: what rules no longer allow ends at once, and its owner is notified.

Done for every session when rules or users change and after a restart, and for one session when its
client connects. A subscription that is no longer allowed ends as if its client had ended it: the
engine gets an ordinary, recorded input, so deliveries need not check rules.

What was published while it was allowed stays: retained messages, live events, places and watched
areas. Who may read them depends on the subscriptions.
"""

from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from nearcast.broker.auth.count_rights import renew_counts
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.subscribe import NAMED
from nearcast.broker.sessions.outbound_message import QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.errors import ErrorReports
from nearcast.broker.situation.node_topics import AREAS, NEEDED_SIGHT
from nearcast.broker.situation.node_topics import PREFIX as NODES
from nearcast.broker.situation.relationship_topics import RELATE, members_told
from nearcast.broker.situation.topic_names import ERRORS, INTERNAL, PRIVATE
from nearcast.core.matching.index.patterns import Patterns
from nearcast.core.model.inputs import Unsubscribed
from nearcast.core.model.subject import subject_matches
from nearcast.store import SubscriptionDropped
from nearcast.wire.mqtt import parse_filter

MOST_NOTICES = 20
"""The maximum of notices per review, and of notices kept for a disconnected client."""
_MORE = "more than this ended by rules or was dropped"


class RightsReview:
    """Ends subscriptions and drops messages that are no longer allowed."""

    def __init__(self, state: BrokerState, errors: ErrorReports) -> None:
        self._state = state
        self._errors = errors

    def review(self, session: Session, notices: list[tuple[str, str]]) -> None:
        """End subscriptions and drop waiting messages that the session's permissions forbid.

        `notices` are further messages for its owner.
        """
        state, allowed = self._state, session.permissions
        ended: list[str] = []
        if not allowed.unrestricted:
            for id_, granted in list(session.granted.items()):
                wanted = granted.wanted.filter
                if wanted in PRIVATE or allowed.may_subscribe(wanted):
                    continue
                session.revoke(id_)
                state.pending.ask(Unsubscribed(id_))
                if session.durable:
                    key = granted.id_of(session.client_id).key
                    state.journal.note(SubscriptionDropped(session.client_id, key))
                state.counters["revoked_subscriptions"] += 1
                ended.append(parse_filter(wanted).pattern)
                sent_to = wanted if granted.name is None else f"{NAMED}{granted.name}"
                why = f"a rule forbids subscribing to {wanted!r}: the subscription ended"
                notices.append((sent_to, why))
        renew_counts(state, session)
        restricted = state.engine.matcher.sight.restricted
        if session.has_messages and (restricted or not allowed.unrestricted):
            self._drop_messages(session, ended, notices)
        if notices:
            self._notify(session, notices)

    def tell_waiting(self, session: Session) -> bool:
        """Send a connected client its pending notices; return whether there were any."""
        if not session.notices or session.granted_filter(ERRORS) is None:
            return False
        for topic, why in session.notices:
            self._errors.tell(session, topic, why)
        session.notices = ()
        return True

    def _drop_messages(
        self, session: Session, ended: list[str], notices: list[tuple[str, str]]
    ) -> None:
        lost = self._lost_topics(session, ended)
        is_connected = session.connection is not None
        topics: list[str] = []

        def unwanted(delivery: QueuedDelivery) -> bool:
            if is_connected and delivery.was_sent:
                # Already sent. If it has to be sent again, it is checked then.
                return False
            frame = delivery.message.frame
            if frame.topic.startswith(INTERNAL):
                return False
            if not lost(frame.topic) and self._may_witness(session, frame.topic, frame.payload):
                return False
            topics.append(frame.topic)
            return True

        dropped = session.drop(unwanted, self._state.journal)
        if dropped:
            self._state.counters["dropped_by_rules"] += dropped
            were = "message that waited was" if dropped == 1 else "messages that waited were"
            notices.append((topics[0], f"rules changed: {dropped} {were} dropped"))

    def _lost_topics(self, session: Session, ended: list[str]) -> Callable[[str], bool]:
        """Return a function that tells by topic whether a message was only for ended subscriptions.

        A message that matches no subscription, ended or not, is checked against the permissions for
        its topic.
        """
        remaining, answers = Patterns(), dict[str, bool]()
        for granted in session.granted.values():
            remaining.acquire(parse_filter(granted.wanted.filter).pattern)

        def lost(topic: str) -> bool:
            answer = answers.get(topic)
            if answer is None:
                answer = answers[topic] = not remaining.matching(topic) and (
                    any(subject_matches(each, topic) for each in ended)
                    or not session.permissions.may_subscribe(topic)
                )
            return answer

        return lost

    def _may_witness(self, session: Session, topic: str, payload: bytes) -> bool:
        """Return whether a session may still see the node that a message is about."""
        engine, viewer = self._state.engine, session.node
        if topic.startswith(NODES):
            node, _, what = topic[len(NODES) :].partition("/")
            needed = NEEDED_SIGHT.get(what, 0)
            return engine.matcher.world.may_see(viewer, unquote(node)) & needed == needed
        if topic.startswith(AREAS):
            try:
                document = msgspec.json.decode(payload, type=dict[str, object])
            except msgspec.DecodeError:
                return False
            # In an envelope the payload is a member.
            inner = document.get("payload", document)
            seen = inner.get("node") if isinstance(inner, dict) else None
            return isinstance(seen, str) and engine.rights.may_witness(viewer, seen)
        if topic.startswith(RELATE):
            return all(engine.rights.may_witness(viewer, str(e)) for e in members_told(payload))
        return True

    def _notify(self, session: Session, notices: list[tuple[str, str]]) -> None:
        """Notify the owner of a session, now or when it reconnects."""
        if session.reader is not None:
            for _, why in notices:
                session.reader.tell(why)
            return
        if session.connection is None:
            notices = [*session.notices, *notices]
        if len(notices) > MOST_NOTICES:
            notices = [*notices[: MOST_NOTICES - 1], ("", _MORE)]
        if session.connection is None:
            session.notices = tuple(notices)
            return
        for topic, why in notices:
            self._errors.tell(session, topic, why)
