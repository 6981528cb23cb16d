"""Named places, as defined in the logs of brokers and in snapshots of them."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from nearcast.core.model.inputs import PlaceDefined
from nearcast.pipeline.decide.dropped_rows import player_after
from nearcast.pipeline.decide.snapshots import Snapshots
from nearcast.pipeline.gather.gathered_events import NamedPlace
from nearcast.store import (
    CorruptError,
    Row,
    brokers_in,
    input_of,
    path_at,
    read_manifest,
    rows_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def places_of(log: "DataFrame", data: str) -> list[NamedPlace]:
    """Return the places that exist after a history of the logs in a data directory or its copy.

    Raises `PipelineError` if rows of a log were dropped and there is no snapshot.
    """
    found = log.where("kind = 'place'").orderBy("ingested", "broker", "seq").toArrow()
    rows = (row for batch in found.to_batches() for row in rows_of(batch))
    return places_in(chain(standing_places(data), rows))


def standing_places(data: str) -> Iterator[Row]:
    """Yield the places in snapshots of logs whose first rows were dropped.

    Rows that a snapshot includes may follow again: the last row about a place counts.
    """
    for broker in brokers_in(path_at(data)):
        snapshots = Snapshots.of(data, broker)
        low = read_manifest(snapshots.log).whole.low_seq
        if low > 1:
            if snapshots.newest() < low - 1:
                player_after(snapshots, broker, low - 1)
            yield from snapshots.standing_rows("place")


def places_in(rows: Iterable[Row]) -> list[NamedPlace]:
    """Return the places that rows define, each in its last version."""
    known: dict[tuple[str, str, str | None], NamedPlace] = {}
    for row in rows:
        try:
            value = input_of(row)
        except CorruptError:
            continue
        if isinstance(value, PlaceDefined):
            key = (value.place_kind, value.name, value.parent)
            known.pop(key, None)
            if value.geometry is not None:
                known[key] = (value.place_kind, value.name, value.geometry, value.parent)
    return list(known.values())
