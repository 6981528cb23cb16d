"""The permissions of a client, as the hub queries them."""

from collections.abc import Collection
from typing import Protocol

from nearcast.core.model.subject_permissions import SubjectPermissions


class Permissions(Protocol):
    """The permissions of one client."""

    @property
    def unrestricted(self) -> bool:
        """Whether no rule limits it, so that checks can be skipped."""

    def may_publish(self, topic: str, qos: int = 0, retain: bool = False) -> bool:
        """Whether it may publish."""

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether it may subscribe."""

    def may_change_place(self, kind: str, name: str) -> bool:
        """Whether it may change a place, if it may publish to its topic."""

    def readable(self, patterns: Collection[str]) -> SubjectPermissions | None:
        """The subjects of these patterns that it may subscribe to; None: all of them."""

    def script_rule(self, topic: str) -> bool | None:
        """What rules say of placing a script by a `$node/` topic; None: nothing."""

    def may_be(self, node: str) -> bool:
        """Whether rules allow its user to connect as a node, not necessarily its own."""


class _Anything:
    unrestricted = True

    def may_publish(self, topic: str, qos: int = 0, retain: bool = False) -> bool:
        return True

    def may_subscribe(self, topic_filter: str) -> bool:
        return True

    def may_change_place(self, kind: str, name: str) -> bool:
        return True

    def readable(self, patterns: Collection[str]) -> SubjectPermissions | None:
        return None

    def script_rule(self, topic: str) -> bool | None:
        return None

    def may_be(self, node: str) -> bool:
        return False


ANYTHING: Permissions = _Anything()


class _Nothing:
    unrestricted = False

    def may_publish(self, topic: str, qos: int = 0, retain: bool = False) -> bool:
        return False

    def may_subscribe(self, topic_filter: str) -> bool:
        return False

    def may_change_place(self, kind: str, name: str) -> bool:
        return False

    def readable(self, patterns: Collection[str]) -> SubjectPermissions | None:
        return SubjectPermissions(default=False)

    def script_rule(self, topic: str) -> bool | None:
        return False

    def may_be(self, node: str) -> bool:
        return False


NOTHING: Permissions = _Nothing()
