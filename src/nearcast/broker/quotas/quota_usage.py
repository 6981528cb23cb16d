"""How much of each resource is in use: by a session, by a user, in all.

The usage of a session is kept by client id and outlives the session, since its retained messages
and watched areas do.
"""

from collections.abc import Sequence

from nearcast.broker.quotas.quota import UNBOUNDED, Resource

_QUEUED = int(Resource.QUEUED_BYTES)
"""A plain number, since every queued message is counted: an enumeration is slower as an index."""
_NO_BOUNDS = [UNBOUNDED] * len(Resource)


class QuotaUsage:
    """What is in use of each resource, and the bounds; both in the order of `Resource`."""

    __slots__ = ("bounds", "name", "used")

    def __init__(self, name: str = "", bounds: Sequence[int] = _NO_BOUNDS) -> None:
        self.name = name
        self.bounds = bounds
        self.used = [0] * len(Resource)

    def has_room(self, resource: Resource, amount: int) -> bool:
        """Whether so much more is within the bound."""
        return self.used[resource] + amount <= self.bounds[resource]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in use."""
        return not any(self.used)


class UserUsage(QuotaUsage):
    """What all sessions of a user have in use."""

    __slots__ = ("sessions",)

    def __init__(self, name: str = "", bounds: Sequence[int] = _NO_BOUNDS) -> None:
        super().__init__(name, bounds)
        self.sessions = 0
        """The number of usages of sessions that belong to it."""


class SessionUsage(QuotaUsage):
    """What a session has in use; every change is one of its user and of the broker too."""

    __slots__ = ("_in_all", "is_open", "user")

    def __init__(
        self,
        name: str = "",
        bounds: Sequence[int] = _NO_BOUNDS,
        user: UserUsage | None = None,
        in_all: QuotaUsage | None = None,
    ) -> None:
        super().__init__(name, bounds)
        self.user = UserUsage() if user is None else user
        self._in_all = QuotaUsage() if in_all is None else in_all
        self.is_open = False
        """Whether there is a session of this client id."""

    @property
    def scopes(self) -> tuple[QuotaUsage, QuotaUsage, QuotaUsage]:
        """The session, its user and the broker."""
        return self, self.user, self._in_all

    def add(self, resource: Resource, amount: int) -> None:
        """Count more of a resource, or less."""
        self.used[resource] += amount
        self.user.used[resource] += amount
        self._in_all.used[resource] += amount

    def enqueue(self, size: int) -> bool:
        """Count the bytes of a queued message; False if its user or the broker has no room."""
        user, in_all = self.user, self._in_all
        of_user, of_all = user.used, in_all.used
        after, after_all = of_user[_QUEUED] + size, of_all[_QUEUED] + size
        if after > user.bounds[_QUEUED] or after_all > in_all.bounds[_QUEUED]:
            return False
        self.used[_QUEUED] += size
        of_user[_QUEUED] = after
        of_all[_QUEUED] = after_all
        return True

    def shortage(self, size: int) -> int:
        """How many queued bytes its user or the broker would have too many; 0 or less if none."""
        user, in_all = self.user, self._in_all
        return size + max(
            user.used[_QUEUED] - user.bounds[_QUEUED], in_all.used[_QUEUED] - in_all.bounds[_QUEUED]
        )

    def dequeue(self, size: int) -> None:
        """Count the bytes of a message that is no longer queued or in flight."""
        self.used[_QUEUED] -= size
        self.user.used[_QUEUED] -= size
        self._in_all.used[_QUEUED] -= size

    def has_shared_room(self, resource: Resource, amount: int) -> bool:
        """Whether its user and the broker have room for so much more."""
        return self.user.has_room(resource, amount) and self._in_all.has_room(resource, amount)

    def move_to(self, user: UserUsage) -> None:
        """Count everything as use of another user."""
        for resource, amount in enumerate(self.used):
            self.user.used[resource] -= amount
            user.used[resource] += amount
        self.user.sessions -= 1
        user.sessions += 1
        self.user = user
