"""`$me/nodes`: queries for nodes, answered on the same topic to the client only.

A query is JSON; the client gets answers after it subscribed to `$me/nodes`. The `id` of a query,
and its correlation data in MQTT 5, are returned with the answer.
"""

from collections import Counter

import msgspec

from nearcast.broker.delivery.dispatcher import DeliveryDispatcher
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import BAD, json_object
from nearcast.broker.situation.node_list import PAGE_BYTES, NodeList
from nearcast.broker.situation.topic_names import NODES
from nearcast.wire.mqtt import Properties, Publish, PublishFrame, ReasonCode

ASKED_MOST = 20
"""Queries per second and session; each may examine a thousand nodes."""
ROOM_BYTES = 1_024
"""Reserved in the client's maximum packet size for everything except the page."""


class NodeQuestions:
    """Handles node queries."""

    def __init__(
        self, driver: EngineDriver, dispatcher: DeliveryDispatcher, nodes: NodeList
    ) -> None:
        self._driver = driver
        self._dispatcher = dispatcher
        self._nodes = nodes
        self._second = 0
        self._counts: Counter[str] = Counter()

    def take(self, connection: Connection, session: Session, packet: Publish, now: float) -> None:
        """Answer a query; raises `RefusedError` if it is invalid."""
        granted = session.granted_filter(NODES)
        if granted is None:
            raise RefusedError(BAD, f"subscribe to {NODES} first: the answer comes there")
        self._count(session, now)
        query = json_object(packet.payload)
        mark = query.pop("id", None)
        # The answer reflects all earlier inputs.
        self._driver.step(now)
        most_bytes = PAGE_BYTES
        if connection.largest_packet:
            most_bytes = min(most_bytes, max(1, connection.largest_packet - ROOM_BYTES))
        found = self._nodes.answer(session.node, connection.permissions, query, most_bytes)
        members = found.as_value() if mark is None else {"id": mark, **found.as_value()}
        raw = b""
        correlation = packet.properties.correlation_data
        if correlation is not None:
            raw = Publish(NODES).with_(Properties(correlation_data=correlation)).raw_properties
        message = OutboundMessage(PublishFrame(NODES, msgspec.json.encode(members), raw))
        self._dispatcher.put(session, QueuedDelivery(message, min(1, granted.wanted.qos)))

    def _count(self, session: Session, now: float) -> None:
        if int(now) != self._second:
            self._second = int(now)
            self._counts.clear()
        self._counts[session.client_id] += 1
        if self._counts[session.client_id] > ASKED_MOST:
            raise RefusedError(
                ReasonCode.QUOTA_EXCEEDED, f"at most {ASKED_MOST} questions a second are answered"
            )
