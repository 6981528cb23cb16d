"""Rows that shards decided: merged, and compared with those of one engine."""

from collections import defaultdict

import pyarrow as pa

from nearcast.core.engine.shard import Shard
from nearcast.pipeline.decide.decided_schema import DELIVERY, DUE
from nearcast.pipeline.decide.shard_merge import ORDER, merge_packed, packed

Decided = list[dict[str, object]]


def shards_of(count: int) -> list[Shard]:
    return [Shard(number, count) for number in range(count)]


def merged(batches: list[pa.RecordBatch]) -> Decided:
    """The rows of all shards as Spark brings them together."""
    if not batches:
        return []
    blocks = pa.Table.from_batches(packed(batches))
    blocks = blocks.sort_by([(name, "ascending") for name in ORDER])
    return [row for batch in merge_packed(blocks.to_batches()) for row in batch.to_pylist()]


def copies(row: dict[str, object]) -> list[tuple[str, list[str], int, bool]]:
    """The recipients of a row in one order: theirs depends on the index."""
    found = row["recipients"]
    assert isinstance(found, list)
    return sorted(
        (each["session"], sorted(each["subscriptions"]), each["priority"], each["replayed"])
        for each in found
    )


def judged(row: dict[str, object]) -> dict[str, object]:
    """By subscription, what its copy was judged by; how many are together depends on the shards."""
    found = row["judged"] or []
    assert isinstance(found, list)
    return {
        name: (each["filter"], each["levels"], each["true_bits"], each["false_bits"])
        for each in found
        for name in each["subscriptions"]
    }


def by_session(rows: Decided) -> dict[str, list[object]]:
    """What each session gets, in its order; and under no name all that is about no session."""
    found: dict[str, list[object]] = defaultdict(list)
    for row in rows:
        if row["kind"] == DUE:
            continue
        if row["kind"] != DELIVERY:
            found[""].append(sorted(row.items(), key=str))
            continue
        # Of what is live there is a row only among those that are decided together.
        event = {name: row[name] for name in row if name not in ("seq", "recipients", "judged")}
        by = judged(row)
        for session, names, *copy in copies(row):
            own = [by.get(name) for name in names]
            found[session].append((sorted(event.items()), names, copy, own))
    found[""].sort(key=str)
    return found


def next_due(rows: Decided) -> tuple[int, list[object]]:
    """When something is due first, as of the last row that says so; shards say it of their own."""
    said = [(int(str(row["id"])), row["time"]) for row in rows if row["kind"] == DUE]
    last = max((seq for seq, _ in said), default=0)
    times = [time for seq, time in said if seq == last and time is not None]
    return last, sorted(times)[:1]  # type: ignore[type-var]


def fresh(rows: Decided) -> list[object]:
    """The rows of new events."""
    found = [
        row | {"recipients": copies(row), "judged": judged(row)}
        for row in rows
        if row["kind"] == DELIVERY
    ]
    return [row for row in found if not any(replayed for *_, replayed in row["recipients"])]  # type: ignore[attr-defined]


def assert_same(found: Decided, wanted: Decided) -> None:
    assert fresh(found) == fresh(wanted)
    assert next_due(found) == next_due(wanted)
    ours, theirs = by_session(found), by_session(wanted)
    assert ours.keys() == theirs.keys()
    for session in ours:
        assert ours[session] == theirs[session], session
