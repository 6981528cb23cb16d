"""Erasing a person from what waits for brokers: rows about them go, and they as recipients.

Parts are replaced whole, so that a sender reads either form. What entries say of their size stays
as it was.
"""

from pathlib import Path

from nearcast.pipeline.sink.backlog import PARTS, chunk_bytes, read_chunks
from nearcast.store.durable_files import write_whole
from nearcast.wire.handover import DeliveryRow, HandedRow, Packer, rows_in

BACKLOG = Path("checkpoints") / "backlog"


def forget_in_backlogs(data: Path, node: str) -> int:
    """Remove a node from all that waits for brokers; return the number of rows affected."""
    return sum(_rewrite(path, node) for path in (data / BACKLOG).glob(f"*/{PARTS}/*"))


def _rewrite(path: Path, node: str) -> int:
    packer, touched = Packer(1 << 30), 0
    packets: list[bytes] = []
    try:
        for chunk in read_chunks(path):
            for row in rows_in(chunk):
                left = _without(row, node)
                touched += left != row
                if left is not None:
                    packets += packer.add(left)
    except FileNotFoundError:
        return 0  # It was sent meanwhile.
    packets += packer.rest()
    if touched:
        write_whole(path, b"".join(map(chunk_bytes, packets)))
    return touched


def _without(row: HandedRow, node: str) -> HandedRow | None:
    """Return a row without a node; None if nothing is left of it."""
    if row.publisher == node:
        return None
    if not isinstance(row, DeliveryRow):
        return None if node in row.about else row
    others = tuple(each for each in row.recipients if each.session.partition("~")[0] != node)
    if len(others) == len(row.recipients):
        return row
    return row.to_only(others) if others else None
