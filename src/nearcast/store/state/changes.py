"""Changes: all that can happen to what a broker keeps, as values.

A commit takes a tick's changes in their order. Loading yields the changes that would build what
is there, so that a broker starts by applying them. Message ids and queue numbers come from the
store (`message_ids`, `queue_numbers`) and are used once.
"""

from enum import IntEnum

from msgspec import Struct

from nearcast.store.state.values import Live, StoredMessage, StoredSession, SubscriptionState


class Stage(IntEnum):
    """How far a message on its way to a client is."""

    WAITING = 0
    SENT = 1
    """PUBLISH has a packet id; the client has not answered."""
    RELEASED = 2
    """PUBREC came, PUBREL is owed: the packet id is still taken, the message is not needed."""


class SessionPut(Struct, frozen=True, tag=True):
    """A session is new or different; its subscriptions and queue stay."""

    session: StoredSession


class SessionDropped(Struct, frozen=True, tag=True):
    """A session has ended, with its subscriptions, its queue and its packet ids."""

    session: str


class SubscriptionPut(Struct, frozen=True, tag=True):
    """A session's subscription is new or different; `key` is what identifies it in the session."""

    session: str
    key: str
    subscription: SubscriptionState


class SubscriptionDropped(Struct, frozen=True, tag=True):
    """A session no longer has a subscription."""

    session: str
    key: str


class MessagePut(Struct, frozen=True, tag=True, gc=False):
    """A message that some `Enqueued` of the same commit refers to; kept while any does."""

    id: int
    message: StoredMessage


class Enqueued(Struct, frozen=True, tag=True, gc=False):
    """A message is owed to a session; numbers rise in the order of delivery."""

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


class Sent(Struct, frozen=True, tag=True, gc=False):
    """A message in the queue was sent under a packet id."""

    session: str
    number: int
    packet: int


class Released(Struct, frozen=True, tag=True, gc=False):
    """The client has the QoS 2 message; only its packet id is still taken."""

    session: str
    number: int
    packet: int


class Dequeued(Struct, frozen=True, tag=True, gc=False):
    """Nothing more is owed: acknowledged, completed, expired or given up."""

    session: str
    number: int


class ReceivedPut(Struct, frozen=True, tag=True, gc=False):
    """A QoS 2 message came from the client under this packet id and was applied."""

    session: str
    packet: int


class ReceivedDropped(Struct, frozen=True, tag=True, gc=False):
    """PUBREL came: the packet id may mean another message."""

    session: str
    packet: int


class LivePut(Struct, frozen=True, tag=True):
    """A live event is new, or a new version that nobody has seen."""

    live: Live


class LiveDropped(Struct, frozen=True, tag=True):
    """A live event was withdrawn or has expired."""

    key: str


class LiveSeen(Struct, frozen=True, tag=True):
    """Somebody got this version of a live event."""

    key: str
    who: str


class Kept(Struct, frozen=True, tag=True):
    """A value of some other kind: `space` says which, such as contexts or announcements."""

    space: str
    key: str
    value: bytes


class Forgotten(Struct, frozen=True, tag=True):
    """Such a value is no longer kept."""

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
    | Kept
    | Forgotten
)
