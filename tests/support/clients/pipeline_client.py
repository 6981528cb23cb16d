"""What a pipeline sends to a broker: rows, stages and releases."""

from nearcast.testing import ClientOptions, Receipt, VirtualClient
from nearcast.testing.virtual_broker import PIPELINE_TOKEN
from nearcast.wire.handover import (
    DeliveryRow,
    EventRow,
    HandedRow,
    Release,
    RowRecipient,
    Staged,
    manifest_bytes,
    packets,
)

LASTING = ClientOptions(session_expiry_s=3_600, clean_start=False, keep_alive_s=5)
PIPELINE = ClientOptions(username="$pipeline", password=PIPELINE_TOKEN.encode())

LARGEST = 1 << 19


def event(text: str, qos: int = 2) -> EventRow:
    return EventRow(text, "spots/park", text.encode(), qos=qos)


def delivery(text: str, *recipients: RowRecipient, qos: int = 2) -> DeliveryRow:
    return DeliveryRow(text, "spots/park", text.encode(), "ann", 1.5, recipients, qos=qos)


def to(session: str, topic_filter: str = "spots/#") -> RowRecipient:
    return RowRecipient(session, (f"{session}\0{topic_filter}",))


def stage(
    client: VirtualClient,
    rows: list[HandedRow],
    epoch: int = 0,
    *,
    query: str = "q",
    partition: int = 0,
    attempt: str = "a",
    largest: int = LARGEST,
) -> int:
    """Stage each row in a packet of its own, or several; return how many there were."""
    sent = [packet for row in rows for packet in packets([row], largest)]
    for number, packet in enumerate(sent):
        client.publish(Staged(query, epoch, partition, attempt, number).topic, packet, qos=1)
    return len(sent)


def release(
    client: VirtualClient, *named: tuple[int, str, int], epoch: int = 0, query: str = "q"
) -> Receipt:
    return client.publish(Release(query, epoch).topic, manifest_bytes(list(named)), qos=1)
