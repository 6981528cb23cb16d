"""Erasure of a node: sessions, queues, live events, contexts and the places it named.

It goes in slices, so that other clients need not wait: first the node's sessions end, and nobody
connects as it any more; then its places, areas, live events and context go; then what waits from it
for others. After each part nothing new of it can come. The log is erased by the store writer.
Messages that other nodes received stay, and so does what they wrote about the node in their own
messages.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from nearcast.broker.auth import Authenticator
from nearcast.broker.config.settings import Settings
from nearcast.broker.durability.recovery import restore
from nearcast.broker.durability.store_writer import journal_for
from nearcast.broker.hub import Hub
from nearcast.broker.sessions.outbound_message import QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.commands import place_of, policy_of
from nearcast.broker.situation.relationship_topics import RELATE, members_told
from nearcast.core.model.event import Event
from nearcast.core.model.inputs import (
    AreaUnwatched,
    Forgot,
    LiveForgotten,
    PlaceDefined,
    PolicySet,
)
from nearcast.store import Store, standing_change
from nearcast.wire.mqtt import ReasonCode

T = TypeVar("T")
SLICE = 1_000
"""Sessions or live events that are looked at in one slice."""


class NodeErasure:
    """The erasure of a node from a hub; `work` does a slice, and the next tick stores it."""

    def __init__(self, hub: Hub, node: str, slice_size: int = SLICE) -> None:
        self._hub = hub
        self._node = node
        self._slice_size = slice_size
        self._now = 0.0
        self.sessions = self.messages = 0
        """Sessions that were ended, and messages that were dropped, so far."""
        hub.state.forgetting.add(node)
        self._slices = self._all_slices()

    def work(self, now: float) -> bool:
        """Do the next slice; return whether there was one."""
        self._now = now
        return next(self._slices, None) is not None

    def end(self) -> None:
        """Let clients connect as the node again."""
        self._hub.state.forgetting.discard(self._node)

    def _all_slices(self) -> Iterator[bool]:
        hub = self._hub
        yield from self._over(list(hub.sessions), self._end_session)
        hub.scripts.forget(self._node, self._now)
        # Names and texts may identify their author: places and policies go with their messages.
        yield from self._over(list(hub.engine.live), self._remove_definition)
        for area in [each for each in hub.engine.watched_areas if each.node == self._node]:
            hub.state.pending.ask(AreaUnwatched(area.name))
            hub.state.journal.note(standing_change(AreaUnwatched(area.name)))
        for _ in range(hub.engine.live_events_of(self._node) // self._slice_size):
            hub.state.pending.ask(LiveForgotten(self._node, self._slice_size))
            yield True
        hub.state.pending.ask(Forgot(self._node))
        yield True
        hub.scripts.drop_from(self._node)
        yield from self._over(list(hub.sessions), self._drop_messages)
        # Log files are about to be rewritten.
        hub.keep_moves()

    def _over(self, all_of_them: Iterable[T], treat: Callable[[T], None]) -> Iterator[bool]:
        left = iter(all_of_them)
        while some := list(islice(left, self._slice_size)):
            for each in some:
                treat(each)
            yield True

    def _end_session(self, name: str) -> None:
        session = self._session(name)
        if session is None or session.node != self._node:
            return
        hub = self._hub
        if session.connection is not None:
            why = "this node was forgotten"
            hub.close(session.connection, ReasonCode.ADMINISTRATIVE_ACTION, why)
        hub.lifecycle.drop_will(session)
        hub.lifecycle.end(session, self._now)
        self.sessions += 1

    def _remove_definition(self, event: Event) -> None:
        if event.publisher != self._node:
            return
        removal: PlaceDefined | PolicySet | None = None
        if (place := place_of(event.subject)) is not None:
            removal = PlaceDefined(*place, None)
        elif (policy := policy_of(event.subject)) is not None:
            removal = PolicySet(*policy, None)
        if removal is not None:
            self._hub.state.pending.ask(removal)
            self._hub.state.journal.note(standing_change(removal))

    def _drop_messages(self, name: str) -> None:
        session = self._session(name)
        if session is not None:
            journal = self._hub.state.journal
            self.messages += session.drop_from(self._node, journal)
            self.messages += session.drop(self._names_it, journal)

    def _names_it(self, delivery: QueuedDelivery) -> bool:
        """Return whether a message is about a relationship of the node."""
        frame = delivery.message.frame
        return frame.topic.startswith(RELATE) and self._node in members_told(frame.payload)

    def _session(self, name: str) -> Session | None:
        return self._hub.sessions.get(name)


def forget_in_store(store: Store, settings: Settings, node: str, now: float) -> dict[str, int]:
    """Erase a node from the data of a broker that is not running.

    A will may become due at this moment, so the authenticator decides on permissions as usual.
    """
    admission = Authenticator(settings, Path(settings.node.data))
    hub = Hub(settings, journal_for(store), admission)
    restore(hub, store, now)
    erasure = NodeErasure(hub, node)
    while erasure.work(now):
        entries = hub.tick(now).entries
        store.commit(entries.changes, entries.rows, now=now)
    entries = hub.tick(now).entries
    store.commit(entries.changes, entries.rows, now=now)
    segments = store.erase(node, now=now)
    return {"sessions": erasure.sessions, "messages": erasure.messages, "segments": segments}
