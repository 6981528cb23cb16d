"""Changes: all modifications of a broker's state, as values.

A commit takes a tick's changes in order. Loading yields the changes that would build the current
state, so that a broker starts by applying them. Message ids and queue numbers come from the store
(`message_ids`, `queue_numbers`) and are used once.
"""

from enum import IntEnum

from msgspec import Struct

from nearcast.store.state.values import Live, StoredMessage, StoredSession, SubscriptionState


class Stage(IntEnum):
    """The stage of a message in flight to a client."""

    WAITING = 0
    SENT = 1
    """PUBLISH has a packet id; the client has not answered."""
    RELEASED = 2
    """PUBREC was received, PUBREL is due: the packet id is in use, the message not needed."""


class SessionPut(Struct, frozen=True, tag=True):
    """A session is new or different; its subscriptions and queue stay."""

    session: StoredSession


class SessionDropped(Struct, frozen=True, tag=True):
    """A session has ended, with its subscriptions, its queue and its packet ids."""

    session: str


class SubscriptionPut(Struct, frozen=True, tag=True):
    """A session's subscription is new or different; `key` identifies it in the session."""

    session: str
    key: str
    subscription: SubscriptionState


class SubscriptionDropped(Struct, frozen=True, tag=True):
    """A session no longer has a subscription."""

    session: str
    key: str


class MessagePut(Struct, frozen=True, tag=True, gc=False):
    """A message that an `Enqueued` of the same commit refers to; kept while any does."""

    id: int
    message: StoredMessage


class Enqueued(Struct, frozen=True, tag=True, gc=False):
    """A message is queued for a session; numbers increase in the order of delivery."""

    session: str
    number: int
    message: int
    """0 once released."""
    qos: int
    retain: bool = False
    priority: int = 1
    packet: int = 0
    stage: Stage = Stage.WAITING
    identifiers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    live_id: str | None = None
    """The id of a live event that the session gets later if this copy is dropped."""
    basis: bytes = b""
    """What its priority follows from, see `stored_basis`; empty: it stays as it is."""


class Sent(Struct, frozen=True, tag=True, gc=False):
    """A message in the queue was sent under a packet id."""

    session: str
    number: int
    packet: int


class Released(Struct, frozen=True, tag=True, gc=False):
    """The client has received the QoS 2 message; only its packet id is still in use."""

    session: str
    number: int
    packet: int


class Dequeued(Struct, frozen=True, tag=True, gc=False):
    """A message left the queue: acknowledged, completed, expired or given up."""

    session: str
    number: int


class ReceivedPut(Struct, frozen=True, tag=True, gc=False):
    """A QoS 2 message was received from the client under this packet id and applied."""

    session: str
    packet: int


class ReceivedDropped(Struct, frozen=True, tag=True, gc=False):
    """PUBREL was received: the packet id may be used for another message."""

    session: str
    packet: int


class LivePut(Struct, frozen=True, tag=True):
    """A live event is new, or a new version that no subscriber has received."""

    live: Live


class LiveDropped(Struct, frozen=True, tag=True):
    """A live event was withdrawn or has expired."""

    key: str


class LiveSeen(Struct, frozen=True, tag=True):
    """A subscriber received this version of a live event."""

    key: str
    who: str


class LiveMissed(Struct, frozen=True, tag=True):
    """The copy of a live event was dropped before its subscriber received it."""

    key: str
    who: str


class Kept(Struct, frozen=True, tag=True):
    """A value of another kind, by `space`, such as contexts or announcements."""

    space: str
    key: str
    value: bytes


class Forgotten(Struct, frozen=True, tag=True):
    """A `Kept` value is removed."""

    space: str
    key: str


SessionChange = (
    SessionPut | SubscriptionPut | MessagePut | Enqueued | ReceivedPut
)  # what one exported session is made of
Change = (
    SessionChange
    | SessionDropped
    | SubscriptionDropped
    | Sent
    | Released
    | Dequeued
    | ReceivedDropped
    | LivePut
    | LiveDropped
    | LiveSeen
    | LiveMissed
    | Kept
    | Forgotten
)
