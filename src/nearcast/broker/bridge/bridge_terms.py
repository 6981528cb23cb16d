"""The terms of a bridge: what is carried, who it is on either side, and what it counts."""

from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.broker.auth.rules.topic_patterns import levels_of, overlaps
from nearcast.wire.mqtt import (
    MQTT_5,
    Connect,
    Packet,
    Properties,
    Subscribe,
    TopicFilter,
    Unsubscribe,
)

if TYPE_CHECKING:
    from nearcast.broker.server import Server

SUBSCRIBING = 0xFFFF
"""The packet identifier of SUBSCRIBE, which is far from those of messages."""


class BridgeTerms(Struct, frozen=True):
    """What is carried, and who the bridge is on either side."""

    node: str
    """Here."""
    client_id: str
    """There."""
    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]
    qos: int = 2
    username: str | None = None
    password: bytes | None = None

    @property
    def echoes(self) -> bool:
        """Whether something that is sent out would come back without No Local."""
        return any(
            overlaps(levels_of(one), levels_of(other))
            for one in self.incoming
            for other in self.outgoing
        )


class BridgeCounters(Struct):
    """What was carried so far, over all crossings."""

    in_total: int = 0
    out_total: int = 0
    ignored_total: int = 0
    """Came in and was not wanted, or was known already."""
    refused_total: int = 0
    """Not taken by the side that it was for."""


def opening(
    server: "Server",
    node: str,
    outgoing: tuple[str, ...],
    qos: int,
    *,
    retain_handling: int,
    properties: Properties,
) -> list[Packet]:
    """The first packets to this broker: exactly these subscriptions."""
    session = server.hub.sessions.get(node)
    stale = tuple(each for each in (session.granted if session else ()) if each not in outgoing)
    packets: list[Packet] = [Connect(node, MQTT_5, False, properties=properties)]
    if stale:
        packets.append(Unsubscribe(SUBSCRIBING, stale))
    if outgoing:
        filters = [TopicFilter(each, qos, True, True, retain_handling) for each in outgoing]
        packets.append(Subscribe(SUBSCRIBING, tuple(filters)))
    return packets
