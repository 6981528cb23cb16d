"""The terms of a bridge: topic filters, its identity on either side, and its counters."""

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from nearcast.broker.auth.rules.topic_patterns import levels_of, overlaps
from nearcast.broker.situation.nc_properties import BRIDGE
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
"""The packet identifier of SUBSCRIBE, far from those of messages."""
AS_BRIDGE = ((BRIDGE, "1"),)
"""Tells either broker in CONNECT that the client speaks for others."""


class BridgeTerms(Struct, frozen=True):
    """The topic filters of a bridge, and its identity on either side."""

    node: str
    """Its node name in this broker."""
    client_id: str
    """Its client id at the other broker."""
    incoming: tuple[str, ...]
    outgoing: tuple[str, ...]
    qos: int = 2
    username: str | None = None
    password: bytes | None = None

    @property
    def echoes(self) -> bool:
        """Whether an outgoing message could be returned without No Local."""
        return any(
            overlaps(levels_of(one), levels_of(other))
            for one in self.incoming
            for other in self.outgoing
        )


class BridgeCounters(Struct):
    """Counts of forwarded messages, over all connections."""

    in_total: int = 0
    out_total: int = 0
    ignored_total: int = 0
    """Received, but not wanted or already known."""
    refused_total: int = 0
    """Not accepted by the receiving side."""


def opening(
    server: "Server",
    node: str,
    outgoing: tuple[str, ...],
    qos: int,
    *,
    retain_handling: int,
    properties: Properties,
) -> list[Packet]:
    """The first packets to this broker, which result in exactly these subscriptions."""
    session = server.hub.sessions.get(node)
    granted = () if session is None else session.granted.values()
    stale = tuple(each.wanted.filter for each in granted if each.wanted.filter not in outgoing)
    properties = replace(properties, user_properties=AS_BRIDGE)
    packets: list[Packet] = [Connect(node, MQTT_5, False, properties=properties)]
    if stale:
        packets.append(Unsubscribe(SUBSCRIBING, stale))
    if outgoing:
        filters = [TopicFilter(each, qos, True, True, retain_handling) for each in outgoing]
        packets.append(Subscribe(SUBSCRIBING, tuple(filters)))
    return packets
