"""A tick's changes folded together before they are written.

A value put twice is written once; a value put and removed within the tick is not written at all, as
with most messages to connected clients. Order matters only within one object, so the result is the
same as applying the changes one by one.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from nearcast.store.state.changes import (
    Change,
    Dequeued,
    Enqueued,
    Forgotten,
    Kept,
    LiveDropped,
    LiveMissed,
    LivePut,
    LiveSeen,
    MessagePut,
    ReceivedDropped,
    ReceivedPut,
    Released,
    Sent,
    SessionDropped,
    SessionPut,
    Stage,
    SubscriptionDropped,
    SubscriptionPut,
)
from nearcast.store.state.values import Live, StoredMessage, StoredSession, SubscriptionState

QueueChange = Enqueued | Sent | Released | Dequeued


class SessionPart(Struct):
    """The changes of one session in a tick; `dropped` comes before all others."""

    dropped: bool = False
    session: StoredSession | None = None
    subscriptions: dict[str, SubscriptionState | None] = {}
    queue: dict[int, QueueChange] = {}
    received: dict[int, bool] = {}


class LivePart(Struct):
    """The changes of one live event in a tick; `changed` clears its earlier recipients."""

    changed: bool = False
    live: Live | None = None
    seen: dict[str, bool] = {}
    """True for who received it, False for who missed it after all."""


class Pending:
    """The net effect of changes."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self.sessions: dict[str, SessionPart] = {}
        self.messages: dict[int, StoredMessage] = {}
        self.live: dict[str, LivePart] = {}
        self.kept: dict[tuple[str, str], bytes | None] = {}
        handlers: dict[type, Callable[..., None]] = {
            Enqueued: self._enqueue,
            Sent: self._send,
            Released: self._release,
            Dequeued: self._dequeue,
            MessagePut: self._put_message,
            ReceivedPut: self._receive,
            ReceivedDropped: self._finish_receiving,
            SessionPut: self._put_session,
            SessionDropped: self._drop_session,
            SubscriptionPut: self._subscribe,
            SubscriptionDropped: self._unsubscribe,
            LivePut: self._put_live,
            LiveDropped: self._drop_live,
            LiveSeen: self._see,
            LiveMissed: self._miss,
            Kept: self._keep,
            Forgotten: self._forget,
        }
        for change in changes:
            handlers[type(change)](change)

    def _part(self, session: str) -> SessionPart:
        part = self.sessions.get(session)
        if part is None:
            part = self.sessions[session] = SessionPart()
        return part

    def _enqueue(self, change: Enqueued) -> None:
        self._part(change.session).queue[change.number] = change

    def _send(self, change: Sent) -> None:
        queue = self._part(change.session).queue
        earlier = queue.get(change.number)
        if isinstance(earlier, Enqueued):
            queue[change.number] = replace(earlier, packet=change.packet, stage=Stage.SENT)
        else:
            queue[change.number] = change

    def _release(self, change: Released) -> None:
        queue = self._part(change.session).queue
        earlier = queue.get(change.number)
        if isinstance(earlier, Enqueued):
            queue[change.number] = replace(
                earlier, packet=change.packet, stage=Stage.RELEASED, message=0
            )
        else:
            queue[change.number] = change

    def _dequeue(self, change: Dequeued) -> None:
        queue = self._part(change.session).queue
        if isinstance(queue.get(change.number), Enqueued):
            del queue[change.number]
        else:
            queue[change.number] = change

    def _put_message(self, change: MessagePut) -> None:
        self.messages[change.id] = change.message

    def _receive(self, change: ReceivedPut) -> None:
        self._part(change.session).received[change.packet] = True

    def _finish_receiving(self, change: ReceivedDropped) -> None:
        self._part(change.session).received[change.packet] = False

    def _put_session(self, change: SessionPut) -> None:
        self._part(change.session.id).session = change.session

    def _drop_session(self, change: SessionDropped) -> None:
        self.sessions[change.session] = SessionPart(dropped=True)

    def _subscribe(self, change: SubscriptionPut) -> None:
        self._part(change.session).subscriptions[change.key] = change.subscription

    def _unsubscribe(self, change: SubscriptionDropped) -> None:
        self._part(change.session).subscriptions[change.key] = None

    def _put_live(self, change: LivePut) -> None:
        self.live[change.live.key] = LivePart(True, change.live)

    def _drop_live(self, change: LiveDropped) -> None:
        self.live[change.key] = LivePart(True)

    def _see(self, change: LiveSeen) -> None:
        self._live_part(change.key).seen[change.who] = True

    def _miss(self, change: LiveMissed) -> None:
        self._live_part(change.key).seen[change.who] = False

    def _live_part(self, key: str) -> LivePart:
        part = self.live.get(key)
        if part is None:
            part = self.live[key] = LivePart()
        return part

    def _keep(self, change: Kept) -> None:
        self.kept[change.space, change.key] = change.value

    def _forget(self, change: Forgotten) -> None:
        self.kept[change.space, change.key] = None
