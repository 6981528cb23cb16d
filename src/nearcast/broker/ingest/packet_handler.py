"""Packets of clients other than PUBLISH: each is passed to the part that handles its kind."""

from collections.abc import Sequence

from nearcast.broker.auth.rights_review import RightsReview
from nearcast.broker.awareness.link_classes import LinkClasses
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.delivery.loss_reports import LossReports
from nearcast.broker.engine_driver import EngineDriver
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.filters_request import FiltersRequest
from nearcast.broker.ingest.subscribe import SubscribeHandler
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.connect_handler import ConnectHandler
from nearcast.broker.sessions.session import Session
from nearcast.broker.sessions.session_lifecycle import SessionLifecycle
from nearcast.wire.mqtt import (
    Auth,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    PubRec,
    PubRel,
    ReasonCode,
    Subscribe,
    TopicFilter,
    Unsubscribe,
    encode,
)

_PINGRESP = encode(PingResp())


class PacketHandler:
    """Processes packets of connections, in order."""

    def __init__(
        self,
        state: BrokerState,
        driver: EngineDriver,
        acknowledger: Acknowledger,
        subscribing: SubscribeHandler,
        lifecycle: SessionLifecycle,
        connect_handler: ConnectHandler,
        rights_review: RightsReview,
        loss_reports: LossReports,
        link_classes: LinkClasses,
    ) -> None:
        self._state = state
        self._driver = driver
        self._acknowledger = acknowledger
        self._subscribing = subscribing
        self._lifecycle = lifecycle
        self._connect_handler = connect_handler
        self._rights_review = rights_review
        self._loss_reports = loss_reports
        self._link_classes = link_classes

    def process(self, connection: Connection, packet: Packet) -> bool:
        """Process a packet other than a PUBLISH; raises `ProtocolError` if it is not allowed.

        Returns False if a part of it is left, for which this is to be called again.
        """
        if connection.request is None:
            self._state.traffic.other_packets += 1
        session = connection.session
        if isinstance(packet, Connect):
            self._connect_handler.receive(connection, packet)
        elif session is None:
            connection.close()
            self._state.touch(connection)
        elif isinstance(packet, Subscribe):
            self._state.is_woken = True
            return self._subscribe(connection, session, packet)
        elif isinstance(packet, Unsubscribe):
            self._state.is_woken = True
            self._driver.step(connection.heard_at)
            return self._subscribing.unsubscribe(connection, session, packet)
        else:
            self._handle(connection, session, packet)
        return True

    def _subscribe(self, connection: Connection, session: Session, packet: Subscribe) -> bool:
        request = connection.request
        filters = (FiltersRequest() if request is None else request).next_filters(packet.filters)
        if self._state.pending.has_events or _replaces(session, filters):
            # Earlier events are decided by the subscriptions in force when they came.
            self._driver.step(connection.heard_at)
        if not self._subscribing.subscribe(connection, session, packet):
            return False
        if self._rights_review.tell_waiting(session):
            self._lifecycle.keep(session)
        self._loss_reports.tell_subscriber(session)
        return True

    def _handle(self, connection: Connection, session: Session, packet: Packet) -> None:
        state = self._state
        if isinstance(packet, PubAck):
            if session.pace is not None:
                self._link_classes.acknowledged(connection, session, packet.packet_id)
            session.acknowledged(packet.packet_id, state.journal)
            state.touch(connection)
        elif isinstance(packet, PubComp):
            session.completed(packet.packet_id, state.journal)
            state.touch(connection)
        elif isinstance(packet, PubRec):
            self._receive_by_client(connection, session, packet)
        elif isinstance(packet, PubRel):
            self._acknowledger.release(connection, session, packet)
        elif isinstance(packet, PingReq):
            state.write(connection, _PINGRESP * packet.count)
        elif isinstance(packet, Disconnect):
            self._lifecycle.disconnect(connection, session, packet)
        elif isinstance(packet, Auth):
            why = "no authentication is under way"
            state.close(connection, ReasonCode.PROTOCOL_ERROR, why)

    def _receive_by_client(self, connection: Connection, session: Session, packet: PubRec) -> None:
        state = self._state
        if packet.reason_code.failed:
            session.refused_by_client(packet.packet_id, state.journal)
        else:
            reason = session.received_by_client(packet.packet_id, state.journal)
            state.write(connection, encode(PubRel(packet.packet_id, reason), connection.version))
        state.touch(connection)


def _replaces(session: Session, filters: Sequence[TopicFilter]) -> bool:
    """Whether filters replace a subscription."""
    return any(session.granted_filter(each.filter) is not None for each in filters)
