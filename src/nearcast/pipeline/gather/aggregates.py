"""The table `aggregates`: events released together when a threshold was reached (seed E).

The same groups of the core gather a stream (`transformWithState`) and a history (in one pass over
sorted rows), and both give the same result for the same rows of a broker. Time advances by ingest:
the watermark follows `ingested`, so no publisher's clock can move it, and events whose waiting time
is over are released soon after, not when the last late event could have come. Which events are late
is decided row by row, before any state; the age limit of a part is the group's. State is bounded by
`at most`, and is removed when only late events could still reach it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from nearcast.core.gathering import Aggregate, GatheringRule, Group, subject_of
from nearcast.pipeline.gather.gathered_events import NamedPlace, grouped, unpack
from nearcast.pipeline.source.event_checks import LATENESS_S, judged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PATIENCE_S = 5.0
"""How far brokers may be behind each other before timers no longer wait for them."""
AGGREGATES = (
    "rule string, group string, id string, subject string, time double, count long, people long, "
    "payload string, lat double, lon double"
)
GATHERED = f"{AGGREGATES}, due double"
"""Aggregates of a stream; rows without an `id` only say when a group is `due` to go out."""
_ARROW = pa.schema(
    [
        (name, pa.float64() if kind == "double" else pa.int64() if kind == "long" else pa.string())
        for name, kind in (field.split() for field in AGGREGATES.split(", "))
    ]
)


def aggregates(
    log: "DataFrame",
    rules: Sequence[GatheringRule],
    places: Iterable[NamedPlace] = (),
    *,
    lateness_s: float = LATENESS_S,
    patience_s: float = PATIENCE_S,
) -> "DataFrame":
    """Return the aggregates of a log or a stream of it, with the columns of `AGGREGATES`."""
    if log.isStreaming:
        found = gathered(log, rules, places, lateness_s=lateness_s, patience_s=patience_s)
        return found.where("id IS NOT NULL").drop("due")
    return _of_history(log, rules, places, lateness_s, patience_s)


def named_in(payload: str) -> "Column":
    """Return the nodes named in aggregates; null where aggregates only count them."""
    return F.from_json(payload, "people array<string>")["people"]


def gathered(
    log: "DataFrame",
    rules: Sequence[GatheringRule],
    places: Iterable[NamedPlace] = (),
    *,
    lateness_s: float = LATENESS_S,
    patience_s: float = PATIENCE_S,
) -> "DataFrame":
    """Return the aggregates of a stream and when groups are due, with columns of `GATHERED`."""
    timed = log.withColumn("taken_in", F.timestamp_seconds("ingested")).withWatermark(
        "taken_in", f"{math.ceil(patience_s * 1000)} milliseconds"
    )
    # All rows advance time, also those that no rule takes.
    parts = grouped(judged(timed, lateness_s), rules, places, after=F.col("taken_in"))
    return parts.groupBy("rule", "group").transformWithState(
        statefulProcessor=Gathering(rules, lateness_s),
        outputStructType=GATHERED,
        outputMode="append",
        timeMode="eventTime",
    )


class Gathering(StatefulProcessor):
    """One group for each (rule, group), stored between batches as bytes."""

    def __init__(self, rules: Sequence[GatheringRule], lateness_s: float = LATENESS_S) -> None:
        self._rules = {rule.pattern: rule for rule in rules}
        self._lateness_s = lateness_s

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Keep the handle, and open the state."""
        self._handle = handle
        self._stored = handle.getValueState("group", "state binary")

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str, str],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Add events to their group, in the order of ingest."""
        rule = self._rules[key[0]]
        stored = self._load(key)
        group = Group(*key) if stored is None else stored
        # A broker that is far behind must not bring back a group that was removed.
        earliest = timerValues.getCurrentWatermarkInMs() / 1000.0 - self._lateness_s
        for row in sorted(rows, key=_order):
            yield from self._told(rule, group, _gathered(rule, group, row.packet, earliest))
        yield from self._keep(group, rule)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str, str],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Release events that have waited long enough, and remove an unreachable group."""
        group, rule = self._load(key), self._rules.get(key[0])
        if group is None:
            return
        if rule is None:
            self._stored.clear()
            return
        now = timerValues.getCurrentWatermarkInMs() / 1000.0
        released = group.expire(now, rule.threshold)
        if released is not None:
            yield from self._told(rule, group, [released])
        if now > self._gone_at(group, rule):
            self._stored.clear()
            return
        if group.alarm == expiredTimerInfo.getExpiryTimeInMs():
            group.alarm = None
        yield from self._keep(group, rule)

    def _load(self, key: tuple[str, str]) -> Group | None:
        stored = self._stored.get()
        return None if stored is None else Group.decoded(key[0], key[1], bytes(stored[0]))

    @staticmethod
    def _told(rule: GatheringRule, group: Group, released: Iterable[Aggregate]) -> Iterator[Row]:
        for row in _rows(rule, group, released):
            yield Row(**row.asDict(), due=None)

    def _keep(self, group: Group, rule: GatheringRule) -> Iterator[Row]:
        """Store a group, with a timer for its next deadline; yield when it is due to go out.

        A timer that fires too early costs less than moving the timer with every part.
        """
        due = group.due(rule.threshold)
        gone_at = self._gone_at(group, rule)
        if math.isinf(gone_at):
            return  # So far all events were too late.
        wanted = math.floor((gone_at if due is None else min(due, gone_at)) * 1000.0) + 1
        if group.alarm is None or wanted < group.alarm:
            self._handle.registerTimer(wanted)
            group.alarm = wanted
        self._stored.update((group.encoded(),))
        if due is not None:
            names = (field.split()[0] for field in AGGREGATES.split(", "))
            yield Row(**dict.fromkeys(names), due=due)

    def _gone_at(self, group: Group, rule: GatheringRule) -> float:
        return group.stale_after(rule.threshold) + self._lateness_s


