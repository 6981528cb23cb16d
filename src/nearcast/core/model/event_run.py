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
