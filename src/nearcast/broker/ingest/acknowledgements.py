"""Acknowledgements of the messages that clients send.

A message of QoS 1 or 2 is registered when it arrives and acknowledged when it is decided, in the
order of arrival. A refused message is acknowledged too; in MQTT 5 with the reason.
"""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.pending_inputs import Answer
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.quotas.quota import Resource
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.errors import ErrorReports
from nearcast.core.model.inputs import Announced, AreaWatched, Input, Published
from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    PacketType,
    Properties,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    ReasonCode,
    encode,
    encode_within,
    success,
)

_PUBACK, _PUBREC = PacketType.PUBACK, PacketType.PUBREC


class Acknowledger:
    """Acknowledges and refuses messages."""

    def __init__(self, state: BrokerState, errors: ErrorReports) -> None:
        self._state = state
        self._errors = errors

    def begin(self, connection: Connection, session: Session, packet: Publish) -> bool:
        """Register a message of QoS 1 or 2; False if it needs no further processing."""
        state = self._state
        if packet.qos == 2 and not session.usage.has_shared_room(Resource.PACKET_IDS, 1):
            why = state.quotas.problem_with(session.usage, {Resource.PACKET_IDS: 1})
            assert why is not None
            state.close(connection, ReasonCode.QUOTA_EXCEEDED, why)
            return False
        if packet.qos == 2 and not session.receive(packet.packet_id, state.journal):
            data = success(_PUBREC, packet.packet_id)
            state.acknowledge(connection, _PUBREC, data)
            return False
        connection.inbound += 1
        if connection.inbound > state.limits.receive_maximum and connection.version == MQTT_5:
            if packet.qos == 2:
                session.release(packet.packet_id, state.journal)
            why = f"more than {state.limits.receive_maximum} messages without an answer"
            state.close(connection, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, why)
            return False
        return True

    def accept(self, connection: Connection, qos: int, packet_id: int) -> None:
        """Acknowledge an accepted message, if its QoS requires it."""
        if qos:
            kind = _PUBACK if qos == 1 else _PUBREC
            self._state.acknowledge(connection, kind, success(kind, packet_id))

    def accept_in_turn(self, connection: Connection, packet: Publish) -> None:
        """Acknowledge an accepted message, after earlier messages that are still undecided."""
        answer = Answer(connection, packet.qos, packet.packet_id, packet.topic)
        if connection.waits:
            self._state.pending.answer_in_turn(answer, None)
        else:
            self.answer(answer, None)

    def accept_with(self, connection: Connection, packet: Publish, text: str) -> None:
        """Acknowledge an accepted message, with an answer for a client of MQTT 5."""
        if not packet.qos or connection.version != MQTT_5 or not connection.explains:
            self.accept(connection, packet.qos, packet.packet_id)
            return
        properties = Properties(reason_string=text)
        answer, kind = (PubAck, _PUBACK) if packet.qos == 1 else (PubRec, _PUBREC)
        form = answer(packet.packet_id, ReasonCode.SUCCESS, properties)
        # Without the text if the client takes no packet of that size.
        data = encode_within(form, MQTT_5, connection.largest_packet or 1 << 28)
        assert data is not None, "who takes a CONNACK takes this"
        self._state.acknowledge(connection, kind, data)

    def refuse_in_turn(self, connection: Connection, answer: Answer, refusal: RefusedError) -> None:
        """Refuse a message with a reason, after earlier messages that are still undecided."""
        self._state.counters["refused"] += 1
        if connection.waits:
            self._state.pending.answer_in_turn(answer, refusal)
        else:
            if connection.session is not None:
                self._errors.tell(connection.session, answer.topic, refusal.why)
            self.answer(answer, refusal)

    def answer(self, answer: Answer, refusal: RefusedError | None) -> None:
        """Send the acknowledgement of a decided message."""
        connection, packet_id = answer.connection, answer.packet_id
        connection.waits = False
        if not answer.qos or connection.session is None:
            return
        if refusal is None or connection.version != MQTT_5:
            # MQTT 3 has no refusal: the message is acknowledged and discarded.
            self.accept(connection, answer.qos, packet_id)
            return
        properties = Properties(reason_string=refusal.why) if connection.explains else NO_PROPERTIES
        form = PubAck if answer.qos == 1 else PubRec
        limit = connection.largest_packet or 1 << 28
        fitting = encode_within(form(packet_id, refusal.reason, properties), MQTT_5, limit)
        assert fitting is not None, "who takes a CONNACK takes this"
        # A PUBREC with a failure code completes the message.
        self._state.acknowledge(connection, _PUBACK, fitting)
        if answer.qos == 2:
            connection.session.release(packet_id, self._state.journal)

    def release(self, connection: Connection, session: Session, packet: PubRel) -> None:
        """Handle PUBREL: the client will not send this message again."""
        known = session.release(packet.packet_id, self._state.journal)
        reason = ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
        data = encode(PubComp(packet.packet_id, reason), connection.version)
        self._state.acknowledge(connection, PacketType.PUBCOMP, data)
        if not known:
            connection.acknowledgements -= 1


def refused_for(value: Input, why: str) -> RefusedError:
    """Return the refusal of an input, prefixed with the name of the faulty property."""
    if isinstance(value, Published) and value.event.to is not None:
        why = f"nc-to: {why}"
    elif isinstance(value, Announced):
        why = f'"to": {why}'
    elif isinstance(value, AreaWatched):
        why = f'"area": {why}'
    return RefusedError(ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, why)
