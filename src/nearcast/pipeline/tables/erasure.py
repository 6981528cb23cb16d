"""Erasing a person from the pipeline's data: all versions of all tables, and snapshots.

Files that name the person are written anew without; then all files of earlier versions and the
history of the tables are deleted, so that time travel begins here. Snapshots are rewritten, and
what was compiled from them is deleted. Other publishers' events are kept; what the pipeline itself
derived about the person is removed. Spark's own state is not touched: it expires, or is rebuilt
from the log.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.core.gathering import Part, Threshold
from nearcast.core.gathering.aggregates.summary import aggregate
from nearcast.core.model.geometry.position import Position
from nearcast.pipeline.decide.snapshots import forget_in_snapshots
from nearcast.pipeline.jobs.spark_checkpoints import committed
from nearcast.pipeline.jobs.status import read_status
from nearcast.pipeline.tables.data_files import DataFile, DayWriter, read_files
from nearcast.pipeline.tables.migration import migrate, needs_migration
from nearcast.pipeline.tables.tables import ALL, StoredFile, Tables, time_column
from nearcast.wire.handover import PUBLISHER

WHO = ("node", "publisher", "a", "b")
"""Columns that identify the subject of a row."""
FORGOTTEN = "(forgotten)"
LOOK_S = 0.2


def forget(data: Path, node: str, location: str = "", storage: str = "") -> int:
    """Remove a node from all tables and snapshots; return the number of rows affected.

    `location` is that of the tables, if they are not in the data directory, and `storage` that of
    the copies of logs, if there are any.

    Call it when the log no longer has the node, and the pipeline has passed the row of the erasure.
    """
    changed = 0
    if needs_migration(data):
        migrate(data, location=location)
    tables = Tables(data, location)
    if any(tables.version(name) is not None for name in ALL):
        with tables.alone():
            changed = sum(_forget_in(tables, name, node) for name in ALL)
    for each in {str(data), storage or str(data)}:
        forget_in_snapshots(each, node)
    return changed


def _forget_in(tables: Tables, name: str, node: str) -> int:
    """Remove a node from one table, its earlier versions included."""
    schema = tables.schema(name)
    if schema is None:
        return 0
    changed, files, removed = 0, list[DataFile](), list[StoredFile]()
    for file in tables.files(name):
        touched = sum(without(rows, node)[1] for rows in _rows_of(tables, name, file, schema))
        if touched:
            writer = DayWriter(tables.uri(name), schema, time_column(name), "erased")
            for rows in _rows_of(tables, name, file, schema):
                writer.write(without(rows, node)[0])
            files += writer.close()
            removed.append(file)
        changed += touched
    if removed:
        tables.commit(name, files, removed)
    # Also what is unchanged: an earlier version, or an epoch that failed, may have the node.
    tables.cut_history(name)
    return changed


def _rows_of(tables: Tables, name: str, file: StoredFile, schema: pa.Schema) -> Iterator[pa.Table]:
    return read_files(tables.uri(name), [file.path], schema)


def caught_up(data: Path, seqs: Mapping[str, int], within_s: float) -> bool:
    """Wait until a running pipeline has passed these seqs, by broker; return False on timeout.

    Rows it is still processing may name the node, and be written after the erasure.
    """
    ends = time.monotonic() + within_s
    while (status := read_status(data)) is not None and not status.is_stale:
        reached = [committed(data / "checkpoints" / query.name) or {} for query in status.queries]
        if all(each.get(broker, 1) > seq for each in reached for broker, seq in seqs.items()):
            return True
        if time.monotonic() > ends:
            return False
        time.sleep(LOOK_S)
    return True


def without(rows: pa.Table, node: str) -> tuple[pa.Table, int]:
    """Return rows of any table without a node, and the number of rows removed or changed."""
    kept = rows.filter(pc.invert(_about(rows, node)))
    touched = rows.num_rows - kept.num_rows
    if "recipients" in kept.schema.names:
        kept, fewer = _without_recipient(kept, node)
        touched += fewer
    if "people" in kept.schema.names:
        kept, fewer = _without_part(kept, node)
        touched += fewer
    for name, change in (("attributes", _unnamed_json), ("reason", _unnamed_text)):
        if name in kept.schema.names:
            kept, fewer = _changed(kept, name, node, change)
            touched += fewer
    return kept, touched


def _about(rows: pa.Table, node: str) -> pa.ChunkedArray:
    """Return a mask of a node's rows: its own, and the pipeline's events that name it."""
    found = pa.chunked_array([pa.repeat(pa.scalar(False), rows.num_rows)])
    names = rows.schema.names
    for name in WHO:
        if name in names:
            found = pc.or_(found, _true(pc.equal(rows[name], node)))
    if "publisher" in names and "subject" in names:
        named = _true(pc.match_substring_regex(rows["subject"], _level(node)))
        if "payload" in names:
            named = pc.or_(named, _true(pc.match_substring(rows["payload"], _quoted(node))))
        own = _true(pc.starts_with(rows["publisher"], PUBLISHER))
        found = pc.or_(found, pc.and_(own, named))
    return found


def _without_recipient(rows: pa.Table, node: str) -> tuple[pa.Table, int]:
    """Return deliveries without a node's sessions, dropping those without other recipients."""
    column = rows["recipients"].combine_chunks()
    everyone = column.flatten()
    session = everyone.field("session")
    stays = ~np.asarray(
        pc.or_(_true(pc.equal(session, node)), _true(pc.starts_with(session, f"{node}~")))
    )
    if stays.all():
        return rows, 0
    event = np.asarray(pc.list_parent_indices(column))
    before, after = (np.bincount(each, minlength=len(column)) for each in (event, event[stays]))
    left = everyone.filter(pa.array(stays))
    priority = np.full(len(column), np.iinfo(np.int32).max, np.int32)
    np.minimum.at(priority, event[stays], np.asarray(left.field("priority")))
    recipients = pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(after)]), pa.int32()), left
    )
    for name, values in (
        ("recipients", recipients),
        ("count", pa.array(after, pa.int32())),
        ("priority", pa.array(priority)),
    ):
        if name in rows.schema.names:
            rows = _set(rows, name, values)
    return rows.filter(pa.array((after > 0) | (before == 0))), int((after < before).sum())


