"""The city as Arrow tables for databases; an absent condition is NULL."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.benchmarks import city
from nearcast.benchmarks.city import CitySubscriptions, Events, People
from nearcast.benchmarks.matching.peers import columns
from nearcast.benchmarks.matching.peers.boxes import boxes


def subscriptions_table(subscriptions: CitySubscriptions, people: People) -> pa.Table:
    """One row per subscription, with its point in space and its bounding box."""
    named = subscriptions._asdict()
    ids = np.arange(len(subscriptions.owner), dtype=np.int32)
    table = {"id": ids, "subject": subscriptions.subject}
    for name in ("kind", "line"):
        table[name] = _nullable(named[name], named[name] == city.ABSENT)
    for name in ("speed_below", "speed_above", "severity", "delay"):
        table[name] = _nullable(named[name], np.isnan(named[name]))
    table["form"] = subscriptions.form
    table.update(columns.where(subscriptions, people)._asdict())
    table.update(boxes(subscriptions, people)._asdict())
    return pa.table(table)


def events_table(events: Events, first: int, last: int) -> pa.Table:
    """One row per event, with its point in space."""
    part = {name: column[first:last] for name, column in events._asdict().items()}
    x, y, z = columns.points(part["lat"], part["lon"])
    ids = np.arange(first, last, dtype=np.int32)
    return pa.table({"id": ids, **part, "x": x, "y": y, "z": z})


def _nullable(column: npt.NDArray[Any], absent: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(column, mask=absent)
