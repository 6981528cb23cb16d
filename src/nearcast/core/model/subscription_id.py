"""Ids of subscriptions: the session, and a topic filter or a name within it.

Everywhere else an id is opaque text. Logs, stores and tables contain that text, so its form is
fixed: CLIENT NUL FILTER, or CLIENT NUL NUL NAME. MQTT allows NUL in neither.
"""

from typing import NamedTuple, Self

SEPARATOR = "\0"


class SubscriptionId(NamedTuple):
    """A subscription by topic filter (of a SUBSCRIBE) or, if `name` is set, by name."""

    client_id: str
    filter: str
    name: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an id; of a named subscription the text has no filter."""
        client_id, _, key = text.partition(SEPARATOR)
        if key.startswith(SEPARATOR):
            return cls(client_id, "", key[1:])
        return cls(client_id, key)

    @property
    def key(self) -> str:
        """Its text within its session."""
        return self.filter if self.name is None else f"{SEPARATOR}{self.name}"

    @property
    def text(self) -> str:
        """The id as text."""
        return f"{self.client_id}{SEPARATOR}{self.key}"

    @property
    def label(self) -> str:
        """What a user calls it: its name, or its filter."""
        return self.filter if self.name is None else self.name
