"""Selection of the events that a gathering rule takes, and the group of each.

Subjects are selected by Spark's own expressions, so that only events that a rule takes reach
Python. There the core finds places and cells, and packs the needed fields of an event into one
value: the stateful operator handles two names and a packet, whatever the event's fields are.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.gathering import GatheringRule, Part, group_of
from nearcast.core.gathering.grouping import PlaceMiddles
from nearcast.core.model.geometry.area import FixedArea
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.pipeline.source.event_checks import PIPELINE, may_be_seen_alone

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LARGEST_PAYLOAD_BYTES = 4096
"""Larger attributes are not held: only the event's id, publisher, time and position are."""
GROUPED = pa.schema(
    [
        ("rule", pa.string()),
        ("group", pa.string()),
        ("ingested", pa.float64()),
        ("broker", pa.string()),
        ("seq", pa.int64()),
        ("packet", pa.binary()),
    ]
)
GROUPED_DDL = "rule string, group string, ingested double, broker string, seq long, packet binary"
NamedPlace = tuple[str, str, FixedArea] | tuple[str, str, FixedArea, str | None]
"""Kind, name and geometry of a place, and the name of its parent place if it has one."""


class Packet(Struct, frozen=True, array_like=True, gc=False):
    """A part for its group, and the centre of that group if it has one."""

    part: Part
    middle: Position | None


pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Packet).decode


def grouped(
    log: "DataFrame",
    rules: Sequence[GatheringRule],
    places: Iterable[NamedPlace] = (),
    after: "Column | None" = None,
) -> "DataFrame":
    """Return the events that rules take, one row for each rule, with their groups.

    `log` has the columns that `judged` adds. Late events and the pipeline's own events are left
    out, and events without a position where a rule needs one. With `after`, no row is filtered
    before that column is computed, however Spark arranges its plan.
    """
    usable = (
        (F.col("kind") == "event")
        & F.col("reject").isNull()
        & ~F.col("late")
        & ~F.col("publisher").startswith(PIPELINE)
        # What has a smallest number of people is gathered before anything else.
        & may_be_seen_alone()
    )
    if after is not None:
        usable &= after.isNotNull()
    taken = F.array_compact(
        F.array(*(F.when(_selects(rule.pattern), F.lit(n)) for n, rule in enumerate(rules)))
    )
    wanted = (
        log.withColumn("taken", F.when(usable, taken)).where(F.size("taken") > 0).select(*_COLUMNS)
    )
    return wanted.mapInArrow(_grouping(tuple(rules), places), GROUPED_DDL)


_COLUMNS = (
    "taken", "broker", "seq", "ingested", "event_id", "subject", "publisher", "time", "lat",
    "lon", "payload", "data",
)  # fmt: skip
Grouping = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def _grouping(rules: tuple[GatheringRule, ...], places: Iterable[NamedPlace]) -> Grouping:
    # Bytes, so that a worker can cache the places and does not build them again.
    defined = pickle.dumps(tuple(places))

    def group(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = _known(defined)
        for batch in batches:
            yield _group_batch(batch, rules, known)

    return group


@lru_cache(maxsize=2)
def _known(defined: bytes) -> PlaceMiddles:
    places = Places()
    for place in pickle.loads(defined):
        places.add(*place)
    return PlaceMiddles(places)


def _group_batch(
    batch: pa.RecordBatch, rules: tuple[GatheringRule, ...], known: PlaceMiddles
) -> pa.RecordBatch:
    found: list[tuple[str, str, float, str, int, bytes]] = []
    columns = [batch.column(name).to_pylist() for name in _COLUMNS]
    for taken, broker, seq, ingested, id_, subject, publisher, time, lat, lon, payload, data in zip(
        *columns, strict=True
    ):
        part = Part(id_, publisher, time, ingested, lat, lon, _payload(payload, data))
        for number in taken:
            group = group_of(rules[number], subject, lat, lon, known)
            if group is not None:
                packet = pack(Packet(part, group.middle))
                pattern = rules[number].pattern
                found.append((pattern, group.name, ingested, broker, seq, packet))
    rows = zip(*found, strict=True) if found else ((),) * len(GROUPED)
    arrays = [pa.array(values, field.type) for values, field in zip(rows, GROUPED, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=GROUPED)


def _payload(payload: bytes | None, data: str) -> bytes:
    """Return an event's attributes as JSON: those of the row if it has any, else the payload.

    Larger ones than `LARGEST_PAYLOAD_BYTES` are dropped.
    """
    found = payload or b""
    if '"attributes"' in data:
        own = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get("attributes")
        found = found if own is None else bytes(own)
    return found if len(found) <= LARGEST_PAYLOAD_BYTES else b""


def _selects(pattern: str) -> "Column":
    """Return the condition that a pattern selects the subject."""
    if not any(wildcard in pattern for wildcard in "+#"):
        return F.col("subject") == pattern
    return F.col("subject").rlike(java_regex(pattern))


def java_regex(pattern: str) -> str:
    """Return a Java regular expression for the subjects that a pattern selects."""
    found = []
    for at, level in enumerate(pattern.split("/")):
        separator = "/" if at else ""
        if level == "#":
            found.append(f"({separator}.*)?")
        elif level == "+":
            found.append(f"{separator}[^/]*")
        else:
            quoted = level.replace(r"\E", r"\E\\E\Q")
            found.append(rf"{separator}\Q{quoted}\E")
    start = r"(?!\$)" if pattern[0] in "+#" else ""
    return rf"(?s)\A{start}{''.join(found)}\z"
