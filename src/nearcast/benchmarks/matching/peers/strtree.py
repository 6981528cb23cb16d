"""Shapely's STRtree over the bounding boxes of all circles, then the conditions on its candidates.

The tree is immutable: a move requires building it again, so its build time is also the cost of the
first move. The conditions are evaluated in numpy, or by a function call for each candidate, as is
necessary if filters are not known in advance.
"""

from collections.abc import Callable
from itertools import compress

import numpy as np
import shapely

from nearcast.benchmarks import city
from nearcast.benchmarks.city import I32, CitySubscriptions, Events, People
from nearcast.benchmarks.matching.peers import columns
from nearcast.benchmarks.matching.peers.boxes import boxes
from nearcast.benchmarks.matching.peers.peer import MatchedPairs, PeerKind, joined

POINTS_AT_ONCE = 256


class StrTree:
    """A tree of bounding boxes; conditions are evaluated over columns."""

    _subscriptions: CitySubscriptions
    _where: columns.Where

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Build the tree."""
        self._subscriptions = subscriptions
        self._where = columns.where(subscriptions, people)
        box = boxes(subscriptions, people)
        self._tree = shapely.STRtree(shapely.box(box.west, box.south, box.east, box.north))

    def match(self, events: Events, first: int, last: int) -> MatchedPairs:
        """Query the tree for POINTS_AT_ONCE points at a time, then filter the candidates."""
        parts: list[tuple[int, I32]] = []
        for start in range(first, last, POINTS_AT_ONCE):
            stop = min(last, start + POINTS_AT_ONCE)
            lat, lon = events.lat[start:stop], events.lon[start:stop]
            event, row = self._tree.query(shapely.points(lon, lat))
            ends = np.cumsum(np.bincount(event, minlength=stop - start))
            x, y, z = columns.points(lat, lon)
            for i, rows in enumerate(np.split(row, ends[:-1])):
                rows = self._filter(rows, events, start + i)
                parts.append((start + i, columns.near(self._where, rows, x[i], y[i], z[i])))
        return joined(parts)

    def _filter(self, rows: I32, events: Events, i: int) -> I32:
        rows = columns.content(self._subscriptions, rows, events, i)
        return columns.numbers(self._subscriptions, rows, events, i)

    def server_cpu_s(self) -> float:
        """Always 0: there is no server."""
        return 0.0

    def close(self) -> None:
        """Do nothing: no process was started."""


Predicate = Callable[[int, int, int, float, float, float], bool]


class StrTreePython(StrTree):
    """A tree of bounding boxes; a Python function evaluates each candidate's conditions."""

    def load(self, subscriptions: CitySubscriptions, people: People) -> None:
        """Build the tree, and one function for each distinct filter."""
        super().load(subscriptions, people)
        made: dict[tuple[float | None, ...], Predicate] = {}
        self._predicates: list[Predicate] = []
        wanted = (subscriptions.subject, *subscriptions[3:])
        for row in zip(*(column.tolist() for column in wanted), strict=True):
            key = tuple(value if value == value else None for value in row)
            found = made.get(key)
            if found is None:
                found = made[key] = _compiled(*row)
            self._predicates.append(found)

    def _filter(self, rows: I32, events: Events, i: int) -> I32:
        event = (
            int(events.subject[i]), int(events.kind[i]), int(events.line[i]),
            float(events.speed[i]), float(events.severity[i]), float(events.delay[i]),
        )  # fmt: skip
        predicates = self._predicates
        candidates = rows.tolist()
        hits = [predicates[row](*event) for row in candidates]
        return np.array(list(compress(candidates, hits)), np.int32)


def _compiled(
    subject: int,
    kind: int,
    line: int,
    speed_below: float,
    speed_above: float,
    severity: float,
    delay: float,
    form: int,
) -> Predicate:
    """Compile a filter, most selective condition first, so that most calls end after one test."""
    parts = []
    if line != city.ABSENT:
        parts.append(f"line == {line}")
    if kind != city.ABSENT:
        parts.append(f"kind == {kind}")
    if subject != city.ANY_SUBJECT:
        parts.append(f"subject == {subject}")
    if delay == delay:
        parts.append(f"delay > {delay}")
    speed = [f"speed < {speed_below}"] if speed_below == speed_below else []
    speed += [f"speed > {speed_above}"] if speed_above == speed_above else []
    severe = [f"severity >= {severity}"] if severity == severity else []
    if form == city.WITH_OR:
        parts.append(f"({' or '.join(speed + severe)})")
    elif form == city.WITH_NOT:
        parts += [*speed, f"not {severe[0]}"]
    else:
        parts += speed + severe
    predicate: Predicate = eval(
        f"lambda subject, kind, line, speed, severity, delay: {' and '.join(parts)}"
    )
    return predicate


def _version() -> str:
    return str(shapely.__version__)


KIND = PeerKind(
    describe="shapely STRtree, conditions in numpy",
    start=StrTree,
    missing=lambda: None,
    version=_version,
)
PYTHON_KIND = PeerKind(
    describe="shapely STRtree, a Python function per candidate",
    start=StrTreePython,
    missing=lambda: None,
    version=_version,
)