def _without_part(rows: pa.Table, node: str) -> tuple[pa.Table, int]:
    """Return aggregates without the parts of a node."""
    named = np.asarray(_true(pc.match_substring(rows["payload"], _quoted(node))))
    if not named.any():
        return rows, 0
    found = rows.to_pylist()
    for at in np.flatnonzero(named):
        found[at] = _smaller(found[at], node)
    left = [row for row in found if row is not None]
    return pa.Table.from_pylist(left, schema=rows.schema), int(named.sum())


def _smaller(row: dict[str, object], node: str) -> dict[str, object] | None:
    """Return an aggregate without the parts of a node; None if there are no others."""
    payload = msgspec.json.decode(str(row["payload"]))
    people = payload.get("people")
    if not isinstance(people, list) or node not in people:
        return row
    people.remove(node)
    if not people:
        return None
    events = payload.get("events")
    if events is None:
        # Too many events to be listed; only the people are.
        text = msgspec.json.encode(payload).decode()
        return row | {"people": len(people), "payload": text}
    own = {name for event in events for name in event.get("attributes", {})}
    agreed = {name: each for name, each in payload["attributes"].items() if name not in own}
    parts = [_part(event, agreed) for event in events if event["publisher"] != node]
    middle = None if "cell" not in payload and "place" not in payload else _position(row)
    made = aggregate(str(row["rule"]), str(row["group"]), parts, Threshold("volume", 1), middle)
    return row | {
        "time": made.time, "count": made.count, "people": made.people,
        "payload": made.payload.decode(), "lat": made.lat, "lon": made.lon,
    }  # fmt: skip


def _part(event: Mapping[str, object], agreed: Mapping[str, object]) -> Part:
    """Return the part that an event in an aggregate's payload describes."""
    own = event.get("attributes", {})
    assert isinstance(own, dict)
    at = event.get("position")
    lon, lat = at if isinstance(at, list) else (None, None)
    when = datetime.fromisoformat(str(event["time"])).timestamp()
    payload = msgspec.json.encode({**agreed, **own})
    return Part(str(event["id"]), str(event["publisher"]), when, when, lat, lon, payload)


def _position(row: Mapping[str, object]) -> Position | None:
    lat, lon = row["lat"], row["lon"]
    return Position(lat, lon) if isinstance(lat, float) and isinstance(lon, float) else None


def _changed(
    rows: pa.Table, column: str, node: str, change: Callable[[str, str], str]
) -> tuple[pa.Table, int]:
    """Return rows with a column's texts changed where they contain a node's name."""
    named = np.asarray(_true(pc.match_substring(rows[column], _quoted(node)[1:-1])))
    texts = rows[column].to_pylist() if named.any() else []
    touched = 0
    for at in np.flatnonzero(named):
        changed = change(texts[at], node)
        touched += changed != texts[at]
        texts[at] = changed
    if not touched:
        return rows, 0
    return _set(rows, column, pa.array(texts, rows.schema.field(column).type)), touched


def _unnamed_json(text: str, node: str) -> str:
    """Return attributes as JSON without values that are the node's name, such as in friends."""
    value = msgspec.json.decode(text)
    changed = _unnamed(value, node)
    return text if changed == value else msgspec.json.encode(changed).decode()


def _unnamed(value: object, node: str) -> object:
    if isinstance(value, list):
        return [_unnamed(each, node) for each in value if each != node]
    if isinstance(value, dict):
        return {name: _unnamed(each, node) for name, each in value.items() if each != node}
    return value


def _unnamed_text(text: str, node: str) -> str:
    """Return a text with the name of a node replaced."""
    return re.sub(rf"(?<![\w~-]){re.escape(node)}(?![\w-])", FORGOTTEN, text)


def _set(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = rows.schema.get_field_index(name)
    field = rows.schema.field(at)
    return rows.set_column(at, field, values.cast(field.type))


def _true(found: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(found, False)


def _quoted(node: str) -> str:
    """Return a name as a JSON string."""
    return msgspec.json.encode(node).decode()


def _level(node: str) -> str:
    """Return a regular expression for subjects that have a node's name as a level.

    Earlier releases encoded only the characters that would end a level.
    """
    earlier = re.sub("[%/+#]", lambda found: quote(found[0], safe=""), node)
    return rf"(^|/)({re.escape(quote(node, safe=''))}|{re.escape(earlier)})(/|$)"
