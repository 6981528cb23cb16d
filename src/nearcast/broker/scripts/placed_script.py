"""A script as it is placed at a node, and as it is stored."""

from typing import Literal
from urllib.parse import quote

import msgspec
from msgspec import Struct

from nearcast.broker.situation.nc_properties import (
    NamedSubscriptionOptions,
    named_subscription_from_json,
)
from nearcast.store import SessionOwner

Action = Literal["add", "edit", "execute", "remove"]
EMPTY_STATE = b"{}"


class PlacedScript(Struct, frozen=True):
    """A script, who sent it, and where it runs."""

    node: str
    """The host."""
    id: str
    sender: str
    """The client id of the session that sent it."""
    owner: SessionOwner
    """Whose session that was."""
    host_owner: SessionOwner | None
    """Whose session the host's was when it was last seen; None: it was never."""
    source: str
    functions: tuple[str, ...]
    events: bytes
    """What it subscribes to, as given: a JSON array."""
    version: str
    """Differs from those of earlier and later scripts of this name."""
    problem: str = ""
    """Why it is stopped; empty if it runs."""

    @property
    def client_id(self) -> str:
        """The name of its session, and of it as a publisher."""
        return f"{self.node}~{self.id}"

    @property
    def sender_node(self) -> str:
        """The node that sent it."""
        return self.sender.partition("~")[0]

    @property
    def is_foreign(self) -> bool:
        """Whether another node than its host sent it."""
        return self.sender_node != self.node

    @property
    def topic(self) -> str:
        """The topic by which it is placed."""
        return script_topic(self.node, self.id)

    @property
    def size(self) -> int:
        """What it counts for in quotas, without its state."""
        return len(self.source.encode()) + len(self.events)


def script_topic(node: str, id_: str) -> str:
    """Return the topic by which a script is placed."""
    return f"$node/{quote(node, safe='')}/scripts/{quote(id_, safe='')}"


def subscriptions_of(events: bytes) -> tuple[NamedSubscriptionOptions, ...]:
    """Return what a script subscribes to; raises `RefusedError`.

    An event that was published with QoS 1 or 2 reaches it also after a restart, unless it asks for
    QoS 0.
    """
    found = []
    for each in msgspec.json.decode(events, type=list[str | dict[str, object]]):
        members = {"subject": each} if isinstance(each, str) else each
        found.append(named_subscription_from_json(msgspec.json.encode({"qos": 1, **members})))
    return tuple(found)
