"""What waits for a broker is on disk, in order, and forgets whom it should."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nearcast.pipeline.errors import PipelineError
from nearcast.pipeline.sink.backlog import PARTS, Backlog, Entry, PartWriter
from nearcast.pipeline.sink.backlog_erasure import BACKLOG, forget_in_backlogs
from nearcast.pipeline.sink.sink_options import SinkPart
from nearcast.wire.handover import (
    DeliveryRow,
    EventRow,
    HandedRow,
    RowJudged,
    RowRecipient,
    rows_in,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / BACKLOG / "west"


def part(
    directory: Path, rows: Sequence[HandedRow], epoch: int = 0, partition: int = 0, name: str = "a"
) -> SinkPart:
    with PartWriter(directory, SinkPart("west", "q", epoch, partition, name, 0)) as writer:
        writer.add(rows)
        return writer.finish()


def rows_of(backlog: Backlog, entry: Entry) -> list[HandedRow]:
    return [row for chunk in backlog.chunks(entry) for row in rows_in(chunk)]


def event(text: str, *about: str) -> EventRow:
    return EventRow(text, "t", text.encode(), about=about)


def test_rows_come_back_in_the_order_of_partitions_and_epochs(directory: Path) -> None:
    rows = [event(str(n)) for n in range(2_500)]
    backlog = Backlog(directory)
    first = backlog.add([part(directory, rows[2_000:], 0, 1), part(directory, rows[:2_000], 0, 0)])
    second = backlog.add([part(directory, [event("x")], 1)])
    for each in (backlog, Backlog(directory)):
        assert each.first == first
        assert (len(each), each.rows) == (2, 2_501)
        assert rows_of(each, first) == rows
        assert rows_of(each, second) == [event("x")]
    backlog.remove(first)
    assert Backlog(directory).first == second
    backlog.remove(second)
    assert (backlog.rows, backlog.size, backlog.first) == (0, 0, None)
    assert not list((directory / PARTS).iterdir())


def test_parts_that_do_not_count_are_deleted(directory: Path) -> None:
    backlog = Backlog(directory)
    part(directory, [event("of a task that failed")], name="failed")
    entry = backlog.add([part(directory, [event("1")], name="good")])
    part(directory, [event("1 again")], name="again")
    assert backlog.add([part(directory, [event("1")], name="more")]) == entry
    assert [path.name for path in (directory / PARTS).iterdir()] == list(entry.parts)
    assert rows_of(backlog, entry) == [event("1")]


def test_a_damaged_part_and_a_later_form_are_said(directory: Path) -> None:
    backlog = Backlog(directory)
    entry = backlog.add([part(directory, [event("1")])])
    path = directory / PARTS / entry.parts[0]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PipelineError, match="damaged"):
        rows_of(backlog, entry)
    (found,) = directory.glob("*.json")
    found.write_text(found.read_text().replace('"form":1', '"form":2'))
    with pytest.raises(PipelineError, match="later release"):
        Backlog(directory)


def test_a_person_is_forgotten_in_what_waits(tmp_path: Path, directory: Path) -> None:
    backlog = Backlog(directory)
    to = (RowRecipient("ann~phone", ("ann~phone\0s",)), RowRecipient("ben", ("ben\0s",)))
    judged = RowJudged(b"", (1,), 1, 0, ("ann~phone\0s", "ben\0s"))
    rows: list[HandedRow] = [
        event("of ben", "ben"),
        event("of both", "ann", "ben"),
        EventRow("by ann", "t", publisher="ann"),
        DeliveryRow("to both", "t", b"", "cleo", 1.0, to, judged=(judged,)),
        DeliveryRow("to ann", "t", b"", "cleo", 1.0, to[:1]),
        DeliveryRow("from ann", "t", b"", "ann", 1.0, to[1:]),
    ]
    entry = backlog.add([part(directory, rows)])
    assert forget_in_backlogs(tmp_path, "ann") == 5
    assert rows_of(backlog, entry) == [
        event("of ben", "ben"),
        DeliveryRow(
            "to both", "t", b"", "cleo", 1.0, to[1:],
            judged=(RowJudged(b"", (1,), 1, 0, ("ben\0s",)),),
        ),
    ]  # fmt: skip
    assert b"ann" not in b"".join(path.read_bytes() for path in (directory / PARTS).iterdir())
    assert forget_in_backlogs(tmp_path, "ann") == 0
