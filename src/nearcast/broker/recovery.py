"""Recovery: a hub as its store left it.

Sessions, subscriptions, queues and live events come back; nobody is connected. What was sent and
not acknowledged is sent again when its client returns, under the same packet id.
"""

from collections.abc import Iterable, Iterator
from math import inf

from nearcast.broker.hub import Hub
from nearcast.broker.recording import NODES
from nearcast.broker.session import Granted, Parcel, Session
from nearcast.broker.situation.commands import ANNOUNCEMENTS, AREAS, PLACES, RIGHTS
from nearcast.broker.situation.errors import ERRORS
from nearcast.broker.situation.words import wished_again
from nearcast.broker.staging import RELEASES, STAGED
from nearcast.broker.subscribing import subscription, tells
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.inputs import Input, Presence
from nearcast.store import (
    Change,
    Enqueued,
    Gap,
    Kept,
    LivePut,
    LiveSeen,
    MessagePut,
    ReceivedPut,
    SessionPut,
    Store,
    SubscriptionPut,
    decoded_input,
    decoded_node,
)
from nearcast.store import Session as KeptSession
from nearcast.wire.mqtt import PublishFrame, TopicFilter, parse_filter


def recent_ids(store: Store, most: int = 100_000) -> Iterator[tuple[str, str]]:
    """Yield publisher and id of the newest events in the log, so that repeats are recognised."""
    for part in store.log.read(max(1, store.seq - most + 1)):
        if isinstance(part, Gap):
            continue
        publishers = part.column("publisher").to_pylist()
        for publisher, name in zip(publishers, part.column("event_id").to_pylist(), strict=True):
            if name is not None and publisher is not None:
                yield publisher, name


def restore(
    hub: Hub,
    changes: Iterable[Change],
    seq: int,
    now: float,
    known: Iterable[tuple[str, str]] = (),
) -> None:
    """Apply what the store kept to a hub that has nothing yet."""
    kept: dict[str, KeptSession] = {}
    subscriptions: list[Subscription] = []
    parcels: dict[int, Parcel] = {0: Parcel(PublishFrame("released"))}
    live: dict[str, tuple[Event, float | None, list[str]]] = {}
    nodes: list[NodeState] = []
    standing: list[Input] = []
    sessions = hub.sessions
    for change in changes:
        match change:
            case SessionPut(value):
                kept[value.id] = value
                sessions[value.id] = _session(value)
                hub.state.parts[sessions[value.id].node] += 1
            case SubscriptionPut(name, _, wanted):
                session = sessions[name]
                options = TopicFilter(
                    wanted.filter, wanted.qos, wanted.no_local, wanted.retain_as_published,
                    wanted.retain_handling,
                )  # fmt: skip
                wish = wished_again(wanted.properties)
                granted = Granted(
                    options, wanted.identifier, wanted.name, tells(wish, wanted.name),
                    wanted.extra == b"envelope",
                )  # fmt: skip
                session.granted[change.key] = granted
                if wanted.filter != ERRORS:
                    parsed = parse_filter(wanted.filter)
                    subscriptions.append(subscription(session, granted, parsed, wish))
            case ReceivedPut(name, packet):
                session = sessions[name]
                session.received = session.received or set()
                session.received.add(packet)
            case MessagePut(number, message):
                frame = PublishFrame(message.topic, message.payload, message.extra)
                parcels[number] = Parcel(frame, message.publisher, message.expires, number)
            case Enqueued():
                sessions[change.session].restore(change, parcels[change.message])
            case LivePut(value):
                event = value.event
                frame = PublishFrame(event.subject, event.payload, value.headers or b"")
                hub.state.live[value.key] = Parcel(frame, event.origin, value.expires)
                live[value.key] = (event, value.expires, [])
            case LiveSeen(key, who):
                name = who.partition("\0")[0]
                if name in sessions and sessions[name].lifetime == who:
                    live[key][2].append(name)
            case Kept(space, _, value) if space == NODES:
                nodes.append(decoded_node(value))
            case Kept(space, _, value) if space in (ANNOUNCEMENTS, PLACES, AREAS, RIGHTS):
                standing.append(decoded_input(value))
            case Kept(space, key, value) if space in (STAGED, RELEASES):
                hub.releasing.staging.restore(space, key, value)
    for session in sessions.values():
        own = "" if session.client_id == session.node else session.client_id
        standing.append(Presence(session.node, False, own))
    hub.engine.resume(seq, subscriptions, live.values(), nodes, standing, known)
    hub.note_restart(now)
    for name, value in kept.items():
        hub.arrivals.restore(value, sessions[name], now)
    hub.releasing.staging.resume()
    hub.look_ahead()


def _session(value: KeptSession) -> Session:
    session = Session(value.id, value.created)
    session.user = value.user
    session.expiry_s = inf if value.expiry_s is None else value.expiry_s
    session.durable = session.expiry_s > 0.0
    session.is_kept = True
    return session
