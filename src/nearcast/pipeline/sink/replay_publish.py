"""Publishing the results of a replay with the ids and subjects that `run` uses.

Events have ids, by which a broker recognises repeats. Copies recorded as sent are left out. The
rest is handed over under a name derived from its rows, so that a repeated handover is recognised as
a whole.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.jobs.audit import recorded
from nearcast.pipeline.movement.movement_query import publishable
from nearcast.pipeline.sink.broker_events import aggregate_events, in_order, movement_events
from nearcast.pipeline.sink.data_sink import hand_over

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EVENT = ("broker", "publisher", "id")


def unsent(decided: "DataFrame", log: "DataFrame") -> "DataFrame":
    """Return deliveries without the copies that brokers recorded in a log as sent."""
    had = (
        recorded(log)
        .withColumnRenamed("event_id", "id")
        .withColumn("had", F.transform("recipients", _copy))
        .groupBy(*_EVENT)
        .agg(F.flatten(F.collect_list("had")).alias("had"))
    )
    joined = decided.join(had, list(_EVENT), "left")
    left = F.filter("recipients", lambda each: ~F.array_contains("had", _copy(each)))
    to = F.when(F.col("had").isNull(), F.col("recipients")).otherwise(left)
    return joined.withColumn("recipients", to).drop("had").where(F.size("recipients") > 0)


def _copy(recipient: "Column") -> "Column":
    wanted = F.array_sort(recipient["subscriptions"]).alias("subscriptions")
    return F.struct(recipient["session"], wanted, recipient["replayed"])


def events_of_tables(
    tables: "Mapping[str, DataFrame]",
    kept: Collection[str],
    since: float | None,
    until: float | None,
) -> "dict[str, DataFrame]":
    """Return the rows of tables as events, by table name.

    Tables that were `kept` were written by a stream and are filtered, since they exceed the range.
    """
    found = {name: publishable(name, rows) for name, rows in tables.items() if name != "aggregates"}
    events = {name: movement_events(rows) for name, rows in found.items()}
    if "aggregates" in tables:
        events["aggregates"] = aggregate_events(tables["aggregates"])
    for name in kept:
        if name in events and since is not None:
            events[name] = events[name].where(F.col("time") >= since)
        if name in events and until is not None:
            events[name] = events[name].where(F.col("time") < until)
    return events


def publish_once(rows: "DataFrame", data: str, what: str) -> int:
    """Hand rows over, unless brokers have them already; return their number."""
    rows = rows.persist()
    try:
        columns = [name for name in (*_EVENT, "recipients") if name in rows.columns]
        digest = F.coalesce(F.bit_xor(F.xxhash64(*columns)), F.lit(0))
        summed = rows.agg(F.count("*").alias("count"), digest.alias("digest")).first()
        if summed is None or not summed["count"]:
            return 0
        name = f"replay {what} {summed['count']} {summed['digest'] & (1 << 64) - 1:016x}"
        is_deliveries = "recipients" in rows.columns
        ordered = rows if is_deliveries else in_order(rows, ("subject", "time", "id"))
        hand_over(ordered, {"path": data, "query": name}, 0)
        return int(summed["count"])
    finally:
        rows.unpersist()
