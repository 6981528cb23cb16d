"""The schema of decided rows: their kinds and columns."""

import pyarrow as pa

DELIVERY, CONTEXT, UNUSABLE, SUSPECT = "delivery", "context", "unusable", "suspect"
NOTICE, DUE = "notice", "due"
"""The kinds of decided rows. One of kind `due` says at what `time` something leaves by time alone,
as of the row `seq`, which is its `id`; null if nothing does."""
PROPERTIES = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
IDS = pa.list_(pa.field("element", pa.string(), nullable=False))
RECIPIENT = pa.struct(
    [
        pa.field("session", pa.string(), nullable=False),
        pa.field("subscriptions", IDS, nullable=False),
        pa.field("priority", pa.int32(), nullable=False),
        pa.field("replayed", pa.bool_(), nullable=False),
    ]
)
RECIPIENTS = pa.list_(pa.field("element", RECIPIENT, nullable=False))
"""Fields are not nullable: otherwise Spark checks each value for null, more than once."""
URGENCY = pa.struct([("priority", pa.int32()), ("raises", pa.bool_()), ("deadline", pa.float64())])
"""The priority that its publisher said, whether it may raise another, and when it is late."""
JUDGED = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                ("filter", pa.binary()), ("levels", pa.list_(pa.int32())),
                ("true_bits", pa.int64()), ("false_bits", pa.int64()),
                ("subscriptions", pa.list_(pa.string())),
            ]
        ),
    )
)  # fmt: skip
"""Subscriptions with one filter and relevance, for which the same atoms were true and false."""
ARROW_SCHEMA = pa.schema(
    [
        ("broker", pa.string()), ("kind", pa.string()), ("id", pa.string()),
        ("subject", pa.string()), ("publisher", pa.string()), ("session", pa.string()),
        ("time", pa.float64()), ("lat", pa.float64()),
        ("lon", pa.float64()), ("at_given", pa.bool_()), ("payload", pa.binary()),
        ("properties", PROPERTIES), ("headers", pa.binary()), ("qos", pa.int32()),
        ("retain", pa.bool_()),
        ("valid_s", pa.float64()), ("expires", pa.float64()), ("object", pa.string()),
        ("to", pa.string()), ("recipients", RECIPIENTS),
        ("about", pa.list_(pa.string())), ("urgency", URGENCY), ("judged", JUDGED),
        ("gathered", pa.int32()), ("seq", pa.int64()), ("last_seq", pa.int64()),
        ("elsewhere", pa.bool_()), ("recorded", pa.bool_()), ("ingested", pa.float64()),
        ("node", pa.string()),
        ("attributes", pa.string()), ("previous_lat", pa.float64()),
        ("previous_lon", pa.float64()), ("previous_time", pa.float64()), ("reason", pa.string()),
    ]
)  # fmt: skip
"""Columns of `decided`: those of the sink, and those for contexts, unusable rows and suspects."""

Columns = dict[str, object]


def decided_batch(broker: str, count: int, columns: Columns) -> pa.RecordBatch:
    """Return `count` rows of a broker with these columns; the other columns are null."""
    columns["broker"] = pa.repeat(broker, count)
    return pa.RecordBatch.from_arrays(
        [_column(columns.get(field.name), field.type, count) for field in ARROW_SCHEMA],
        schema=ARROW_SCHEMA,
    )


def _column(values: object, form: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, form)
    return values if isinstance(values, pa.Array) else pa.array(values, form)
