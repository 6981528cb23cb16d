"""Scripts that have something to read, in turns of their senders' users.

Who placed a thousand scripts does not make the one of another wait behind all of them.
"""

from collections import OrderedDict

from nearcast.broker.quotas.quota_book import user_name
from nearcast.broker.scripts.hosted_script import HostedScript


class ReadyScripts:
    """Scripts in the order in which their calls begin."""

    def __init__(self) -> None:
        self._by_user: OrderedDict[str, dict[HostedScript, None]] = OrderedDict()
        """The user whose turn is next comes first, and so does its script."""
        self._users: dict[HostedScript, str] = {}

    def __bool__(self) -> bool:
        return bool(self._users)

    def add(self, script: HostedScript) -> None:
        """Add a script, behind those of its user, unless it is there."""
        if script not in self._users:
            user = self._users[script] = user_name(script.placed.owner)
            self._by_user.setdefault(user, {})[script] = None

    def discard(self, script: HostedScript) -> None:
        """Remove a script, if it is there."""
        user = self._users.pop(script, None)
        if user is not None:
            del self._by_user[user][script]
            if not self._by_user[user]:
                del self._by_user[user]

    def pop(self) -> HostedScript:
        """Remove and return the next script; its user is the last one then."""
        user, scripts = next(iter(self._by_user.items()))
        script = next(iter(scripts))
        self._by_user.move_to_end(user)
        self.discard(script)
        return script
