"""Encounters: transitions of two moving nodes to near and apart, and the episodes between.

Each cell of the globe decides about the nodes in and around it, and reports every transition once
(`core/relationships/meetings.py` explains why); cells are distributed over all tasks. They are
small, so that a crowd is spread over many cells and tasks.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from nearcast.core.relationships import DeclaredPairs, Meetings, Transitions
from nearcast.core.relationships.meeting_kernels import TIME_PASSED
from nearcast.core.relationships.meetings import Fixes
from nearcast.pipeline.movement.movement_settings import MovementSettings

ENCOUNTER = (
    "relationship string, a string, b string, state string, time double, distance_m double, "
    "lat double, lon double"
)
"""A transition: the names of a pair in order, and near, apart, or closer (by half)."""
TIME_CAUSE = "1"
"""The cause of what time ended: it comes after all inputs of that time."""

EncounterRow = tuple[str | None, str, str, str, float, float, float, float]
_PLACE = ("time", "lat", "lon")
_BEFORE = ("previous_time", "previous_lat", "previous_lon")
_ORDER = ("time", "broker", "seq")
_AT_ONCE = 10_000
"""In history, silent nodes of a cell are removed after each batch of this many fixes."""


def encounters(tracks: DataFrame, settings: MovementSettings | None = None) -> DataFrame:
    """Return the transitions of all pairs, or of the declared ones, from a log's `tracks`.

    `cause` orders transitions of one pair at one time.
    """
    settings = settings or MovementSettings()
    if tracks.isStreaming:
        from nearcast.pipeline.movement.movement_query import decided

        found = decided(tracks, settings, ["encounters"]).where("table IS NOT NULL")
        return found.select("encounter.*", "cause")
    return (
        tracks.select(F.explode("cells").alias("cell"), "node", "broker", "seq", *_PLACE, *_BEFORE)
        .groupBy("cell")
        .applyInArrow(meeting(settings), f"{ENCOUNTER}, cause string")
    )


def episodes(transitions: DataFrame) -> DataFrame:
    """Return the periods in which pairs were near each other, with their closest distance.

    The n-th `near` of a pair ends with its n-th `apart`; an episode that is not over has no
    `until`. Distances are known only at transitions: at the start and at each halving.
    """
    pair = [F.col("relationship"), F.col("a"), F.col("b")]
    by_state = Window.partitionBy(*pair, "state").orderBy("time")
    by_time = Window.partitionBy(*pair).orderBy("time")
    is_near, is_apart = F.col("state") == "near", F.col("state") == "apart"
    begun = F.sum(is_near.cast("int")).over(by_time)
    number = F.when(is_near | is_apart, F.row_number().over(by_state)).otherwise(begun)
    return (
        transitions.withColumn("number", number)
        .groupBy(*pair, "number")
        .agg(
            F.min(F.when(is_near, F.col("time"))).alias("since"),
            F.max(F.when(is_apart, F.col("time"))).alias("until"),
            F.min(F.when(~is_apart, F.col("distance_m"))).alias("closest_m"),
        )
        .drop("number")
    )


def meeting(settings: MovementSettings) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """Return the function that computes the transitions of one cell in all of history."""

    def meet(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        meetings = Meetings(settings.meetings, key[0].as_py())
        table = table.sort_by([(name, "ascending") for name in _ORDER])
        nodes = table.column("node").to_pylist()
        fixes, before = (_numbers(table, names) for names in (_PLACE, _BEFORE))
        rows = list(zip(table["broker"].to_pylist(), table["seq"].to_pylist(), strict=True))
        found: list[pa.Table] = []
        for start in range(0, len(nodes), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            moved = meetings.advance(Fixes(nodes[part], fixes[part], before[part]))
            found.append(_table(moved, rows[part], settings))
            found.append(_table(meetings.expire(float(fixes[part][-1, 0])), [], settings))
        found.append(_table(meetings.expire(math.inf), [], settings))
        return pa.concat_tables(found)

    return meet


def named(
    transitions: Transitions, settings: MovementSettings
) -> Iterator[tuple[int, EncounterRow]]:
    """Yield transitions with their relationships, one row for each, and the index of the cause."""
    declared = None if settings.declared is None else DeclaredPairs(settings.declared)
    for cause, row in zip(transitions.cause, transitions.rows(), strict=True):
        for name in (None,) if declared is None else declared.names(row[0], row[1]):
            yield cause, (name, *row)


def _numbers(
    table: pa.Table, names: Sequence[str]
) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    columns = [table.column(name).fill_null(math.nan).to_numpy() for name in names]
    return np.column_stack(columns)


def cause_of(broker: str, seq: int) -> str:
    """The place of a row among those of one time, as text that sorts like it."""
    return f"0{broker}\0{seq:020d}"


def _table(
    transitions: Transitions, rows: Sequence[tuple[str, int]], settings: MovementSettings
) -> pa.Table:
    """Return transitions as rows of the table, with their causes; `rows` are those of the fixes."""
    if settings.declared is None:
        columns: list[object] = [
            [None] * len(transitions), transitions.a, transitions.b, transitions.state,
            transitions.time, transitions.distance_m, transitions.lat, transitions.lon,
        ]  # fmt: skip
        causes = transitions.cause
    else:
        found = list(named(transitions, settings))
        causes = [cause for cause, _ in found]
        columns = [[row[at] for _, row in found] for at in range(len(_SCHEMA) - 1)]
    texts = [TIME_CAUSE if at == TIME_PASSED else cause_of(*rows[at]) for at in causes]
    return pa.table([*columns, texts], schema=_SCHEMA)


_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("relationship", "a", "b", "state")]
    + [(name, pa.float64()) for name in ("time", "distance_m", "lat", "lon")]
    + [("cause", pa.string())]
)
