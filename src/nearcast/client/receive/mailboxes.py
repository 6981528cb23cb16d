"""Mailboxes: one for each subscription of a node; an event is put into all that match.

A session gets one copy of an event, with the names of the matching subscriptions; without names its
subject decides. A full mailbox stops the reading of the socket, for all of them: nothing is
dropped. Events for a subscription from an earlier run of the program wait until it is subscribed to
again.
"""

import logging

from nearcast.client.protocol.repeats import KnownEvents, SentTwice
from nearcast.client.receive.receive_buffer import ReceiveBuffer
from nearcast.client.receive.received import Received, received
from nearcast.core.model.subject import subject_matches
from nearcast.logs import log_event
from nearcast.wire.mqtt import Publish, parse_filter

BUFFERED_BYTES = 16 << 20
UNCLAIMED = 1_000

log = logging.getLogger("nearcast.client")


class Mailbox:
    """Unread events of one subscription."""

    def __init__(self, label: str, pattern: str, most: int) -> None:
        self.label = label
        """The pattern as subscribed, or the name."""
        self._pattern = parse_filter(pattern).pattern
        self.arrivals = ReceiveBuffer[Received](most, BUFFERED_BYTES)
        self._known = KnownEvents()

    def fits(self, event: Received) -> bool:
        """Return whether an event is for this subscription."""
        if event.subscriptions:
            return self.label in event.subscriptions
        return subject_matches(self._pattern, event.subject)

    def put(self, event: Received) -> None:
        """Add an event, unless it is a repeat."""
        if not self._known.is_repeat(event):
            self.arrivals.put(event, event.size)


class Mailboxes:
    """All mailboxes of a node."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._boxes: list[Mailbox] = []
        self._sent_twice = SentTwice()
        self._unclaimed = ReceiveBuffer[Received](UNCLAIMED, BUFFERED_BYTES)
        self._closed: set[str] = set()
        self._kept: set[str] = set()
        self._resumed: bool | None = None
        self._over = False
        self._why: Exception | None = None
        self.received = 0
        """The number of received messages."""
        self.repeats = 0
        """The number of repeats among them."""

    def __len__(self) -> int:
        return sum(len(box.arrivals) for box in self._boxes) + len(self._unclaimed)

    @property
    def bytes(self) -> int:
        """The size of the unread events."""
        return sum(box.arrivals.bytes for box in self._boxes) + self._unclaimed.bytes

    @property
    def full(self) -> bool:
        """Whether reading should stop."""
        return self._unclaimed.full or any(box.arrivals.full for box in self._boxes)

    @property
    def overfull(self) -> bool:
        """Whether reading must stop, even if a caller awaits an answer."""
        return self._unclaimed.overfull or any(box.arrivals.overfull for box in self._boxes)

    def begin(self, session_present: bool) -> None:
        """Note whether the server has the session."""
        if self._resumed is None:
            self._resumed = session_present
        if not session_present:
            self._sent_twice.forget()

    def put(self, message: Publish) -> None:
        """Put a message into every matching mailbox."""
        self.received += 1
        if self._sent_twice.is_repeat(message):
            self.repeats += 1
            return
        event = received(message, self._version)
        boxes = [box for box in self._boxes if box.fits(event)]
        for box in boxes:
            box.put(event)
        if not boxes and self._may_be_claimed(event):
            self._hold(event)

    def end(self, why: Exception | None) -> None:
        """End all mailboxes: no more messages will come."""
        self._over, self._why = True, why
        for box in self._boxes:
            box.arrivals.end(why)

    def holds(self, label: str) -> bool:
        """Whether there is a mailbox for a subscription."""
        return any(box.label == label for box in self._boxes)

    def open(self, box: Mailbox) -> None:
        """Add a mailbox; unclaimed events that match are moved into it."""
        self._boxes.append(box)
        self._closed.discard(box.label)
        self._kept.discard(box.label)
        for event in self._unclaimed.take_all():
            if box.fits(event):
                box.put(event)
            else:
                self._unclaimed.put(event, event.size)
        if self._over:
            box.arrivals.end(self._why)

    def close(self, box: Mailbox, *, keep: bool = False) -> None:
        """Remove a mailbox; its events are dropped unless its subscription is kept."""
        self._boxes.remove(box)
        (self._kept if keep else self._closed).add(box.label)
        for event in box.arrivals.take_all():
            if keep:
                self._unclaimed.put(event, event.size)
        box.arrivals.end(None)

    def _may_be_claimed(self, event: Received) -> bool:
        """Whether the subscription of an unclaimed event may be subscribed to again."""
        if not self._kept.isdisjoint(event.subscriptions):
            return True
        return bool(self._resumed) and self._closed.isdisjoint(event.subscriptions)

    def _hold(self, event: Received) -> None:
        self._unclaimed.put(event, event.size)
        if len(self._unclaimed) == UNCLAIMED:
            names = ", ".join(event.subscriptions) or event.subject
            log_event(
                log, logging.ERROR, "nobody reads subscriptions of this session",
                events=UNCLAIMED, subscriptions=names,
                advice="no more is read until you subscribe to them or connect without resume",
            )  # fmt: skip
