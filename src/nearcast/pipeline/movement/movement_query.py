"""Movement in one streaming query: motion, then encounters and traffic by cells.

The tracks of nodes are sent to cells, keyed by table and cell; one processor keeps the state of
both kinds. Output rows are tagged by their table, so that one query writes the tables and publishes
`encounters/...` and `traffic/...`.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from nearcast.pipeline.movement.cell_processor import CellInput, CellProcessor
from nearcast.pipeline.movement.encounters import ENCOUNTER, encounters
from nearcast.pipeline.movement.motion import tracks
from nearcast.pipeline.movement.movement_settings import MovementSettings
from nearcast.pipeline.movement.traffic import TRAFFIC, traffic

DECIDED = (
    f"table string, encounter struct<{ENCOUNTER}>, traffic struct<{TRAFFIC}>, cause string, "
    "due double"
)
"""Rows of the tables, and the cause of a transition, as text that sorts in its order.

A row of no table only says when a cell is `due`: when time will change something there.
"""
TABLES = ("encounters", "traffic")
GOLDEN = 0.618
"""From row to row the assigned task advances by this share of all tasks.

Any square of neighbouring cells then has about as many cells for each task.
"""
MOST_TRIES = 31
"""The number of suffixes tried for a key; if none fits, the hash decides."""


def movement(log: DataFrame, settings: MovementSettings | None = None) -> DataFrame:
    """Return the encounters and traffic of a log, as rows for tables and for brokers.

    Columns: `table`, `key` (unique, and the same when decided again), `subject`, `time`, `lat`,
    `lon`, `payload` (JSON), `about` (the nodes named in it), and `encounter` or `traffic`, the row
    of the table itself. Transitions to `closer` are in the table, and are not published: their
    subject is null. `cause` orders transitions of one pair at one time. Rows of a stream without
    a `table` only say when a cell is `due`: when time will change something there.
    """
    settings = settings or MovementSettings()
    followed = tracks(log, settings)
    if log.isStreaming:
        found = decided(followed, settings, TABLES)
    else:
        found = _tagged("encounters", encounters(followed, settings)).unionByName(
            _tagged("traffic", traffic(followed, settings))
        )
    return _with_events(found)


def decided(tracked: DataFrame, settings: MovementSettings, tables: Sequence[str]) -> DataFrame:
    """Return the decisions of a stream's cells, each row tagged by its table."""
    return (
        placed(tracked, tables)
        .select("place", F.to_json(F.struct(*CellInput.__struct_fields__)).alias("packet"), "at")
        .groupBy("place")
        .transformWithState(CellProcessor(settings), DECIDED, "append", "eventTime")
    )


def placed(tracked: DataFrame, tables: Sequence[str]) -> DataFrame:
    """Return tracks with a column `place`: the key of `CellProcessor`.

    Spark assigns keys to tasks by their hashes. By chance the cells of a crowd would share a few
    tasks; therefore a key has a numeric suffix that leads it to an assigned task, where
    neighbouring cells have different tasks. A cell keeps its key as long as the number of
    partitions is the same.
    """
    requests = {
        "encounters": F.transform("cells", lambda cell: _cell_request("encounters", cell)),
        "traffic": F.array_compact(
            F.array(F.when(F.col("road").isNotNull(), _cell_request("traffic", F.col("road"))))
        ),
    }
    parts = int(tracked.sparkSession.conf.get("spark.sql.shuffle.partitions") or "1")
    cell = F.col("asked.cell")
    name = F.concat_ws("/", F.col("asked.table"), cell.cast("string"))
    row, column = F.shiftright(cell, 32), cell.bitwiseAND(F.lit(0xFFFFFFFF))
    along = row * round(GOLDEN * parts) + column
    other = F.when(F.col("asked.table") == "traffic", parts // 2).otherwise(0)
    turn = F.pmod(along + other, F.lit(parts))
    keys = F.transform(
        F.sequence(F.lit(0), F.lit(MOST_TRIES)), lambda number: F.concat_ws("/", name, number)
    )
    fits = F.filter(keys, lambda key: F.pmod(F.hash(key), F.lit(parts)) == turn)
    return (
        tracked.withColumn("asked", F.explode(F.concat(*(requests[table] for table in tables))))
        .withColumn("place", F.coalesce(F.get(fits, F.lit(0)), name))
        .drop("asked")
    )


def publishable(table: str, rows: DataFrame) -> DataFrame:
    """Return rows of the table `encounters` or `traffic` in the form of `movement`."""
    return _with_events(_tagged(table, rows))


def _cell_request(table: str, cell: Column) -> Column:
    """Return a table and a cell as a struct."""
    return F.struct(F.lit(table).alias("table"), cell.alias("cell"))


def _tagged(table: str, rows: DataFrame) -> DataFrame:
    columns = {"encounters": ("encounter", ENCOUNTER), "traffic": ("traffic", TRAFFIC)}
    row = {
        column: F.struct(*(field.split()[0] for field in form.split(", ")))
        if name == table
        else F.lit(None).cast(f"struct<{form}>")
        for name, (column, form) in columns.items()
    }
    # Tables of earlier releases have no cause.
    cause = F.coalesce("cause", F.lit("")) if "cause" in rows.columns else F.lit("")
    return rows.select(
        F.lit(table).alias("table"),
        *(value.alias(column) for column, value in row.items()),
        cause.alias("cause"),
        F.lit(None).cast("double").alias("due"),
    )


def _with_events(found: DataFrame) -> DataFrame:
    met, passed = F.col("encounter"), F.col("traffic")
    is_met = F.col("table") == "encounters"
    pair = F.concat_ws("/", _level(met["a"]), _level(met["b"]))
    whose = F.concat_ws("/", _level(met["relationship"]), pair)
    moment = F.format_string("%.6f", F.when(is_met, met["time"]).otherwise(passed["start"]))
    name = F.when(is_met, whose).otherwise(passed["cell"])
    return found.select(
        "table",
        F.concat_ws("/", "table", name, met["state"], moment).alias("key"),
        F.when(~is_met | (met["state"] != "closer"), F.concat_ws("/", "table", name)).alias(
            "subject"
        ),
        F.when(is_met, met["time"]).otherwise(passed["until"]).alias("time"),
        F.when(is_met, met["lat"]).otherwise(passed["lat"]).alias("lat"),
        F.when(is_met, met["lon"]).otherwise(passed["lon"]).alias("lon"),
        F.when(is_met, F.to_json(_with_instants(met, "time")))
        .otherwise(F.to_json(_with_instants(passed, "start", "until")))
        .alias("payload"),
        F.when(is_met, F.array(met["a"], met["b"])).alias("about"),
        "encounter",
        "traffic",
        "cause",
        "due",
    )


def _with_instants(row: Column, *names: str) -> Column:
    """Return a struct with these times (seconds since 1970) as RFC 3339, as clients get them."""
    for name in names:
        moment = F.timestamp_micros(F.round(row[name] * 1e6).cast("long"))
        # The offset is included: Z where the session's time zone is UTC, as in ours.
        row = row.withField(name, F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"))
    return row


def _level(name: Column) -> Column:
    """Return a name as one level of a subject, percent-encoded as in `$node/NAME`."""
    # Converts Java's form encoding to that of `urllib.parse.quote`.
    escaped = F.url_encode(name)
    for form, wanted in (("+", "%20"), ("*", "%2A"), ("%7E", "~")):
        escaped = F.replace(escaped, F.lit(form), F.lit(wanted))
    return escaped
