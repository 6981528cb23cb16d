"""Shards: an engine may keep the subscriptions of some sessions only, and leave the rest to others.

All subscriptions of one session are in one shard, and so is its delivery state: what it has seen
or missed. Members of a shared group are in the shard of the group, which alone takes its turns.
Everything else (nodes, places, rights, announcements, live and recent events, sessions that have a
connection) is in every shard. The deliveries of all shards together are those of a whole engine.
"""

from collections.abc import Collection, Iterable
from zlib import crc32

from msgspec import Struct

from nearcast.core.model.event import Subscription


class Shard(Struct, frozen=True):
    """One of several shards; by default the only one."""

    number: int = 0
    of: int = 1

    @property
    def is_whole(self) -> bool:
        """True if it is the only shard."""
        return self.of == 1

    def has(self, name: str) -> bool:
        """True if a session or a shared group is in this shard."""
        # A hash of our own: that of Python differs between processes.
        return self.of == 1 or crc32(name.encode()) % self.of == self.number

    def has_subscription(self, subscription: Subscription) -> bool:
        """True if a subscription is in this shard."""
        return self.has(subscription.owner if subscription.group is None else subscription.group)

    def sessions_of(self, sessions: Collection[str]) -> Collection[str]:
        """Return the sessions that are in this shard."""
        return sessions if self.of == 1 else [each for each in sessions if self.has(each)]

    def subscriptions_of(self, subscriptions: Iterable[Subscription]) -> list[Subscription]:
        """Return the subscriptions that are in this shard."""
        if self.of == 1:
            return list(subscriptions)
        return list(filter(self.has_subscription, subscriptions))


WHOLE = Shard()
