"""Wills: their checks, and their stored form."""

from msgspec.structs import replace

from nearcast.broker.auth import AuthRefusal
from nearcast.broker.auth.permissions import Permissions
from nearcast.broker.broker_state import BrokerState
from nearcast.broker.ingest.publish_request import request_of_will, with_smallest_people
from nearcast.broker.ingest.refusal import RefusedError
from nearcast.store import StoredMessage, StoredWill
from nearcast.wire.mqtt import Properties, Publish, ReasonCode, Will


def problem_with(will: Will, allowed: Permissions, state: BrokerState) -> AuthRefusal | None:
    """Return why a will is not allowed, or None if it is."""
    limits = state.limits
    topic, pairs = will.topic, will.properties.user_properties
    try:
        request = request_of_will(will)
        topic = request.topic
        with_smallest_people(state, topic, request.options, stays=request.retain)
    except RefusedError as error:
        return AuthRefusal(error.reason, f"the will: {error.why}")
    if topic.startswith("$"):
        return AuthRefusal(ReasonCode.TOPIC_NAME_INVALID, "a will cannot go to a $ topic")
    if len(topic.encode()) > limits.topic_bytes or topic.count("/") >= limits.topic_levels:
        why = f"a topic has at most {limits.topic_bytes} bytes and {limits.topic_levels} levels"
        return AuthRefusal(ReasonCode.TOPIC_NAME_INVALID, why)
    if len(pairs) > limits.user_properties:
        why = f"{len(pairs)} user properties; at most {limits.user_properties} are taken"
        return AuthRefusal(ReasonCode.QUOTA_EXCEEDED, why)
    if not allowed.may_publish(topic, will.qos, will.retain or request.options.stays):
        return AuthRefusal(ReasonCode.NOT_AUTHORIZED, f"a rule forbids the will to {topic!r}")
    return None


def stored_will(will: Will) -> StoredWill:
    """Return a will as the store keeps it."""
    raw = Publish(will.topic).with_(_without_delay(will.properties)).raw_properties
    message = StoredMessage(will.topic, will.payload, extra=raw)
    delay = float(will.properties.will_delay_interval or 0)
    return StoredWill(message, will.qos, will.retain, delay)


def restored_will(stored: StoredWill) -> Will:
    """Return a stored will as an MQTT will; its delay is kept separately."""
    message = stored.message
    properties = Publish(message.topic, raw_properties=message.extra).properties
    return Will(message.topic, message.payload, stored.qos, stored.retain, properties)


def _without_delay(properties: Properties) -> Properties:
    return replace(properties, will_delay_interval=None)
