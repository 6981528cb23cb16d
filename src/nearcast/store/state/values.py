"""The stored values of a broker: sessions, subscriptions, messages, live events.

Each value is preceded by the version of its form. Fields may be added at the end with a default, so
that old values can still be read; a value of a newer form is refused, never guessed at.
"""

from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import Input, Published
from nearcast.core.model.record import Record
from nearcast.core.model.subject_permissions import SubjectPermissions
from nearcast.store.errors import CorruptError, StoreError, newer
from nearcast.store.rows.message_headers import UserProperties
from nearcast.store.rows.rows import Row, input_of, record_row

VERSION = 1
T = TypeVar("T")


class StoredMessage(Struct, frozen=True, array_like=True, gc=False):
    """An application message queued for one or more sessions; stored once."""

    topic: str
    payload: bytes
    publisher: str = ""
    expires: float | None = None
    properties: UserProperties = ()
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    is_text: bool = False
    """MQTT's payload format indicator."""
    extra: bytes = b""
    """Other data of the broker, opaque to the store."""
    live_key: str | None = None
    """The key of a live event, or of the live event that the message withdraws."""
    enveloped: bool = False
    """True if the payload is a JSON envelope around the published payload."""
    deadline: float | None = None
    """The time by which it should be sent."""


class StoredWill(Struct, frozen=True):
    """The message to publish when a session's connection is lost."""

    message: StoredMessage
    qos: int = 0
    retain: bool = False
    delay_s: float = 0.0


class SessionOwner(Struct, frozen=True):
    """The owner of a session, and the properties that rules used at its last connection."""

    user: str | None = None
    """None: anonymous; all anonymous clients are one user."""
    address: str | None = None
    """None: unknown, since an earlier release did not store it."""
    loopback: bool = False
    publish: tuple[str, ...] | None = None
    """The topics that a token lists for publishing; None: no list, or no token."""
    subscribe: tuple[str, ...] | None = None
    superuser: bool = False
    """True if a token granted it; the users file is checked each time."""
    in_users_file: bool = False
    is_broker: bool = False
    """True for a part of the broker itself, to which no rule applies."""


class StoredSession(Struct, frozen=True):
    """The data of a session that outlives its connection."""

    id: str
    created: float
    user: str | None = None
    expiry_s: float | None = None
    """How long it is kept without a connection; None: forever."""
    disconnected: float | None = None
    """The time of disconnection; None while a client is connected."""
    will: StoredWill | None = None
    extra: bytes = b""
    owner: SessionOwner | None = None
    """None: an earlier release did not store it; `user` is known nevertheless."""
    notices: tuple[tuple[str, str], ...] = ()
    """Topics and texts of notices for the client when it reconnects."""
    losses: dict[str, int] = {}
    """Dropped messages that the client is to be told of, by reason."""


class SubscriptionState(Struct, frozen=True):
    """A subscription as requested; its texts are parsed again on load."""

    filter: str
    qos: int = 0
    name: str | None = None
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int | None = None
    properties: UserProperties = ()
    """The `nc-` properties, as given."""
    extra: bytes = b""
    countable: SubjectPermissions | None = None
    """The subjects whose events its filter may count; None: all."""


class Live(Struct, frozen=True):
    """A live event: retained, valid for a while, or an object's latest version."""

    key: str
    event: Event
    expires: float | None = None


def encoded(value: object) -> bytes:
    """Return an encoded value of plain types or structs, preceded by the version."""
    try:
        return bytes((VERSION,)) + msgspec.msgpack.encode(value)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"cannot keep {type(value).__name__}: {error}") from None


def decoded(data: bytes, form: type[T]) -> T:
    """Return the decoded value; raises an error if it is newer or damaged."""
    if data[:1] != bytes((VERSION,)):
        raise newer(f"a kept {_called(form)}", data[0] if data else 0, VERSION)
    try:
        return msgspec.msgpack.decode(memoryview(data)[1:], type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptError(f"a kept {_called(form)} cannot be read: {error}") from None


def _called(form: type) -> str:
    """A readable name of a form."""
    return form.__name__.strip("_").removeprefix("Stored").removesuffix("Form").lower()


class _LiveForm(Struct, array_like=True):
    row: Row
    expires: float | None


def encoded_live(live: Live) -> bytes:
    """Return an encoded live event, in the form of its log row."""
    record = Record(0, 0.0, Published(replace(live.event, expires_at=None)))
    return encoded(_LiveForm(record_row(record, ""), live.expires))


def decoded_live(key: str, data: bytes) -> Live:
    """Return the live event under a key."""
    form = decoded(data, _LiveForm)
    published = input_of(form.row)
    if not isinstance(published, Published):
        raise CorruptError(f"under the key {key!r} of a live event is a {form.row.kind}")
    return Live(key, replace(published.event, expires_at=form.expires), form.expires)


def encoded_input(value: Input) -> bytes:
    """Return an encoded input that stays in force, such as an announcement, a place or a right."""
    return encoded(record_row(Record(0, 0.0, value), ""))


def decoded_input(data: bytes) -> Input:
    """Return the input that `encoded_input` wrote."""
    return input_of(decoded(data, Row))


class _NodeForm(Struct, array_like=True):
    node: str
    position: Position | None
    position_at: float | None
    previous: Position | None
    previous_at: float | None
    attributes: msgspec.Raw
    changed_at: float | None
    seq: int | None = None


def encoded_node(state: NodeState, seq: int) -> bytes:
    """Return the encoded state of a node as of the log row `seq`."""
    # JSON inside: attributes may be integers of any size, and msgpack is limited to 64 bits.
    attributes = msgspec.Raw(msgspec.msgpack.encode(msgspec.json.encode(state.attributes)))
    form = _NodeForm(
        state.node, state.position, state.position_at, state.previous, state.previous_at,
        attributes, state.changed_at, seq,
    )  # fmt: skip
    return encoded(form)


def decoded_node(data: bytes) -> tuple[NodeState, int | None]:
    """Return the state that `encoded_node` wrote, and its log row.

    The row is None if it was written by a release that stored every state at once: it is then valid
    up to the last row.
    """
    form = decoded(data, _NodeForm)
    attributes = msgspec.json.decode(msgspec.msgpack.decode(form.attributes, type=bytes))
    state = NodeState(
        form.node, form.position, form.position_at, form.previous, form.previous_at,
        attributes, form.changed_at,
    )  # fmt: skip
    return state, form.seq
