"""Subscribing: what clients want becomes subscriptions, once checked.

A subscription is (session, topic filter), replaced when it is subscribed to again. What is
refused says why and leaves the old one as it was.
"""

from nearcast.broker.broker_state import BrokerState, RefusedError
from nearcast.broker.connection import Connection
from nearcast.broker.session import Granted, Session
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Subscription
from nearcast.core.model.inputs import Subscribed, Unsubscribed
from nearcast.store import SubscriptionDropped, SubscriptionPut, SubscriptionState
from nearcast.wire.mqtt import (
    MQTT_5,
    NO_PROPERTIES,
    Properties,
    ReasonCode,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    encode_within,
    parse_filter,
)

NO_LIMIT = 1 << 28


class Subscribing:
    """Takes wishes from clients."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state

    def subscribe(self, connection: Connection, session: Session, packet: Subscribe) -> None:
        """Grant what can be granted, and say so."""
        reasons: list[ReasonCode] = []
        why: list[str] = []
        given = packet.properties.subscription_identifiers
        identifier = given[0] if given else None
        problem = self._problem_with(packet)
        for wanted in packet.filters:
            try:
                if problem is not None:
                    raise problem
                self._grant(connection, session, wanted, identifier)
                reasons.append(ReasonCode(wanted.qos))
            except RefusedError as refusal:
                self._state.counters["refused"] += 1
                reasons.append(refusal.reason)
                if refusal.why not in why:
                    why.append(refusal.why)
        answer = SubAck(packet.packet_id, tuple(reasons), _reason(connection, why))
        self._write(connection, answer)

    def unsubscribe(self, connection: Connection, session: Session, packet: Unsubscribe) -> None:
        """End subscriptions; those that are not there are named."""
        state = self._state
        reasons = []
        for topic_filter in packet.filters:
            if session.granted.pop(topic_filter, None) is None:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
                continue
            state.ask(Unsubscribed(subscription_id(session, topic_filter)))
            if session.durable:
                state.journal.note(SubscriptionDropped(session.client_id, topic_filter))
            reasons.append(ReasonCode.SUCCESS)
        self._write(connection, UnsubAck(packet.packet_id, tuple(reasons)))

    def _problem_with(self, packet: Subscribe) -> RefusedError | None:
        """Return why none of a packet's filters can be granted."""
        limits, pairs = self._state.limits, packet.properties.user_properties
        if len(packet.filters) > limits.filters_per_packet:
            return RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(packet.filters)} filters in one packet; at most "
                f"{limits.filters_per_packet} are taken",
            )
        if len(pairs) > limits.user_properties:
            return RefusedError(
                ReasonCode.QUOTA_EXCEEDED,
                f"{len(pairs)} user properties; at most {limits.user_properties} are taken",
            )
        for name, _ in pairs:
            if name.startswith("nc-"):
                return RefusedError(
                    ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"unknown property {name!r}"
                )
        return None

    def _grant(
        self,
        connection: Connection,
        session: Session,
        wanted: TopicFilter,
        identifier: int | None,
    ) -> None:
        state, limits = self._state, self._state.limits
        text = wanted.filter
        if len(text.encode()) > limits.topic_bytes or text.count("/") >= limits.topic_levels:
            raise RefusedError(
                ReasonCode.TOPIC_FILTER_INVALID,
                f"a filter has at most {limits.topic_bytes} bytes and {limits.topic_levels} levels",
            )
        try:
            parsed = parse_filter(text)
        except ModelError as error:
            raise RefusedError(ReasonCode.TOPIC_FILTER_INVALID, str(error)) from None
        is_new = text not in session.granted
        if is_new and len(session.granted) >= limits.subscriptions:
            raise RefusedError(
                ReasonCode.QUOTA_EXCEEDED, f"a session has at most {limits.subscriptions} of them"
            )
        allowed = connection.permissions
        if not allowed.unrestricted and not allowed.may_subscribe(text):
            raise RefusedError(ReasonCode.NOT_AUTHORIZED, f"a rule forbids subscribing to {text!r}")
        session.granted[text] = Granted(wanted, identifier)
        replay = wanted.retain_handling == 0 or (wanted.retain_handling == 1 and is_new)
        state.ask(Subscribed(subscription(session, wanted, parsed.pattern, parsed.group), replay))
        if session.durable:
            kept = SubscriptionState(
                text, wanted.qos, None, wanted.no_local, wanted.retain_as_published,
                wanted.retain_handling, identifier,
            )  # fmt: skip
            state.journal.note(SubscriptionPut(session.client_id, text, kept))

    def _write(self, connection: Connection, packet: SubAck | UnsubAck) -> None:
        limit = connection.largest_packet or NO_LIMIT
        data = encode_within(packet, connection.version, limit)
        if data is None:
            why = "the answer would be larger than the client takes"
            self._state.close(connection, ReasonCode.PACKET_TOO_LARGE, why)
            return
        connection.out.append(data)
        self._state.touch(connection)


def subscription_id(session: Session, topic_filter: str) -> str:
    """The id of a subscription: unique over all sessions."""
    return f"{session.client_id}\0{topic_filter}"


def subscription(
    session: Session, wanted: TopicFilter, pattern: str, group: str | None
) -> Subscription:
    """A subscription as the engine knows it."""
    return Subscription(
        subscription_id(session, wanted.filter),
        session.node,
        pattern,
        qos=wanted.qos,
        no_local=wanted.no_local,
        session="" if session.client_id == session.node else session.client_id,
        group=group,
    )


def _reason(connection: Connection, why: list[str]) -> Properties:
    if not why or connection.version != MQTT_5 or not connection.explains:
        return NO_PROPERTIES
    return Properties(reason_string="; ".join(why)[:1000])
