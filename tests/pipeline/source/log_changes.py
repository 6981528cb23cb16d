"""What happens to a log that is read: rows of other brokers, merges and damage."""

from pathlib import Path

from nearcast.store import Row
from nearcast.store.log.manifest import read_manifest
from nearcast.store.log.segments import merge_segments


def options(data: Path, **more: object) -> dict[str, str]:
    return {"path": str(data)} | {name: str(value) for name, value in more.items()}


def other(seq: int, broker: str, ingested: float) -> Row:
    return Row(broker, seq, "position", ingested, lat=1.0, lon=2.0, node="bus")


def merge(directory: Path, first: int, last: int) -> None:
    """Merge a log's segments as its broker does."""
    manifest = read_manifest(directory)
    low, high = manifest.at_number(first), manifest.at_number(last)
    parts = manifest.segments[low : high + 1]
    merged = merge_segments(directory, first, last, parts)
    manifest.segments[low : high + 1] = [merged]
    manifest.save()
    for part in parts:
        (directory / part.name).unlink()


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
