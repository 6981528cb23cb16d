"""What a script may do: what both its sender and its host may; what it sees is its sender's."""

from collections.abc import Collection

from nearcast.broker.auth.permissions import Permissions
from nearcast.core.model.subject_permissions import SubjectPermissions


class ScriptPermissions:
    """The permissions of one script."""

    __slots__ = ("_host", "_sender")

    def __init__(self, sender: Permissions, host: Permissions) -> None:
        self._sender = sender
        self._host = host

    @property
    def unrestricted(self) -> bool:
        """Whether no rule limits it."""
        return self._sender.unrestricted and self._host.unrestricted

    def may_publish(self, topic: str, qos: int = 0, retain: bool = False) -> bool:
        """Whether both may publish."""
        sender, host = self._sender, self._host
        return sender.may_publish(topic, qos, retain) and host.may_publish(topic, qos, retain)

    def may_subscribe(self, topic_filter: str) -> bool:
        """Whether its sender may subscribe."""
        return self._sender.may_subscribe(topic_filter)

    def may_change_place(self, kind: str, name: str) -> bool:
        """Whether both may change a place."""
        return self._sender.may_change_place(kind, name) and self._host.may_change_place(kind, name)

    def readable(self, patterns: Collection[str]) -> SubjectPermissions | None:
        """The subjects of these patterns that its sender may subscribe to; None: all of them."""
        return self._sender.readable(patterns)

    def script_rule(self, topic: str) -> bool | None:
        """A script places no scripts."""
        return False

    def may_be(self, node: str) -> bool:
        """A script is no user."""
        return False
