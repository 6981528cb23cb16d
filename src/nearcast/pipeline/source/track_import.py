"""Importing: tracks from a Parquet file as the log of a broker that saw them.

The file has a row for each fix, ordered by time: who (`entity_id`), when (`ts`), and where
(`lat`, `lon`). What cannot be a place is left out and counted. The log is a new broker's: one
that has rows already is not added to, as its numbers are its own.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from nearcast.core.degrees import (
    LARGEST_LATITUDE,
    LARGEST_LONGITUDE,
    TOLERANCE,
    clamped,
)
from nearcast.store import Row, RowBuffer, StoreError, broker_directory
from nearcast.store.log.manifest import Manifest, Whole, read_manifest
from nearcast.store.log.segments import write_segment

SEGMENT_ROWS = 100_000
_NEEDED = ("entity_id", "ts", "lat", "lon")


class Imported(Struct, frozen=True):
    """What became of a file."""

    rows: int
    segments: int
    no_place: int
    """Rows left out because their position is no place on Earth."""


def import_tracks(
    file: Path,
    data: Path,
    broker: str,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Write the fixes of a file as the log of a new broker under a data directory.

    Raises `StoreError` if the file lacks a column or is not in the order of time, or if the
    broker has a log; nothing is there of the broker's log then that a reader would take up.
    """
    directory = broker_directory(data, broker) / "log"
    directory.mkdir(parents=True, exist_ok=True)
    if read_manifest(directory, broker).last_seq:
        raise StoreError(f"{directory} has rows already; import under another broker's name")
    with pq.ParquetFile(file) as source:
        missing = [name for name in _NEEDED if name not in source.schema_arrow.names]
        if missing:
            raise StoreError(f"{file} has no column {', '.join(missing)}")
        total, seq, number, read = source.metadata.num_rows, 1, 1, 0
        manifest = Manifest(directory, Whole(broker))
        last = float("-inf")
        for batch in source.iter_batches(SEGMENT_ROWS, columns=list(_NEEDED)):
            read += batch.num_rows
            rows = list(_rows(batch, broker, seq))
            for row in rows:
                if row.ingested < last:
                    raise StoreError(f"{file} is not in the order of `ts`: see {row.node}")
                last = row.ingested
            if rows:
                manifest.segments.append(write_segment(directory, number, RowBuffer.of(rows)))
                number, seq = number + 1, seq + len(rows)
            if progress is not None:
                progress(read, total)
        # At the end, so that readers find all of it or nothing.
        manifest.save()
    return Imported(seq - 1, number - 1, total - (seq - 1))


def _rows(batch: pa.RecordBatch, broker: str, seq: int) -> Iterator[Row]:
    is_place = pc.and_(
        pc.less_equal(pc.abs(batch.column("lat")), LARGEST_LATITUDE + TOLERANCE),
        pc.less_equal(pc.abs(batch.column("lon")), LARGEST_LONGITUDE + TOLERANCE),
    )
    batch = batch.filter(pc.fill_null(is_place, False))
    micros = batch.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    nodes, lats, lons = (batch.column(name).to_pylist() for name in ("entity_id", "lat", "lon"))
    for at, (micro, node, lat, lon) in enumerate(zip(micros, nodes, lats, lons, strict=True)):
        lat, lon = clamped(lat, LARGEST_LATITUDE), clamped(lon, LARGEST_LONGITUDE)
        yield Row(broker, seq + at, "position", micro / 1_000_000, lat=lat, lon=lon, node=node)
