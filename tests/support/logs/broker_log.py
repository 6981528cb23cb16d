"""A broker's log, written and read."""

from collections.abc import Sequence
from pathlib import Path

from nearcast.store import Gap, LogReader, Row, broker_directory, rows_of
from nearcast.store.log.manifest import Manifest, Whole, read_manifest
from nearcast.store.log.segments import write_segment
from nearcast.store.rows.row_buffer import RowBuffer


def write_log(data: Path, broker: str, rows: Sequence[Row], per_segment: int = 100) -> Path:
    """Add rows to a broker's log under a data directory, and return the log's directory.

    The rows say their own broker and seq, which go on from what the log has; each segment takes
    `per_segment` of them.
    """
    directory = broker_directory(data, broker) / "log"
    directory.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(directory, broker)
    if not manifest.segments:
        manifest = Manifest(directory, Whole(broker))
        manifest.save()
    for start in range(0, len(rows), per_segment):
        part = rows[start : start + per_segment]
        manifest.append(write_segment(directory, manifest.next_number, RowBuffer.of(part)))
    return directory


def drop_segments(data: Path, broker: str, count: int) -> None:
    """Drop the oldest segments of a log that no broker has open, as retention does."""
    directory = broker_directory(data, broker) / "log"
    manifest = read_manifest(directory)
    whole, gone = manifest.whole, manifest.segments[:count]
    whole.segments[:] = manifest.segments[count:]
    whole.low, whole.low_seq = whole.segments[0].first, whole.segments[0].first_seq
    manifest.save()
    for segment in gone:
        (directory / segment.name).unlink()


def read_log(data: Path, broker: str = "local") -> list[Row]:
    """Return all rows of a broker's log; nothing may be missing."""
    found: list[Row] = []
    for part in LogReader(broker_directory(data, broker) / "log").read():
        assert not isinstance(part, Gap), part
        found += rows_of(part)
    return found


def count_rows(data: Path, kind: str, broker: str = "local") -> int:
    """Return how many rows of a kind are in a broker's log."""
    return sum(row.kind == kind for row in read_log(data, broker))
