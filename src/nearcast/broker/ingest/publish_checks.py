"""Vetting: what a message must keep to before it becomes an event.

Topics and aliases, user properties, rights, and room for what is to stay.
"""

from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.nc_properties import NO_EVENT_OPTIONS, EventOptions
from nearcast.core.model.event import Event
from nearcast.wire.mqtt import NO_PROPERTIES, Properties, Publish, ReasonCode


class PublishChecks:
    """Looks at messages closely; raises `RefusedError` for what may not be."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def unaliased(self, connection: Connection, packet: Publish, alias: int) -> Publish:
        """The message with the topic that its alias stands for; without one if that is wrong."""
        state = self._state
        if not 0 < alias <= state.limits.topic_aliases:
            why = f"topic alias {alias} is not from 1 to {state.limits.topic_aliases}"
            state.close(connection, ReasonCode.TOPIC_ALIAS_INVALID, why)
            return Publish("")
        if connection.aliases_in is None:
            connection.aliases_in = {}
        if packet.topic:
            connection.aliases_in[alias] = packet.topic
            return packet
        topic = connection.aliases_in.get(alias)
        if topic is None:
            why = f"topic alias {alias} was never given a topic"
            state.close(connection, ReasonCode.PROTOCOL_ERROR, why)
            return Publish("")
        return Publish(
            topic, packet.payload, packet.qos, packet.retain, packet.dup, packet.packet_id,
            packet.raw_properties,
        )  # fmt: skip

    def check_properties(self, packet: Publish, properties: Properties) -> None:
        """Refuse too many user properties, and text that is none."""
        most = self._state.limits.user_properties
        if len(properties.user_properties) > most:
            raise RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(properties.user_properties)} user properties; at most {most} are taken",
            )
        if properties.payload_format_indicator == 1:
            try:
                packet.payload.decode()
            except UnicodeDecodeError as error:
                raise RefusedError(
                    ReasonCode.PAYLOAD_FORMAT_INVALID,
                    f"the payload is said to be text, but byte {error.start} is no UTF-8",
                ) from None

    def check_topic(self, connection: Connection, packet: Publish, spoken: EventOptions) -> None:
        """Refuse topics that a client may not publish to, or that nobody may."""
        topic, limits = packet.topic, self._state.limits
        if topic[0] == "$":
            raise RefusedError(
                ReasonCode.NOT_AUTHORIZED, f"{topic!r} is not a topic that clients publish to"
            )
        if len(topic.encode()) > limits.topic_bytes or topic.count("/") >= limits.topic_levels:
            raise RefusedError(
                ReasonCode.TOPIC_NAME_INVALID,
                f"a topic has at most {limits.topic_bytes} bytes and {limits.topic_levels} levels",
            )
        self.check_rights(connection, packet, spoken)

    def check_rights(
        self, connection: Connection, packet: Publish, spoken: EventOptions = NO_EVENT_OPTIONS
    ) -> None:
        """Refuse what a rule forbids; to rules, all that stays is retained."""
        allowed, topic = connection.permissions, packet.topic
        if allowed.unrestricted:
            return
        if not allowed.may_publish(topic, packet.qos, packet.retain or spoken.stays):
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, f"a rule forbids publishing to {topic!r}")

    def check_place(self, connection: Connection, kind: str, name: str) -> None:
        """Refuse to change a place that a rule names to one who may not."""
        if not connection.permissions.may_change_place(kind, name):
            raise RefusedError(
                ReasonCode.NOT_AUTHORIZED,
                f"a rule names the place {kind}/{name}: it is changed by superusers, and by whom "
                "a rule allows that by name",
            )

    def check_room(self, session: Session, packet: Publish, spoken: EventOptions) -> None:
        """Refuse what is to stay where too much stays already."""
        valid_s = valid_for_s(packet, NO_PROPERTIES, spoken)
        if valid_s == 0.0 or not (packet.retain or valid_s or spoken.object is not None):
            return
        name = spoken.id or f"one of {len(self._state.retaining)}"
        event = Event(
            name, packet.topic, session.node, 0.0, object=spoken.object, retain=packet.retain
        )
        if not self._has_room(self._state.engine.live_key(event)):
            most = self._state.limits.retained
            why = f"there are {most} retained messages and live events; no more are taken"
            raise RefusedError(ReasonCode.QUOTA_EXCEEDED, why)

    def _has_room(self, key: str) -> bool:
        """Whether a message may stay under a key: instead of another, or as one more."""
        state = self._state
        if key in state.live or key in state.retaining:
            return True
        if len(state.live) + len(state.retaining) >= state.limits.retained:
            return False
        state.retaining.add(key)
        return True


def valid_for_s(packet: Publish, properties: Properties, spoken: EventOptions) -> float | None:
    """How long what stays is valid; an empty retained message ends what is there."""
    if packet.retain and not packet.payload:
        return 0.0
    if spoken.valid_s is not None or not packet.retain:
        return spoken.valid_s
    expiry = properties.message_expiry_interval
    return None if expiry is None else float(expiry)
