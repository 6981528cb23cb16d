"""How a queued message is written to a connection, and how it is stored."""

from math import ceil

from nearcast.broker.durability.journal import Journal
from nearcast.broker.net.connection import Connection
from nearcast.broker.sessions.outbound_message import QueuedDelivery
from nearcast.store import Enqueued, MessagePut, StoredMessage, encoded_basis
from nearcast.wire.mqtt import message_expiry, subscription_identifiers, user_properties

LONGEST_EXPIRY_S = 0xFFFF_FFFF


def write_delivery(delivery: QueuedDelivery, connection: Connection, now: float, dup: bool) -> bool:
    """Write a message to the connection; False if it exceeds the client's packet size."""
    if delivery.priority != delivery.told_priority:
        delivery.tell_priority()
    frame, version, encoder = delivery.message.frame, connection.version, connection.encoder
    if encoder is not None:
        frame = encoder.frame(delivery.message, connection)
    additions = b""
    if delivery.identifiers:
        additions = subscription_identifiers(delivery.identifiers)
    if delivery.expires_at is not None:
        left_s = ceil(min(delivery.expires_at - now, LONGEST_EXPIRY_S))
        additions += message_expiry(max(0, left_s))
    if delivery.metadata:
        additions += user_properties(delivery.metadata)
    if connection.chains is not None and _may_be_passed_on(delivery):
        whole = frame.at_most_once(version, additions=additions)
        connection.chains.collect(connection, frame.topic, whole)
        return True
    alias, known = connection.alias(frame) if connection.alias_most else (b"", False)
    additions += alias
    largest = connection.largest_packet
    if largest and frame.size(version, delivery.qos, additions, known) > largest:
        if alias and not known:
            connection.forget_alias(frame.topic)
        return False
    if delivery.qos:
        connection.out += frame.acknowledged(
            version, delivery.qos, delivery.packet_id, delivery.retain, dup, additions, known
        )
    else:
        connection.out.append(frame.at_most_once(version, delivery.retain, additions, known))
    return True


def _may_be_passed_on(delivery: QueuedDelivery) -> bool:
    """Whether other clients may get the same bytes, and none of them needs an acknowledgement."""
    return not (
        delivery.qos or delivery.retain or delivery.identifiers or delivery.expires_at is not None
    )


def store_delivery(client_id: str, delivery: QueuedDelivery, journal: Journal) -> None:
    """Note a queued message in the journal, with its content if that is not stored yet."""
    if not journal.keeps:
        return
    message = delivery.message
    if not message.message_id:
        message.message_id = next(journal.message_ids)
        frame = message.frame
        value = StoredMessage(
            frame.topic, frame.payload, message.publisher, message.expires_at,
            extra=frame.raw_properties, live_key=message.live_key, enveloped=message.enveloped,
            deadline=message.deadline,
        )  # fmt: skip
        journal.note(MessagePut(message.message_id, value))
    delivery.number = next(journal.queue_numbers)
    enqueued = Enqueued(
        client_id, delivery.number, message.message_id, delivery.qos, delivery.retain,
        delivery.priority, identifiers=delivery.identifiers,
        names=tuple(text for pair in delivery.metadata for text in pair), live_id=delivery.live_id,
        basis=encoded_basis(delivery.basis),
    )  # fmt: skip
    journal.note(enqueued)
