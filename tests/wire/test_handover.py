"""Topics, rows and packets of the handover."""

import random

import msgspec
import pytest

from nearcast.wire.handover import (
    CHUNK_DELIVERIES,
    Abort,
    DeliveryRow,
    HandedRow,
    HandoverError,
    Release,
    Staged,
    packets,
    parse_topic,
    rows_in,
)
from tests.support.clients.pipeline_client import (
    LARGEST,
    delivery,
    event,
    to,
)


def test_topics_and_rows_come_back_as_they_were() -> None:
    for topic in (Staged("a/b %2F", 3, 0, "x1", 7), Release("q", 0), Abort("ü", 10**17)):
        assert parse_topic(topic.topic) == topic
    chance = random.Random(3)
    for largest in (300, 5_000, LARGEST):
        rows: list[HandedRow] = []
        for number in range(200):
            people = [to(f"s{each}") for each in range(chance.choice((0, 1, 30, 2_500)))]
            rows.append(delivery(str(number), *people) if people else event("x" * number))
        back: list[HandedRow] = []
        parts = b""
        for packet in packets(rows, largest):
            assert len(packet) <= largest
            parts += packet[1:]
            if packet[0] != 1:
                back += rows_in(parts)
                parts = b""
        assert not parts
        assert _whole(back) == rows
    with pytest.raises(HandoverError, match="no rows"):
        rows_in(b"\x93\x01")


def _whole(rows: list[HandedRow]) -> list[HandedRow]:
    """Rows with the recipients of those that were shared out together again."""
    found: list[HandedRow] = []
    for row in rows:
        before = found[-1] if found else None
        if (
            isinstance(row, DeliveryRow)
            and isinstance(before, DeliveryRow)
            and before.id == row.id
            and len(before.recipients) % CHUNK_DELIVERIES == 0
        ):
            everyone = before.recipients + row.recipients
            found[-1] = msgspec.structs.replace(row, recipients=everyone)
        else:
            found.append(row)
    return found
