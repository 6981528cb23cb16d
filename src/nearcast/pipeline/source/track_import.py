"""Import of tracks from a Parquet file, as the log of a new broker.

The file has a row for each fix, ordered by time: entity (`entity_id`), time (`ts`) and position
(`lat`, `lon`). Invalid positions are left out and counted. The log is that of a new broker:
existing logs are not extended, as they have their own numbering.
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
    """The result of an import."""

    rows: int
    segments: int
    no_place: int
    """Rows left out because their coordinates are invalid."""


def import_tracks(
    file: Path,
    data: Path,
    broker: str,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Write the fixes of a file as the log of a new broker under a data directory.

    Raises `StoreError` if the file lacks a column or is not ordered by time, or if the broker has a
    log; then no manifest is written, so that readers find no rows.
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
