"""Named places, as defined in the logs of brokers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nearcast.core.model.inputs import PlaceDefined
from nearcast.pipeline.gather.gathered_events import NamedPlace
from nearcast.store import CorruptError, Row, input_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def places_of(log: "DataFrame") -> list[NamedPlace]:
    """Return the places that a history defines and does not remove again."""
    found = log.where("kind = 'place'").orderBy("ingested", "broker", "seq").toArrow()
    return places_in(row for batch in found.to_batches() for row in rows_of(batch))


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
