"""What a broker keeps: sessions, subscriptions, messages, live events; and how each is written.

Everything is written with the version of its form in front. Fields may be added at the end with
a default, and then old values are still read; a value of a newer form is refused by name, never
guessed at.
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
from nearcast.store.rows.rows import Row, input_of, record_row

Pairs = tuple[tuple[str, str], ...]
"""User properties: in order, and a name may come more than once."""

VERSION = 1
T = TypeVar("T")


class StoredMessage(Struct, frozen=True, array_like=True, gc=False):
    """An application message on its way to one or many sessions; kept once."""

    topic: str
    payload: bytes
    publisher: str = ""
    expires: float | None = None
    properties: Pairs = ()
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    is_text: bool = False
    """MQTT's payload format indicator."""
    extra: bytes = b""
    """What else the broker needs; its own affair."""
    live_key: str | None = None
    """Of a live event, or of what withdraws one: its key."""
    enveloped: bool = False
    """The payload tells of the event, in JSON round what was published."""


class StoredWill(Struct, frozen=True):
    """What is published when a session's connection is lost."""

    message: StoredMessage
    qos: int = 0
    retain: bool = False
    delay_s: float = 0.0


class SessionOwner(Struct, frozen=True):
    """Whose a session is, and what rules looked at when its client last connected."""

    user: str | None = None
    """None: the anonymous, who are one user together."""
    address: str | None = None
    """None: not known, as it was kept by a release that did not say."""
    loopback: bool = False
    publish: tuple[str, ...] | None = None
    """The topics that a token lists for publishing; None: it lists none, or there was none."""
    subscribe: tuple[str, ...] | None = None
    superuser: bool = False
    """A token said so; the users file is asked anew each time."""
    in_users_file: bool = False
    is_broker: bool = False
    """A part of the broker itself: no rule bears on it."""


class StoredSession(Struct, frozen=True):
    """What outlives a connection."""

    id: str
    created: float
    user: str | None = None
    expiry_s: float | None = None
    """How long it is kept without a connection; None: for ever."""
    disconnected: float | None = None
    """Since when nobody is connected; None: somebody is."""
    will: StoredWill | None = None
    extra: bytes = b""
    owner: SessionOwner | None = None
    """None: a release kept it that did not say; `user` is known all the same."""
    notices: tuple[tuple[str, str], ...] = ()
    """What its client is to be told when it returns: topics and texts."""


class SubscriptionState(Struct, frozen=True):
    """A subscription as it was asked for: what its texts mean is worked out anew."""

    filter: str
    qos: int = 0
    name: str | None = None
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int | None = None
    properties: Pairs = ()
    """The `nc-` properties, as given."""
    extra: bytes = b""
    countable: SubjectPermissions | None = None
    """The subjects whose events its filter may count; None: all of them."""


class Live(Struct, frozen=True):
    """A live event: retained, valid for a while, or an object's latest version."""

    key: str
    event: Event
    expires: float | None = None


def encoded(value: object) -> bytes:
    """Return a value of plain parts or structs, with the version in front."""
    try:
        return bytes((VERSION,)) + msgspec.msgpack.encode(value)
    except (TypeError, OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"cannot keep {type(value).__name__}: {error}") from None


def decoded(data: bytes, form: type[T]) -> T:
    """Return the value, or say that it is newer or damaged."""
    if data[:1] != bytes((VERSION,)):
        raise newer(f"a kept {_called(form)}", data[0] if data else 0, VERSION)
    try:
        return msgspec.msgpack.decode(memoryview(data)[1:], type=form)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptError(f"a kept {_called(form)} cannot be read: {error}") from None


def _called(form: type) -> str:
    """What people call a form."""
    return form.__name__.strip("_").removeprefix("Stored").removesuffix("Form").lower()


class _LiveForm(Struct, array_like=True):
    row: Row
    expires: float | None


def encoded_live(live: Live) -> bytes:
    """Return a live event in the form of its row in the log."""
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
    """Return an input that stays in force, such as an announcement, a place or a right."""
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
    """Return what is known of a node by the rows of the log up to `seq`."""
    # JSON inside: integers of any size are attributes, and msgpack ends at 64 bits.
    attributes = msgspec.Raw(msgspec.msgpack.encode(msgspec.json.encode(state.attributes)))
    form = _NodeForm(
        state.node, state.position, state.position_at, state.previous, state.previous_at,
        attributes, state.changed_at, seq,
    )  # fmt: skip
    return encoded(form)


def decoded_node(data: bytes) -> tuple[NodeState, int | None]:
    """Return what `encoded_node` wrote, and up to which row of the log.

    None was written by a release that kept every state at once: it is true up to the last row.
    """
    form = decoded(data, _NodeForm)
    attributes = msgspec.json.decode(msgspec.msgpack.decode(form.attributes, type=bytes))
    state = NodeState(
        form.node, form.position, form.position_at, form.previous, form.previous_at,
        attributes, form.changed_at,
    )  # fmt: skip
    return state, form.seq
