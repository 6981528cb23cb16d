"""Refusals of messages for want of disk space.

A message of QoS 1 or 2 is refused before anything of it is noted: noting it would need the disk.
MQTT 5 has a reason code for that; a client of MQTT 3 is disconnected without an acknowledgement,
and sends the message again when it comes back.
"""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.durability.disk_space import DiskStage
from nearcast.broker.ingest.acknowledgements import Acknowledger
from nearcast.broker.ingest.pending_inputs import Answer
from nearcast.broker.ingest.publish_request import PUBLISH_TOPIC, PublishChecks, PublishRequest
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import Session
from nearcast.wire.handover import PREFIX as HANDOVER
from nearcast.wire.mqtt import MQTT_5, Publish, ReasonCode


class DiskRefusals:
    """Refuses what cannot be kept now."""

    def __init__(
        self, state: BrokerState, checks: PublishChecks, acknowledger: Acknowledger
    ) -> None:
        self._state = state
        self._checks = checks
        self._acknowledger = acknowledger

    def refuse(self, connection: Connection, session: Session, packet: Publish) -> bool:
        """Refuse a message of QoS 1 or 2 if the disk requires it; return whether it was."""
        if not packet.qos or (packet.qos == 2 and packet.packet_id in (session.received or ())):
            # One that was taken before is acknowledged as usual.
            return False
        topic = packet.topic
        properties = self._checks.properties_of(packet)
        if properties is not None and properties.topic_alias is not None:
            resolved = self._checks.unaliased(connection, packet, properties.topic_alias)
            if resolved is None:
                return True
            topic = resolved.topic
        refusal = self._refusal_of(topic)
        if refusal is None:
            return False
        state = self._state
        state.counters["refused_for_space"] += 1
        if connection.version != MQTT_5:
            state.close(connection, refusal.reason, refusal.why)
            return True
        answer = Answer(connection, packet.qos, packet.packet_id, topic)
        is_behind = connection.waits
        connection.inbound += is_behind
        self._acknowledger.refuse_in_turn(connection, answer, refusal)
        if not is_behind:
            # It promises nothing, so it does not wait for the disk either.
            connection.acknowledgements -= 1
        return True

    def check_unpromised(self, request: PublishRequest) -> None:
        """Refuse an event of QoS 0 that would have to be stored or recorded."""
        if request.qos:
            return
        stays = request.retain or request.options.stays
        if (stays and self._state.disk.stage >= DiskStage.REFUSING) or self._is_lost(request.topic):
            self._state.counters["refused_for_space"] += 1
            raise self._refusal(request.topic)

    def _refusal_of(self, topic: str) -> RefusedError | None:
        disk = self._state.disk
        if topic.startswith(PUBLISH_TOPIC):
            topic = topic[len(PUBLISH_TOPIC) :]
        elif topic.startswith("$"):
            # Commands are few, and decisions depend on them. The pipeline keeps what it hands over
            # until it is acknowledged.
            return self._refusal(topic) if disk.failing and not topic.startswith(HANDOVER) else None
        if disk.stage >= DiskStage.REFUSING or self._is_lost(topic):
            return self._refusal(topic)
        return None

    def _is_lost(self, subject: str) -> bool:
        """True if an event would reach nobody, because it is decided from the log."""
        return self._state.engine.policy.is_elsewhere(subject)

    def _refusal(self, topic: str) -> RefusedError:
        why = f"{self._state.disk.why}; {topic} takes nothing until there is more"
        return RefusedError(ReasonCode.QUOTA_EXCEEDED, why)
