"""A run of events: published by one session on one subject at once, as columns.

Its events differ in id and payload only. An `Event` is made only on access.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from nearcast.core.model.context import Attributes
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.position import Position

_NONE: Attributes = {}


class EventRun(Sequence[Event]):
    """Events that do not stay, without target, with attributes only in the payload."""

    __slots__ = (
        "expires_at", "headers", "ids", "payloads", "position", "publisher", "qos", "session",
        "subject", "time",
    )  # fmt: skip

    def __init__(
        self,
        ids: Sequence[str],
        subject: str,
        publisher: str,
        time: float,
        position: Position | None,
        payloads: Sequence[bytes],
        qos: int,
        session: str,
        headers: bytes,
        expires_at: float | None,
    ) -> None:
        self.ids = ids
        self.subject = subject
        self.publisher = publisher
        self.time = time
        self.position = position
        self.payloads = payloads
        self.qos = qos
        self.session = session
        self.headers = headers
        self.expires_at = expires_at

    def is_continued_by(self, other: "EventRun") -> bool:
        """True if the events of another run differ from these in id and payload only."""
        return (
            self.subject == other.subject
            and self.publisher == other.publisher
            and self.time == other.time
            and self.position == other.position
            and self.qos == other.qos
            and self.session == other.session
            and self.headers == other.headers
            and self.expires_at == other.expires_at
        )

    def without_headers(self) -> "EventRun":
        """The same events without the properties that are forwarded."""
        return EventRun(
            self.ids, self.subject, self.publisher, self.time, self.position, self.payloads,
            self.qos, self.session, b"", self.expires_at,
        )  # fmt: skip

    @property
    def origin(self) -> str:
        """The session that published them."""
        return self.session or self.publisher

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> "EventRun": ...
    def __getitem__(self, index: int | slice) -> "Event | EventRun":
        if isinstance(index, slice):
            return EventRun(
                self.ids[index], self.subject, self.publisher, self.time, self.position,
                self.payloads[index], self.qos, self.session, self.headers, self.expires_at,
            )  # fmt: skip
        return self._event(self.ids[index], self.payloads[index])

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, self.ids, self.payloads)

    def _event(self, name: str, payload: bytes) -> Event:
        # Positional: keyword arguments would take longer than everything else.
        return Event(
            name, self.subject, self.publisher, self.time, _NONE, self.position, False, None,
            None, None, False, None, None, payload, self.qos, self.session, False, (), None,
            self.headers, self.expires_at,
        )  # fmt: skip


def joined_runs(runs: Sequence[Sequence[Event]]) -> Sequence[Event]:
    """Return the events of some runs, as one run if they differ in id and payload only."""
    if len(runs) == 1:
        return runs[0]
    same = [each for each in runs if isinstance(each, EventRun)]
    if len(same) == len(runs) and all(same[0].is_continued_by(each) for each in same):
        whole = same[0]
        return EventRun(
            [name for each in same for name in each.ids], whole.subject, whole.publisher,
            whole.time, whole.position, [payload for each in same for payload in each.payloads],
            whole.qos, whole.session, whole.headers, whole.expires_at,
        )  # fmt: skip
    return [event for each in runs for event in each]
