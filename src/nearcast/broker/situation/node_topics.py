"""Topics about nodes: `$node/NODE/position`, `…/context` and `…/online`.

They behave like retained messages and change with the node; a client without permission gets
nothing. Also here: entries and exits of watched areas, on `$area/NAME`. For filters and areas of
readers such a message is an event of the node that it is about.
"""

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.outcome_follower import OutcomeFollower
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.metadata import position_text, time_text
from nearcast.broker.situation.topic_names import decode_name, normalize_topic
from nearcast.broker.situation.topic_readers import TopicReaders
from nearcast.core.engine.engine import Outcome
from nearcast.core.engine.outcome import AreaNotice
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, Presence, Subscribed
from nearcast.core.model.payload import attributes_of
from nearcast.core.model.subject import subject_matches
from nearcast.core.model.visibility import (
    SEE_ATTRIBUTES,
    SEE_IDENTITY,
    SEE_POSITION,
    SEE_WHERE_NAMED,
)

PREFIX = "$node/"
AREAS = "$area/"
MOST_REPLAYED = 10_000
POSITION, CONTEXT, ONLINE = "position", "context", "online"
NEEDED_SIGHT = {POSITION: SEE_WHERE_NAMED, CONTEXT: SEE_ATTRIBUTES, ONLINE: SEE_IDENTITY}


class NodeTopics(OutcomeFollower):
    """Publishes changes of nodes to readers."""

    def __init__(self, state: BrokerState, readers: TopicReaders) -> None:
        self._state = state
        self._readers = readers

    def follow(self, others: Sequence[Input], outcome: Outcome, now: float) -> None:
        """Publish the changes of nodes and areas in a step.

        `others` are its inputs except events and moves.
        """
        if self._state.engine.has_readers:
            for changed in outcome.node_changes:
                if changed.state is not None:
                    self._changed(changed.state, changed.before, now)
                else:
                    self._forgotten(changed.node, now)
        for notice in outcome.notices:
            if isinstance(notice, AreaNotice):
                self._tell_of_area(notice)
        for value in others:
            if isinstance(value, Presence):
                self._presence(value.node, value.here, now)
            elif isinstance(value, Subscribed) and value.replay:
                wanted = value.subscription
                session = self._state.sessions.get(wanted.owner)
                if (
                    session is not None
                    and wanted.group is None
                    and wanted.subject.startswith(PREFIX)
                ):
                    self._replay(session, wanted, now)

    def _changed(self, state: NodeState, before: NodeState | None, now: float) -> None:
        """Publish a changed position and context."""
        if (
            before is None
            or state.position_at != before.position_at
            or state.position != before.position
        ):
            self._tell(state.node, POSITION, state, now)
        self._tell(state.node, CONTEXT, state, now)

    def _presence(self, node: str, here: bool, now: float) -> None:
        """Publish when the first part of a node connects or the last one disconnects."""
        if self._state.engine.has_readers and self._state.online[node] == here:
            self._tell(node, ONLINE, self._state.engine.nodes.get(node), now)

    def _forgotten(self, node: str, now: float) -> None:
        """Publish that a node's position and context are gone."""
        self._tell(node, POSITION, None, now)
        self._tell(node, CONTEXT, None, now)

    def _replay(self, session: Session, wanted: Subscription, now: float) -> None:
        """Send a new subscriber the current state of nodes."""
        names = wanted.subject.split("/")
        if len(names) > 1 and names[1] not in ("+", "#"):
            name = decode_name(names[1])
            nodes = [] if name is None else [name]
        else:
            known = dict.fromkeys((*self._state.engine.nodes, *self._state.parts))
            nodes = list(known)[:MOST_REPLAYED]
        for node in nodes:
            state = self._state.engine.nodes.get(node)
            for what in (POSITION, CONTEXT, ONLINE):
                topic = topic_of(node, what)
                if subject_matches(wanted.subject, topic):
                    payload = self._payload(session.node, node, what, state)
                    if payload:
                        event = self._event(topic, node, payload, state, now)
                        self._readers.put(session, [wanted], event, True)

    def _tell_of_area(self, notice: AreaNotice) -> None:
        """Publish an entry or exit of a watched area to readers that may see it."""
        # Published in the spelling of its definition, matched in any spelling.
        written, node = f"{AREAS}{notice.area}", notice.node
        topic = normalize_topic(written)
        rights = self._state.engine.rights
        payload = msgspec.json.encode(
            {
                "state": "in" if notice.inside else "out",
                "node": node,
                "time": time_text(notice.time),
            }
        )
        state = self._state.engine.nodes.get(node)
        event = self._event(topic, node, payload, state, notice.time)
        for session, wanted in self._readers.of(topic):
            if rights.may_witness(session.node, node):
                self._readers.put(session, wanted, event, topic=written)

    def _tell(self, node: str, what: str, state: NodeState | None, now: float) -> None:
        topic = topic_of(node, what)
        for session, wanted in self._readers.of(topic):
            payload = self._payload(session.node, node, what, state)
            if payload is not None:
                self._readers.put(session, wanted, self._event(topic, node, payload, state, now))

    def _payload(self, viewer: str, node: str, what: str, state: NodeState | None) -> bytes | None:
        """The payload for a viewer: empty if there is no value, None if not visible."""
        sees = self._sees(viewer, node)
        if sees & NEEDED_SIGHT[what] != NEEDED_SIGHT[what]:
            return None
        if what == ONLINE:
            return b"true" if node in self._state.online else b"false"
        if what == POSITION:
            at = None if state is None else state.position
            return b"" if at is None else position_text(at).encode()
        # Rules may grant attributes to a node that has no context.
        members = self._state.engine.rights.context(node)
        if state is None:
            return msgspec.json.encode(members) if members else b""
        if state.position is not None and sees & SEE_POSITION:
            members["position"] = [state.position.lon, state.position.lat]
        return msgspec.json.encode(members)

    def _event(
        self, topic: str, node: str, payload: bytes, state: NodeState | None, now: float
    ) -> Event:
        """Return the message as an event of the node that it is about."""
        at = None if state is None else state.position
        return Event("", topic, node, now, attributes_of(payload), at, payload=payload, qos=1)

    def _sees(self, viewer: str, node: str) -> int:
        return self._state.engine.matcher.world.may_see(viewer, node)


def topic_of(node: str, what: str) -> str:
    """The topic for one aspect of a node."""
    return f"{PREFIX}{quote(node, safe='')}/{what}"
