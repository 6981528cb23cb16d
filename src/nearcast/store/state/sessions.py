"""A session as one value, to be moved to another broker: export, and import with new numbers.

The value has the version of its form, the session, its subscriptions, its queue with the messages,
and the packet ids in use.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from nearcast.store.errors import CorruptError, newer
from nearcast.store.state.changes import Enqueued, MessagePut, SessionChange

FORM = 1
_MAGIC = b"nearcast session "


def session_value(changes: Iterable[SessionChange]) -> bytes:
    """Return a session's changes as one value."""
    return _MAGIC + bytes((FORM,)) + msgspec.msgpack.encode(list(changes))


def session_changes(
    value: bytes, message_ids: Iterator[int], queue_numbers: Iterator[int]
) -> list[SessionChange]:
    """Return the changes that build an exported session, under ids that are free here."""
    if not value.startswith(_MAGIC) or len(value) <= len(_MAGIC):
        raise CorruptError("this is not an exported session of Nearcast")
    form = value[len(_MAGIC)]
    if form > FORM:
        raise newer("the exported session", form, FORM)
    try:
        changes = _DECODER.decode(memoryview(value)[len(_MAGIC) + 1 :])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptError(f"the exported session cannot be read: {error}") from None
    ids = {0: 0}
    renumbered: list[SessionChange] = []
    for change in changes:
        if isinstance(change, MessagePut):
            ids[change.id] = next(message_ids)
            change = replace(change, id=ids[change.id])
        elif isinstance(change, Enqueued):
            if change.message not in ids:
                raise CorruptError(f"the exported session lacks message {change.message}")
            change = replace(change, message=ids[change.message], number=next(queue_numbers))
        renumbered.append(change)
    return renumbered


_DECODER: msgspec.msgpack.Decoder[list[SessionChange]] = msgspec.msgpack.Decoder(
    list[SessionChange]
)
