"""Erasing a person from the log: which rows tell of a node, and what is left of them.

Its own rows go, and so does what the pipeline published of it, with the record of who got that.
Where somebody else named it in passing (round whom an area is, who is a friend, whose rights),
the row stays and has `(forgotten)` there, a node that never was: what becomes of the others does
not depend on the name. What others published stays theirs.
"""

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from nearcast.core.model.input_form import form_of
from nearcast.store.errors import StoreError
from nearcast.store.rows.row_json import Json, text
from nearcast.store.rows.row_kinds import DELIVERY, is_unknown
from nearcast.store.rows.rows import PIPELINE, Recipient, Row, erased, input_of, recipients_of

FORGOTTEN = "(forgotten)"


class Erasure:
    """The erasing of one node from a log: ask for each row once, in the order of the log."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._name = name_pattern(node)
        self._events: set[tuple[str | None, str | None]] = set()
        """What the pipeline published and is erased, by publisher and id."""
        self._subscriptions: set[str] = set()
        """Subscriptions that are erased; they are in no record of deliveries either."""

    def concerns(self, row: Row) -> bool:
        """Decide whether a row is another when the node is forgotten."""
        return self.left(row) is not row

    def left(self, row: Row) -> Row:
        """Return what is left of a row."""
        found = self._left(row)
        if row.kind == "subscription":
            name = str(_decoded(row.data).get("id"))
            if found.kind == row.kind:
                self._subscriptions.discard(name)
            else:
                self._subscriptions.add(name)
        return found

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
            return self._unknown_left(row) if is_unknown(row.kind) else row
        value = _decoded(row.data)
        if form.sessions is not None:
            return self._sessions_left(row, value, form.sessions)
        # The subjects that others announce are their own words, as those that they publish.
        of_it = not form.own_subject and self._is_told(row.subject or "")
        if not of_it and not any(map(self._is_told, _texts(value, form.member_names))):
            return row
        kept = form.renamed
        if of_it or kept is None or any(self._is_told(str(value.get(name))) for name in kept):
            return erased(row)
        renamed = replace(row, data=text(self._renamed(value, form.member_names)))
        return renamed if _is_readable(renamed) else erased(row)

    def _is_found_of_it(self, row: Row) -> bool:
        """Whether a row is of an event by which the pipeline told of the node."""
        # What the pipeline found may be about anyone: who met whom, who was there.
        if not (row.publisher or "").startswith(PIPELINE):
            return False
        if (row.publisher, row.event_id) in self._events:
            return True
        told = [row.subject or "", row.event_id or "", *(value for _, value in row.properties)]
        if row.kind == "event":
            told += (*_texts(_json(row.payload or b"")), *_texts(_json(row.data)))
        return any(map(self._is_told, told))

    def _unknown_left(self, row: Row) -> Row:
        """Nothing of a row that names the node: what it means is not known, and decides nothing."""
        told = [row.subject or "", row.event_id or ""]
        told += (word for pair in row.properties for word in pair)
        for value in (row.payload or b"", row.headers or b"", row.data):
            told += _texts(_json(value), also_names=True)
        return erased(row) if any(map(self._is_told, told)) else row

    def _delivery_left(self, row: Row) -> Row:
        """Return to whom else an event went."""
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
        names = msgspec.convert(value[member], list[str])
        others = [name for name in names if not self._is_own(name)]
        return row if others == names else replace(row, data=text(value | {member: others}))

    def _is_own(self, session: str) -> bool:
        return session == self._node or session.startswith(f"{self._node}~")

    def _is_told(self, told: str) -> bool:
        return self._name.search(told) is not None

    def _renamed(self, value: Json, also_names: bool) -> Json:
        def change(told: str) -> str:
            return self._name.sub(FORGOTTEN, told)

        return _changed(value, change, change if also_names else str)  # type: ignore[return-value]


def name_pattern(node: str) -> re.Pattern[str]:
    """Return what finds a name, also percent-encoded, where it is not a part of a longer one."""
    # Earlier releases encoded no more in subjects than what would end a level.
    level = re.sub(r"[%/+#]", lambda found: quote(found[0], safe=""), node)
    forms = sorted({node, level, quote(node, safe="")}, key=len, reverse=True)
    either = "|".join(map(re.escape, forms))
    return re.compile(rf"(?<![\w%*-])(?<!\w\.)(?:{either})(?![\w%*-]|\.\w)")


def _json(told: bytes | str) -> object:
    """Return what JSON says; what is none is one text."""
    try:
        return msgspec.json.decode(told)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return told if isinstance(told, str) else told.decode(errors="replace")


def _decoded(data: str) -> Json:
    value = _json(data)
    return value if isinstance(value, dict) else {"": value}


def _texts(value: object, also_names: bool = False) -> Iterator[str]:
    """Yield all texts in a JSON value, those that name members only if they are asked for."""
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
    """Whether a row has kept its form: a name may be a word of the form itself, such as `and`."""
    try:
        input_of(row)
    except StoreError:
        return False
    return True
