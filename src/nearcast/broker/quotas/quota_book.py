"""The book of quotas: who uses how much, whether more is allowed, and who is told when it is near.

What clients ask for is checked here before it is queued for the engine, and counted when it is in
force. In between it is reserved, so that the requests of one tick together stay within the bounds.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from nearcast.broker.auth.identities import counted_as
from nearcast.broker.config.settings import Limits
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.quotas.quota import (
    OF_SESSIONS,
    QUOTAS,
    Quota,
    Resource,
    bounds_in_all,
    bounds_of_session,
    bounds_of_user,
)
from nearcast.broker.quotas.quota_usage import QuotaUsage, SessionUsage, UserUsage
from nearcast.logs import log_event
from nearcast.store import SessionOwner
from nearcast.wire.mqtt import ReasonCode

log = logging.getLogger("nearcast.broker")

NEAR, FAR = 0.8, 0.7
"""A bound is near from the first part of it on, until less than the second is used."""
LOG_EVERY_S = 60.0
"""The log has at most one line about a resource in so many seconds."""
BROKER = "broker"
"""The user of parts of the broker itself; only the bounds of the whole broker apply to it."""

Amounts = Mapping[Resource, int]
Owner = SessionOwner | None


class QuotaBook:
    """The usage of all sessions and users, by name."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._session_bounds = bounds_of_session(limits)
        self._user_bounds = bounds_of_user(limits)
        self.in_all = QuotaUsage("", bounds_in_all(limits))
        self._sessions: dict[str, SessionUsage] = {}
        self._users: dict[str, UserUsage] = {}
        self.broker = SessionUsage("", user=UserUsage(BROKER), in_all=self.in_all)
        """For what belongs to no client: what the pipeline or an operator brought."""
        self.reserved: dict[tuple[Resource, str], tuple[SessionUsage, int]] = {}
        self.refusals = 0
        self.shortage = ""
        """Why nothing new is accepted now, whatever the bounds; empty if it is."""
        self._near: set[tuple[Resource, str, str]] = set()
        """Bounds that are near: the resource, the kind of the scope and its name."""
        self._logged_at: dict[Resource, float] = {}
        self._now = 0.0
        """The time of the latest `watch`."""

    # Sessions and users

    def open(self, client_id: str, owner: Owner) -> SessionUsage:
        """Return the usage of a new session."""
        usage = self.of(client_id, user_name(owner))
        usage.is_open = True
        usage.add(Resource.SESSIONS, 1)
        return usage

    def close(self, usage: SessionUsage) -> None:
        """Release everything that ends with a session."""
        for resource in OF_SESSIONS:
            usage.add(resource, -usage.used[resource])
        usage.is_open = False
        self.tidy(usage)

    def of(self, client_id: str, user: str | None = None) -> SessionUsage:
        """Return the usage of a client id; with `user`, count it as that user's from now on.

        Without one it is of the broker itself: the pipeline publishes for nodes.
        """
        usage = self._sessions.get(client_id)
        if usage is None:
            of_user = self._user(user or BROKER)
            usage = SessionUsage(client_id, self._bounds(of_user), of_user, self.in_all)
            of_user.sessions += 1
            self._sessions[client_id] = usage
        elif user is not None and usage.user.name != user:
            before = usage.user
            usage.move_to(self._user(user))
            usage.bounds = self._bounds(usage.user)
            self._drop_unused(before)
        return usage

    def find(self, client_id: str) -> SessionUsage | None:
        """Return the usage of a client id, if there is one."""
        return self._sessions.get(client_id)

    def tidy(self, usage: SessionUsage) -> None:
        """Drop the usage of a client id that has no session and uses nothing."""
        if not usage.is_open and usage.is_empty and self._sessions.get(usage.name) is usage:
            del self._sessions[usage.name]
            usage.user.sessions -= 1
            self._drop_unused(usage.user)

    def sessions(self) -> Iterator[SessionUsage]:
        """Yield the usage of all client ids."""
        yield from self._sessions.values()

    def users(self) -> Iterator[UserUsage]:
        """Yield the usage of all users."""
        yield from self._users.values()

    def _user(self, name: str) -> UserUsage:
        found = self._users.get(name)
        if found is None:
            bounds = self.broker.bounds if name == BROKER else self._user_bounds
            found = self._users[name] = UserUsage(name, bounds)
        return found

    def _bounds(self, user: UserUsage) -> Sequence[int]:
        """The bounds of a session of a user."""
        return self.broker.bounds if user.name == BROKER else self._session_bounds

    def _drop_unused(self, user: UserUsage) -> None:
        if not user.sessions:
            del self._users[user.name]

    # Requests

    def problem_with(self, usage: SessionUsage, amounts: Amounts) -> str | None:
        """Return why so much more of some resources is refused; None if it is not."""
        wanted = [(resource, amount) for resource, amount in amounts.items() if amount > 0]
        if wanted and self.shortage:
            self.refusals += 1
            return self.shortage
        for resource, amount in wanted:
            for scope in usage.scopes:
                if not scope.has_room(resource, amount):
                    self.refusals += 1
                    return self._refusal(QUOTAS[resource], scope, amount)
                self._watch(resource, scope, amount)
        return None

    def check(self, usage: SessionUsage, amounts: Amounts) -> None:
        """Raise `RefusedError` if so much more of some resources is not allowed."""
        problem = self.problem_with(usage, amounts)
        if problem is not None:
            raise RefusedError(ReasonCode.QUOTA_EXCEEDED, problem)

    def claim(self, usage: SessionUsage, key: str, amounts: Amounts) -> None:
        """Check what a request needs, and reserve it until the engine has decided.

        A later request under the same key takes the place of an earlier one.
        """
        before = [(each, *self.reserved.get((each, key), (usage, 0))) for each in amounts]
        for resource, other, amount in before:
            other.add(resource, -amount)
        try:
            self.check(usage, amounts)
        except RefusedError:
            for resource, other, amount in before:
                other.add(resource, amount)
            self.tidy(usage)
            raise
        for resource, amount in amounts.items():
            usage.add(resource, amount)
            self.reserved[resource, key] = usage, amount

    def anticipate(self, usage: SessionUsage, key: str, resource: Resource) -> None:
        """Count one less of a resource, since its end is queued already."""
        usage.add(resource, -1)
        self.reserved[resource, key] = usage, -1

    def settle(self) -> list[SessionUsage]:
        """Release all reservations; return whose they were, to be tidied after counting."""
        if not self.reserved:
            return []
        reserved, self.reserved = self.reserved, {}
        for (resource, _), (usage, amount) in reserved.items():
            usage.add(resource, -amount)
        return [usage for usage, _ in reserved.values()]

    def _refusal(self, quota: Quota, scope: QuotaUsage, amount: int) -> str:
        limits, used = self._limits, scope.used[quota.resource]
        bound = scope.bounds[quota.resource]
        more = "" if amount == 1 else f" and {amount} more were asked for"
        if isinstance(scope, SessionUsage):
            return (
                f"this session has {used} {quota.what}{more}; "
                f"limits.{quota.per_session} allows {bound}"
            )
        if isinstance(scope, UserUsage):
            return (
                f"{scope.name} has {used} {quota.what}{more}; limits.user_share allows one user "
                f"{bound} of the {getattr(limits, quota.in_all)} of limits.{quota.in_all}"
            )
        return (
            f"there are {used} {quota.what} in this broker{more}; "
            f"limits.{quota.in_all} allows {bound}"
        )

    # Warnings and figures

    def watch(self, now: float) -> None:
        """Log which bounds of the whole broker are near; called about once a second."""
        self._now = now
        for resource in Resource:
            self._watch(resource, self.in_all, 0)
        for near in [each for each in self._near if each[1] != ""]:
            if self._is_far(*near):
                self._near.discard(near)

    def _watch(self, resource: Resource, scope: QuotaUsage, amount: int) -> None:
        bound, used = scope.bounds[resource], scope.used[resource] + amount
        if used < FAR * bound:
            if self._near:
                self._near.discard((resource, _kind_of(scope), scope.name))
        elif used >= NEAR * bound and bound > 1:
            near, now = (resource, _kind_of(scope), scope.name), self._now
            if near in self._near or now - self._logged_at.get(resource, -inf) < LOG_EVERY_S:
                return
            self._near.add(near)
            self._logged_at[resource] = now
            quota = QUOTAS[resource]
            settings = {"session": quota.per_session, "user": "user_share"}
            fields = {near[1]: near[2]} if near[1] else {}
            log_event(
                log, logging.WARNING, "a limit is near", what=quota.what, used=used, bound=bound,
                setting=f"limits.{settings.get(near[1], quota.in_all)}", **fields,
            )  # fmt: skip

    def _is_far(self, resource: Resource, kind: str, name: str) -> bool:
        found: QuotaUsage | None = (self._users if kind == "user" else self._sessions).get(name)
        return found is None or found.used[resource] < FAR * found.bounds[resource]

    def statistics(self) -> dict[str, float]:
        """Use and bound of every resource in the whole broker."""
        found: dict[str, float] = {"quota_refusals_total": self.refusals}
        for resource in Resource:
            found[f"quota_{resource.label}"] = self.in_all.used[resource]
            found[f"quota_{resource.label}_bound"] = self.in_all.bounds[resource]
        return found

    def validate_state(self) -> None:
        """Assert that users and the broker have in use what their sessions have."""
        assert not self.reserved
        totals = [0] * len(Resource)
        of_users = {name: [0] * len(Resource) for name in self._users}
        counts = dict.fromkeys(self._users, 0)
        for name, usage in self._sessions.items():
            assert usage.name == name
            assert usage.is_open or not usage.is_empty, f"{name} uses nothing"
            assert min(usage.used) >= 0, f"{name}: {usage.used}"
            counts[usage.user.name] += 1
            for resource, amount in enumerate(usage.used):
                of_users[usage.user.name][resource] += amount
                totals[resource] += amount
        for name, user in self._users.items():
            assert user.used == of_users[name], f"{name}: {user.used}, but {of_users[name]}"
            assert user.sessions == counts[name] > 0
        everything = [a + b for a, b in zip(totals, self.broker.used, strict=True)]
        assert self.in_all.used == everything, f"{self.in_all.used}, but {everything}"


def user_name(owner: Owner) -> str:
    """Return the user that a session counts for: its own, or the address of anonymous clients."""
    if owner is None:
        return "anonymous clients"
    if owner.is_broker:
        return BROKER
    if owner.user is not None:
        return f"user {owner.user}"
    return f"address {counted_as(owner.address or '')}"


def _kind_of(scope: QuotaUsage) -> str:
    if isinstance(scope, SessionUsage):
        return "session"
    return "user" if isinstance(scope, UserUsage) else ""
