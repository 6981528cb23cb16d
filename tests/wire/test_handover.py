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
    RowJudged,
    RowRecipient,
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


def test_rows_that_an_earlier_release_staged_are_read() -> None:
    """They end with the headers."""
    row = delivery("1", to("bob"))
    (chunk,) = packets([row], LARGEST)
    (members,) = msgspec.msgpack.decode(chunk[1:])
    assert members[-3:] == [None, [], 0], "without these three bytes are all there is"
    assert rows_in(msgspec.msgpack.encode([members[:-2]])) == [row]


def test_a_row_for_some_recipients_has_what_was_judged_for_them_alone() -> None:
    judged = (
        RowJudged(b"", (1,), 1, 0, ("ann\0t", "bob\0t")),
        RowJudged(b"", (2,), 1, 0, ("ann\0u",)),
    )
    to_both = (RowRecipient("ann", ("ann\0t", "ann\0u")), RowRecipient("bob", ("bob\0t",)))
    row = msgspec.structs.replace(delivery("1", *to_both), judged=judged)
    only_bob = row.to_only(to_both[1:])
    assert only_bob.recipients == to_both[1:]
    assert only_bob.judged == (RowJudged(b"", (1,), 1, 0, ("bob\0t",)),)


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
