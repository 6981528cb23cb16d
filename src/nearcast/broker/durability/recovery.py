"""Recovery: a hub as its store left it.

Restores sessions, subscriptions, queues and live events, without connections. Unacknowledged
messages are sent again when the client reconnects, under the same packet id.
"""

import logging
from collections.abc import Iterator
from math import inf

import msgspec
from msgspec.structs import replace

from nearcast.broker.auth.count_rights import noted_if_counting
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.reprioritisation import reprioritise
from nearcast.broker.durability.outcome_recorder import NODES, NODES_UNTIL
from nearcast.broker.durability.remembered_events import remembered_events
from nearcast.broker.durability.waiting_recorder import HIDDEN, HIDDEN_GROUPS, LEFT, POOLS, WAITING
from nearcast.broker.handover.staged_rows import RELEASES, STAGED
from nearcast.broker.hub import Hub
from nearcast.broker.ingest.subscribe import subscription, tells
from nearcast.broker.quotas.engine_usage import USERS
from nearcast.broker.quotas.sizes import subscription_size
from nearcast.broker.scripts.script_book import SCRIPTS, STATES
from nearcast.broker.sessions.granted import SessionSubscription
from nearcast.broker.sessions.outbound_message import OutboundMessage
from nearcast.broker.sessions.session import Session, client_of
from nearcast.broker.situation.nc_properties import (
    SubscriptionOptions,
    subscription_options_from_texts,
)
from nearcast.broker.situation.topic_names import PRIVATE
from nearcast.core.adaptation.errors import AdaptationError
from nearcast.core.adaptation.form_function import FormFunction
from nearcast.core.adaptation.relevance import checked_vector
from nearcast.core.engine.engine import EngineInputs, LiveEvent
from nearcast.core.gathering.waiting import durable_pools
from nearcast.core.model.context import NodeState, moved
from nearcast.core.model.event import Subscription
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Input
from nearcast.logs import log_event
from nearcast.store import (
    Enqueued,
    Gap,
    Kept,
    Live,
    LiveDropped,
    LivePut,
    LiveSeen,
    MessagePut,
    ReceivedPut,
    SessionOwner,
    SessionPut,
    Store,
    SubscriptionPut,
    decoded_input,
    decoded_node,
    is_standing_space,
    is_unknown,
)
from nearcast.store import StoredSession as KeptSession
from nearcast.wire.handover import PUBLISHER
from nearcast.wire.mqtt import PublishFrame, TopicFilter, parse_filter

log = logging.getLogger("nearcast.broker")
RECENT = 100_000
"""Repeats of events are recognised among this number of the newest rows."""


def restore(hub: Hub, store: Store, now: float) -> None:
    """Apply the contents of a store to an empty hub."""
    kept: dict[str, KeptSession] = {}
    subscriptions: list[Subscription] = []
    messages: dict[int, OutboundMessage] = {0: OutboundMessage(PublishFrame("released"))}
    live = _LiveEvents(hub)
    nodes: dict[str, tuple[NodeState, int | None]] = {}
    until: int | None = None
    standing: list[Input] = []
    sessions = hub.sessions
    prioritised: set[str] = set()
    """Sessions with messages whose stored priority is that of their arrival."""
    for change in store.load():
        match change:
            case SessionPut(value):
                kept[value.id] = value
                sessions[value.id] = _session(value, hub.state)
                hub.state.parts[sessions[value.id].node] += 1
            case SubscriptionPut(name, _, wanted):
                session = sessions[name]
                topic_filter = TopicFilter(
                    wanted.filter, wanted.qos, wanted.no_local, wanted.retain_as_published,
                    wanted.retain_handling,
                )  # fmt: skip
                options = _fitting(subscription_options_from_texts(wanted.properties), name)
                envelope = wanted.extra == b"envelope"
                told = tells(options, wanted.name, envelope)
                granted = SessionSubscription(
                    topic_filter, wanted.identifier, wanted.name, told, envelope,
                    size=subscription_size(
                        wanted.filter, wanted.properties, options.where, options.from_
                    ),
                )  # fmt: skip
                id_ = granted.id_of(name)
                if wanted.filter not in PRIVATE:
                    parsed = parse_filter(wanted.filter)
                    asked = subscription(session, granted, parsed, options, wanted.countable)
                    subscriptions.append(asked)
                    granted = noted_if_counting(granted, asked, wanted)
                session.grant(id_.text, granted)
            case ReceivedPut(name, packet):
                sessions[name].restore_received(packet)
            case MessagePut(number, message):
                frame = PublishFrame(message.topic, message.payload, message.extra)
                messages[number] = OutboundMessage(
                    frame, message.publisher, message.expires, number, message.live_key,
                    message.enveloped, message.deadline,
                )  # fmt: skip
            case Enqueued():
                sessions[change.session].restore(change, messages[change.message], now)
                if change.basis:
                    prioritised.add(change.session)
            case LivePut(value):
                live.put(value)
            case LiveSeen(key, who):
                name = client_of(who)
                if name in sessions and sessions[name].lifetime == who:
                    live.seen(key, who)
            case Kept(space, node, value) if space == NODES:
                nodes[node] = decoded_node(value)
            case Kept(space, _, value) if space == NODES_UNTIL:
                until = msgspec.msgpack.decode(value, type=int)
            case Kept(space, _, value) if is_standing_space(space):
                standing.append(decoded_input(value))
            case Kept(space, client_id, value) if space == USERS:
                hub.usage.restore(client_id, value.decode())
            case Kept(space, key, value) if space in (STAGED, RELEASES):
                hub.releasing.staging.restore(space, key, value)
            case Kept(space, key, value) if space in (HIDDEN_GROUPS, HIDDEN):
                hub.recorder.hidden.restore(space, value, key)
            case Kept(space, key, value) if space in (POOLS, LEFT, WAITING):
                hub.recorder.waiting.restore(space, value, key)
            case Kept(space, key, value) if space in (SCRIPTS, STATES):
                hub.scripts.book.restore(space, key, value)
    kept_nodes = dict(nodes)
    known = list(_read_on(store, store.seq if until is None else until, nodes))
    states = [state for state, _ in nodes.values()]
    chosen = hub.engine.settings
    recent = remembered_events(store.log, now - chosen.recent_s, chosen.recent_most)
    qos = {each.id: each.qos for each in subscriptions}
    waiting = durable_pools(hub.recorder.waiting.take_restored(), qos)
    hub.recorder.waiting.end_others(waiting, hub.state.journal)
    hub.recorder.waiting.store_anew(waiting, hub.state.journal)
    hidden = durable_pools(hub.recorder.hidden.take_restored(), {})
    hub.recorder.hidden.end_others(hidden, hub.state.journal)
    inputs = EngineInputs(
        chosen.restart(sessions),
        standing,
        subscriptions=subscriptions,
        nodes=states,
        live=live.found(),
        recent=recent,
        known=known,
        waiting=waiting,
        hidden=hidden,
    )
    hub.engine.resume(store.seq, inputs)
    for (kind, name), why in hub.engine.policies.unfit.items():
        policy = f"{kind}/{name}"
        log_event(log, logging.WARNING, "a policy has no effect", policy=policy, why=why)
    hub.usage.resumed()
    moved_since = [nodes[node][0] for node in nodes if nodes[node] != kept_nodes.get(node)]
    hub.resume_moves(moved_since, marked=until is not None)
    hub.note_restart(now)
    hub.scripts.resume()
    for name, value in kept.items():
        hub.lifecycle.restore(value, sessions[name], now)
        hub.session_review.recall(sessions[name])
    for name in sorted(prioritised & sessions.keys()):
        reprioritise(hub.state, sessions[name])
    hub.releasing.staging.resume()
    hub.look_ahead()


