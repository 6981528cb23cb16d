"""Erasing a person from the log: the rows that name a node, and what remains of them.

The node's own rows are erased, and so are events that the pipeline published about it, with the
records of their deliveries. Where another node's row refers to it (the centre of an area, a friend,
the holder of rights), the row stays and has `(forgotten)` instead, a node that never existed:
decisions about other nodes do not depend on the name. Other publishers' events are kept.
"""

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from nearcast.core.model.input_form import form_of
from nearcast.core.model.subscription_id import SEPARATOR
from nearcast.store.errors import StoreError
from nearcast.store.rows.row_json import Json, text
from nearcast.store.rows.row_kinds import DELIVERY, NOTICE, is_unknown
from nearcast.store.rows.rows import PIPELINE, Recipient, Row, erased, input_of, recipients_of

FORGOTTEN = "(forgotten)"


class Erasure:
    """The erasure of one node from a log: call it for each row once, in the order of the log."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._name = name_pattern(node)
        self._events: set[tuple[str | None, str | None]] = set()
        """Erased events of the pipeline, by publisher and id."""
        self._subscriptions: set[str] = set()
        """Erased subscriptions; they are removed from records of deliveries too."""

    def concerns(self, row: Row) -> bool:
        """Return True if the erasure changes a row."""
        return self.left(row) is not row

    def left(self, row: Row) -> Row:
        """Return the remainder of a row."""
        found = self._left(row)
        if row.kind == "subscription":
            name = str(_decoded(row.data).get("id"))
            if found.kind == row.kind:
                self._subscriptions.discard(name)
            else:
                self._subscriptions.add(name)
        return found

    def sessions_left(self, sessions: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sessions, or subscriptions, that are not the node's."""
        return tuple(each for each in sessions if not self._is_own(each))

    def _left(self, row: Row) -> Row:
        if self._node in (row.publisher, row.node):
            return erased(row)
        if row.kind in ("event", DELIVERY):
            if self._is_found_of_it(row):
                self._events.add((row.publisher, row.event_id))
                return erased(row)
            return self._delivery_left(row) if row.kind == DELIVERY else row
        form = form_of(row.kind)
        if form is None:
            tells = row.kind == NOTICE or is_unknown(row.kind)
            return self._telling_left(row) if tells else row
        value = _decoded(row.data)
        if form.sessions is not None:
            return self._sessions_left(row, value, form.sessions)
        # The subjects that other nodes announce are their own words, like those they publish.
        of_it = not form.own_subject and self._is_told(row.subject or "")
        if not of_it and not any(map(self._is_told, _texts(value, form.member_names))):
            return row
        kept = form.renamed
        if of_it or kept is None or any(self._is_told(str(value.get(name))) for name in kept):
            return erased(row)
        renamed = replace(row, data=text(self._renamed(value, form.member_names)))
        return renamed if _is_readable(renamed) else erased(row)

    def _is_found_of_it(self, row: Row) -> bool:
        """True if a row belongs to an event of the pipeline about the node."""
        # Events of the pipeline may be about any node: encounters, visits.
        if not (row.publisher or "").startswith(PIPELINE):
            return False
        if (row.publisher, row.event_id) in self._events:
            return True
        told = [row.subject or "", row.event_id or "", *(value for _, value in row.properties)]
        if row.kind == "event":
            told += (*_texts(_json(row.payload or b"")), *_texts(_json(row.data)))
        return any(map(self._is_told, told))

    def _telling_left(self, row: Row) -> Row:
        """Erase a notice, or a row whose meaning is unknown, that names the node."""
        told = [row.subject or "", row.event_id or ""]
        told += (word for pair in row.properties for word in pair)
        for value in (row.payload or b"", row.headers or b"", row.data):
            told += _texts(_json(value), also_names=True)
        return erased(row) if any(map(self._is_told, told)) else row

    def _delivery_left(self, row: Row) -> Row:
        """Return a delivery record without the node's sessions and subscriptions."""
        recipients = recipients_of(row)
        others = [left for each in recipients if (left := self._recipient_left(each)) is not None]
        return row if others == recipients else replace(row, data=text({"to": others}))

    def _recipient_left(self, recipient: Recipient) -> Recipient | None:
        session, subscriptions, priority, replayed = recipient
        if self._is_own(session):
            return None
        others = tuple(each for each in subscriptions if each not in self._subscriptions)
        return (session, others, priority, replayed) if others or not subscriptions else None

    def _sessions_left(self, row: Row, value: Json, member: str) -> Row:
        """Return a row without the node's sessions."""
        names = msgspec.convert(value[member], tuple[str, ...])
        others = self.sessions_left(names)
        return row if others == names else replace(row, data=text(value | {member: others}))

    def _is_own(self, session: str) -> bool:
        session = session.partition(SEPARATOR)[0]
        return session == self._node or session.startswith(f"{self._node}~")

    def _is_told(self, told: str) -> bool:
        return self._name.search(told) is not None

    def _renamed(self, value: Json, also_names: bool) -> Json:
        def change(told: str) -> str:
            return self._name.sub(FORGOTTEN, told)

        return _changed(value, change, change if also_names else str)  # type: ignore[return-value]


def name_pattern(node: str) -> re.Pattern[str]:
    """Return a pattern for a name, also percent-encoded, but not within a longer name."""
    # Earlier releases encoded in subjects only the characters that would end a level.
    level = re.sub(r"[%/+#]", lambda found: quote(found[0], safe=""), node)
    forms = sorted({node, level, quote(node, safe="")}, key=len, reverse=True)
    either = "|".join(map(re.escape, forms))
    return re.compile(rf"(?<![\w%*-])(?<!\w\.)(?:{either})(?![\w%*-]|\.\w)")


def _json(told: bytes | str) -> object:
    """Return the decoded JSON; invalid JSON is returned as one text."""
    try:
        return msgspec.json.decode(told)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return told if isinstance(told, str) else told.decode(errors="replace")


def _decoded(data: str) -> Json:
    value = _json(data)
    return value if isinstance(value, dict) else {"": value}


def _texts(value: object, also_names: bool = False) -> Iterator[str]:
    """Yield all texts in a JSON value, with `also_names` also the names of members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, also_names)
    elif isinstance(value, dict):
        if also_names:
            yield from value
        for each in value.values():
            yield from _texts(each, also_names)


def _changed(value: object, change: Callable[[str], str], name: Callable[[str], str]) -> object:
    """Return a JSON value with its texts and the names of its members changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(each, change, name) for each in value]
    if isinstance(value, dict):
        return {name(of): _changed(each, change, name) for of, each in value.items()}
    return value


def _is_readable(row: Row) -> bool:
    """True if a row is still readable: a name may be a keyword of its form, such as `and`."""
    try:
        input_of(row)
    except StoreError:
        return False
    return True