def _of_history(
    log: "DataFrame",
    rules: Sequence[GatheringRule],
    places: Iterable[NamedPlace],
    lateness_s: float,
    patience_s: float,
) -> "DataFrame":
    parts = grouped(judged(log, lateness_s), rules, places)
    end = log.agg(F.max("ingested").alias("end"))
    # Sorted last: Spark drops an order that is below a join.
    ordered = (
        parts.crossJoin(F.broadcast(end))
        .repartition("rule", "group")
        .sortWithinPartitions("rule", "group", "ingested", "broker", "seq")
    )
    by_pattern = {rule.pattern: rule for rule in rules}

    def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rule: GatheringRule | None = None
        group: Group | None = None
        end = -math.inf
        for batch in batches:
            found: list[Row] = []
            names = ("rule", "group", "packet", "end")
            for pattern, name, packet, end in zip(
                *(batch.column(each).to_pylist() for each in names), strict=True
            ):
                if group is None or rule is None or (group.pattern, group.name) != (pattern, name):
                    found += _last_of(rule, group, end - patience_s)
                    rule, group = by_pattern[pattern], Group(pattern, name)
                found += _rows(rule, group, _gathered(rule, group, packet, -math.inf))
            yield _batch(found)
        yield _batch(_last_of(rule, group, end - patience_s))

    return ordered.mapInArrow(gather, AGGREGATES)


def _gathered(rule: GatheringRule, group: Group, packet: bytes, earliest: float) -> list[Aggregate]:
    """Add a part to its group; return what this and the time elapsed release."""
    found = unpack(packet)
    group.middle = found.middle
    if found.part.time < earliest:
        return []
    waited = group.expire(found.part.ingested, rule.threshold)
    reached = group.add(found.part, rule.threshold)
    return [each for each in (waited, reached) if each is not None]


def _last_of(rule: GatheringRule | None, group: Group | None, now: float) -> list[Row]:
    if rule is None or group is None:
        return []
    released = group.expire(now, rule.threshold)
    return [] if released is None else list(_rows(rule, group, [released]))


def _rows(rule: GatheringRule, group: Group, released: Iterable[Aggregate]) -> Iterator[Row]:
    for each in released:
        yield Row(
            rule=rule.pattern,
            group=group.name,
            id=each.id,
            subject=subject_of(rule.pattern, group.name),
            time=each.time,
            count=each.count,
            people=each.people,
            payload=each.payload.decode(),
            lat=each.lat,
            lon=each.lon,
        )


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row.asDict() for row in rows], schema=_ARROW)


def _order(row: Row) -> tuple[float, str, int]:
    return row.ingested, row.broker, row.seq
