"""Erasing a person from the pipeline's data: all versions of all tables, and snapshots.

A new version of the tables is written without the person and put in place; all other versions are
deleted, and so are the snapshots, which can be rebuilt from the log. Other publishers' events are
kept; what the pipeline itself derived about the person is removed. Spark's own state is not
touched: it expires, or is rebuilt from the log.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearcast.core.gathering import Part, Threshold
from nearcast.core.gathering.summary import aggregate
from nearcast.core.model.geometry.position import Position
from nearcast.pipeline.jobs.status import read_status
from nearcast.pipeline.tables.tables import CURRENT, VERSIONS, Tables
from nearcast.wire.handover import PUBLISHER

SNAPSHOTS = Path("checkpoints") / "snapshots"
WHO = ("node", "publisher", "a", "b")
"""Columns that identify the subject of a row."""
FORGOTTEN = "(forgotten)"
LOOK_S = 0.2


def forget(data: Path, node: str) -> int:
    """Remove a node from all tables and snapshots; return the number of rows affected.

    Call it when the log no longer has the node, and the pipeline has passed the row of the erasure.
    """
    changed = 0
    tables = Tables(data)
    if (data / CURRENT).is_symlink():
        with tables.locked():
            old, new = tables.version, tables.new_version()
            try:
                changed = sum(_copy(path, new / path.relative_to(old), node) for path in _of(old))
                for path in old.iterdir():
                    (new / path.name).mkdir(exist_ok=True)
            except BaseException:
                shutil.rmtree(new)
                raise
            tables.use(new)
            for path in (data / VERSIONS).iterdir():
                if path.is_dir() and path.name != new.name:
                    shutil.rmtree(path)
    shutil.rmtree(data / SNAPSHOTS, ignore_errors=True)
    return changed


def caught_up(data: Path, seqs: Mapping[str, int], within_s: float) -> bool:
    """Wait until a running pipeline has passed these seqs, by broker; return False on timeout.

    Rows it is still processing may name the node, and be written after the erasure.
    """
    ends = time.monotonic() + within_s
    while (status := read_status(data)) is not None and not status.is_stale:
        # Imported here: it needs PySpark, which is installed where a pipeline runs.
        from nearcast.pipeline.jobs.replay import committed

        reached = [committed(data / "checkpoints" / query.name) or {} for query in status.queries]
        if all(each.get(broker, 1) > seq for each in reached for broker, seq in seqs.items()):
            return True
        if time.monotonic() > ends:
            return False
        time.sleep(LOOK_S)
    return True


def _of(version: Path) -> Iterator[Path]:
    """Yield the files of all complete epochs of a version."""
    return iter(sorted(version.glob("*/epoch=*/*.parquet")))


def _copy(source: Path, target: Path, node: str) -> int:
    """Copy a file without a node; a file that does not change is linked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    changed = 0
    with pq.ParquetFile(source) as file:
        schema = file.schema_arrow
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                rows, touched = without(pa.Table.from_batches([batch]), node)
                changed += touched
                writer.write_table(rows.cast(schema))
    if not changed:
        target.unlink()
        os.link(source, target)
    return changed


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