def _fitting(options: SubscriptionOptions, session: str) -> SubscriptionOptions:
    """Return the options of a stored subscription, without relevance that fits no more."""
    if options.relevance is not None:
        try:
            checked_vector(options.relevance.levels, FormFunction(options.where))
        except AdaptationError as error:
            said = "a subscription is kept without its relevance"
            log_event(log, logging.WARNING, said, session=session, why=str(error))
            return replace(options, relevance=None)
    return options


class _LiveEvents:
    """Stored live events, under the keys that they have by the current settings."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._kept: dict[str, Live] = {}
        self._seen: dict[str, list[str]] = {}
        """Sessions that have seen each event, by stored key."""

    def put(self, value: Live) -> None:
        """Add a live event; it replaces an older one with the same key."""
        key = self._hub.engine.live_key(value.event)
        if (older := self._kept.pop(key, None)) is not None:
            self._hub.state.journal.note(LiveDropped(older.key))
        self._kept[key] = value

    def seen(self, key: str, who: str) -> None:
        """Note that a session has seen a live event."""
        self._seen.setdefault(key, []).append(who)

    def found(self) -> Iterator[LiveEvent]:
        """Yield all events with their expiry and the sessions that have seen them."""
        state = self._hub.state
        for key, value in self._kept.items():
            event, who = value.event, self._seen.get(value.key, [])
            if key != value.key:
                state.journal.note(LiveDropped(value.key))
                state.journal.note(LivePut(replace(value, key=key)))
                for each in who:
                    state.journal.note(LiveSeen(key, each))
            yield LiveEvent(event, value.expires, [client_of(each) for each in who])


def _read_on(
    store: Store, until: int, nodes: dict[str, tuple[NodeState, int | None]]
) -> Iterator[tuple[str, str]]:
    """Yield publisher and id of the newest events in the log, and apply moves to `nodes`.

    The stored state of a node is that of some log row; moves after that row, and after `until`, are
    only in the log.
    """
    newest = store.seq - RECENT
    for part in store.log.read(max(1, min(newest, until) + 1)):
        if isinstance(part, Gap):
            continue
        columns = (part.column(name).to_pylist() for name in _READ)
        for seq, kind, publisher, event, node, lat, lon, at in zip(*columns, strict=True):
            if seq > until and kind in ("position", "forgotten", "expired"):
                before, known = nodes.get(node) or (NodeState(node), 0)
                if known is None:
                    continue
                if seq > known and kind != "position":
                    nodes.pop(node, None)
                elif seq > known and lat is not None:
                    nodes[node] = moved(before, Position(lat, lon), at), seq
            elif is_unknown(kind):
                continue
            elif seq > newest and event is not None and publisher is not None:
                yield publisher, event


_READ = ("seq", "kind", "publisher", "event_id", "node", "lat", "lon", "ingested")


def _session(value: KeptSession, state: BrokerState) -> Session:
    owner = value.owner
    if owner is None and value.user is not None:
        owner = SessionOwner(value.user, is_broker=value.user == PUBLISHER)
    usage = state.quotas.open(value.id, owner)
    session = Session(value.id, value.created, usage, state.priorities)
    session.owner = owner
    session.expiry_s = inf if value.expiry_s is None else value.expiry_s
    session.durable = session.expiry_s > 0.0
    session.is_kept = True
    return session
