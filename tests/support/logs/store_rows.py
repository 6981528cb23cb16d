"""What the tests of the store write: rows, messages, and a broker's directory to put them in."""

from pathlib import Path

import pyarrow as pa

from nearcast.core.engine.engine import Record
from nearcast.core.model import Event, Position
from nearcast.core.model.inputs import Published
from nearcast.store import (
    Gap,
    LogSettings,
    Row,
    RowBuffer,
    SessionPut,
    Store,
    StoredMessage,
    StoredSession,
    record_row,
    rows_of,
)

BROKER = "dublin-1"
AT_ONCE = LogSettings(roll_s=0.0)


def opened(data: Path, settings: LogSettings | None = None) -> Store:
    return Store(data, BROKER, settings)


def rows(first: int, last: int, payload: bytes = b'{"speed": 12}') -> list[Row]:
    return [row(seq, payload) for seq in range(first, last + 1)]


def row(seq: int, payload: bytes = b'{"speed": 12}') -> Row:
    event = Event(
        f"e{seq}", "city/bus", "bus-7", 1.7e9 + seq, {}, Position(53.3, -6.2), payload=payload
    )
    return record_row(Record(seq, 1.7e9 + seq, Published(event)), BROKER)


def message(text: str = "hello") -> StoredMessage:
    return StoredMessage("city/bus", text.encode(), "bus-7")


def session(name: str) -> SessionPut:
    return SessionPut(StoredSession(name, 1.7e9))


def write_segments(store: Store, count: int, size: int = 10) -> None:
    """Commit `count` ticks of `size` rows and roll each into a segment."""
    for _ in range(count):
        store.commit([], RowBuffer.of(rows(store.seq + 1, store.seq + size)), now=0.0)
        assert store.roll(now=10.0) is not None


def seqs(read: list[pa.RecordBatch | Gap]) -> list[int]:
    """The seqs of all rows read, those in gaps negative."""
    found: list[int] = []
    for part in read:
        if isinstance(part, Gap):
            found += range(-part.first_seq, -part.last_seq - 1, -1)
        else:
            found += [each.seq for each in rows_of(part)]
    return found


def log_directory(data: Path) -> Path:
    return data / "brokers" / BROKER / "log"
