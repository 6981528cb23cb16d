"""Repeats: messages that a server sends again because it got no acknowledgement.

Both memories are bounded. A repeat that is no longer remembered, or looks new, is delivered again
rather than lost.
"""

from collections import OrderedDict
from collections.abc import Hashable

from nearcast.client.receive.received import Received
from nearcast.wire.mqtt import Publish

MOST = 10_000


class KnownEvents:
    """The last events of one subscription, by publisher and id."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, None] = OrderedDict()

    def is_repeat(self, event: Received) -> bool:
        """Return whether an event is a repeat, and remember it."""
        # Ids are unique per publisher only, and retained events come with every subscription.
        if event.id is None or event.publisher is None or event.retain or not event.qos:
            return False
        key = (event.publisher, event.id, event.subject, event.time, event.withdrawn)
        if key in self._known:
            return True
        self._known[key] = None
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return False


class SentTwice:
    """The last messages of QoS 1, by packet identifier."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: OrderedDict[int, int] = OrderedDict()

    def is_repeat(self, message: Publish) -> bool:
        """Return whether a message is marked as a repeat, and was received before."""
        if message.qos != 1:
            return False
        properties = message.properties.user_properties
        content = hash((message.topic, message.payload, properties))
        # An identifier is reused for other messages, so the content must be the same too.
        repeat = message.dup and self._known.get(message.packet_id) == content
        self._known.pop(message.packet_id, None)
        self._known[message.packet_id] = content
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return repeat

    def forget(self) -> None:
        """Forget all: the server has lost the session."""
        self._known.clear()
