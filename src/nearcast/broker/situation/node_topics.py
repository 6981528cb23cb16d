"""What one node can read of another: `$node/NODE/position`, `…/context` and `…/online`.

These behave like retained messages, and change when the node does; who may not see something
gets nothing. Also here: who came into a watched area, told on `$area/NAME`.
"""

from urllib.parse import quote, unquote

import msgspec

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivering import Delivering
from nearcast.broker.session import Granted, Outgoing, Parcel, Session
from nearcast.broker.situation.metadata import position_text, time_text
from nearcast.core.area_watch import Sighting
from nearcast.core.model.context import NodeState
from nearcast.core.model.subject import subject_matches
from nearcast.core.model.visibility import SEE_ATTRIBUTES, SEE_IDENTITY, SEE_POSITION
from nearcast.wire.mqtt import PublishFrame

PREFIX = "$node/"
MOST_REPLAYED = 10_000
POSITION, CONTEXT, ONLINE = "position", "context", "online"
_NEEDS = {POSITION: SEE_POSITION, CONTEXT: SEE_ATTRIBUTES, ONLINE: SEE_IDENTITY}


class NodeTopics:
    """Tells of nodes to those who read of them."""

    def __init__(self, state: BrokerState, delivering: Delivering) -> None:
        self._state = state
        self._delivering = delivering
        self._told_online: set[str] = set()

    def changed(self, state: NodeState) -> None:
        """A node's context is another one now."""
        if state.position is None or state.position_at == state.changed_at:
            self._tell(state.node, POSITION)
        self._tell(state.node, CONTEXT)

    def presence(self, node: str) -> None:
        """A part of a node came or went."""
        online = self._is_online(node)
        if online != (node in self._told_online):
            (self._told_online.add if online else self._told_online.discard)(node)
            self._tell(node, ONLINE)

    def forgotten(self, node: str) -> None:
        """Nothing is known of a node any more."""
        self._tell(node, POSITION)
        self._tell(node, CONTEXT)

    def replay(self, session: Session, granted: Granted) -> None:
        """Tell a new reader what is known now."""
        pattern = granted.wanted.filter
        names = pattern.split("/")
        if len(names) > 1 and names[1] not in ("+", "#"):
            nodes = [unquote(names[1])]
        else:
            known = dict.fromkeys((*self._state.engine.nodes, *self._state.parts))
            nodes = list(known)[:MOST_REPLAYED]
        for node in nodes:
            for what in (POSITION, CONTEXT, ONLINE):
                topic = _topic(node, what)
                if subject_matches(pattern, topic):
                    payload = self._payload(session.node, node, what)
                    if payload:
                        self._put(session, granted, topic, payload, True)

    def sighted(self, sighting: Sighting) -> None:
        """Tell who came into a watched area, or went, to those who may see it."""
        topic = f"$area/{sighting.area}"
        route = self._state.engine.route("", topic)
        needs = SEE_POSITION | SEE_IDENTITY
        payload = msgspec.json.encode(
            {
                "state": "in" if sighting.inside else "out",
                "node": sighting.node,
                "time": time_text(sighting.time),
            }
        )
        for own in () if route is None else route.copies:
            session = self._state.sessions.get(own[0].owner)
            if session is None or self._sees(session.node, sighting.node) & needs != needs:
                continue
            for each in own:
                granted = session.granted.get(each.id.partition("\0")[2])
                if granted is not None:
                    self._put(session, granted, topic, payload, False)
                    break

    def _tell(self, node: str, what: str) -> None:
        topic = _topic(node, what)
        route = self._state.engine.route("", topic)
        for own in () if route is None else route.copies:
            session = self._state.sessions.get(own[0].owner)
            if session is None:
                continue
            payload = self._payload(session.node, node, what)
            granted = session.granted.get(own[0].id.partition("\0")[2])
            if payload is not None and granted is not None:
                self._put(session, granted, topic, payload, granted.wanted.retain_as_published)

    def _payload(self, viewer: str, node: str, what: str) -> bytes | None:
        """What a viewer reads: empty where there is nothing, None where it may not see."""
        sees = self._sees(viewer, node)
        if not sees & _NEEDS[what]:
            return None
        if what == ONLINE:
            return b"true" if self._is_online(node) else b"false"
        state = self._state.engine.nodes.get(node)
        if what == POSITION:
            at = None if state is None else state.position
            return b"" if at is None else position_text(at).encode()
        if state is None:
            return b""
        members = dict(state.attributes)
        if state.position is not None and sees & SEE_POSITION:
            members["position"] = [state.position.lon, state.position.lat]
        return msgspec.json.encode(members)

    def _is_online(self, node: str) -> bool:
        return node in self._state.online

    def _sees(self, viewer: str, node: str) -> int:
        return self._state.engine.matcher.world.may_see(viewer, node)

    def _put(
        self, session: Session, granted: Granted, topic: str, payload: bytes, retain: bool
    ) -> None:
        parcel = Parcel(PublishFrame(topic, payload))
        qos = min(1, granted.wanted.qos)
        identifiers = () if granted.identifier is None else (granted.identifier,)
        self._delivering.put(session, Outgoing(parcel, qos, retain, identifiers))


def _topic(node: str, what: str) -> str:
    return f"{PREFIX}{quote(node, safe='~ ')}/{what}"
