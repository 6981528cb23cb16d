"""A batch of events as columns: the unit of work of every step.

All events that arrived in one tick of a broker, in one Spark task or in one step of the simulator.
A batch is independent of subscriptions: names and strings are numbered within it, so the same batch
can be matched anywhere.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Self, TypedDict

import numpy as np
import numpy.typing as npt

from nearcast.core.model.context import Attributes, Value
from nearcast.core.model.event import Event
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position

MISSING, NUMBER, BOOLEAN, STRING, OTHER = 0, 1, 2, 3, 4
"""Kinds of value: MISSING is also JSON null, OTHER is a list or an object."""
MANY = 64
"""The number of events from which columns are built name by name."""


class EventBatch:
    """Events as columns; nested attributes are columns of their own under their dotted path."""

    __slots__ = (
        "_events", "about", "borrowed", "first", "ids", "kinds", "lat", "lon", "name_of", "names",
        "publisher", "publishers", "strings", "subject", "subjects", "targets", "times", "values",
    )  # fmt: skip

    def __init__(
        self,
        *,
        subjects: Sequence[str],
        subject: npt.NDArray[np.int32],
        publishers: Sequence[str],
        publisher: npt.NDArray[np.int32],
        lat: npt.NDArray[np.float64],
        lon: npt.NDArray[np.float64],
        names: Sequence[str],
        strings: Sequence[str],
        first: npt.NDArray[np.int32],
        name_of: npt.NDArray[np.int32],
        kinds: npt.NDArray[np.uint8],
        values: npt.NDArray[np.float64],
        borrowed: npt.NDArray[np.uint8] | None = None,
        times: npt.NDArray[np.float64] | None = None,
        ids: Sequence[str] | None = None,
        targets: Mapping[int, Area] | None = None,
        about: Mapping[int, tuple[str, ...]] | None = None,
        events: Sequence[Event] | None = None,
    ) -> None:
        """Take columns without copying.

        `subject` and `publisher` are indexes into `subjects` and `publishers` (-1: none). `lat` is
        NaN where an event has no position, `borrowed` 1 where it was taken from the publisher's
        context. Event i has the attributes `first[i]` to `first[i + 1] - 1`: a name, a kind, and a
        value that is a number, 0 or 1, or the number of a string.
        """
        self.subjects, self.subject = subjects, subject
        self.publishers, self.publisher = publishers, publisher
        self.lat, self.lon = lat, lon
        self.names, self.strings = names, strings
        self.first, self.name_of, self.kinds, self.values = first, name_of, kinds, values
        count = len(subject)
        self.borrowed = np.zeros(count, np.uint8) if borrowed is None else borrowed
        self.times = np.zeros(count) if times is None else times
        self.ids = ids
        self.targets = targets or {}
        self.about = about or {}
        self._events = events

    def __len__(self) -> int:
        return len(self.subject)

    @classmethod
    def of(cls, events: Sequence[Event]) -> Self:
        """Make a batch of events."""
        if len(events) == 1:
            return cls._of_one(events)
        subjects: dict[str, int] = {}
        publishers: dict[str, int] = {}
        subject, publisher, lat, lon, borrowed = [], [], [], [], []
        targets, about = {}, {}
        for i, event in enumerate(events):
            subject.append(subjects.setdefault(event.subject, len(subjects)))
            publisher.append(publishers.setdefault(event.publisher, len(publishers)))
            at = event.position
            lat.append(np.nan if at is None else at.lat)
            lon.append(np.nan if at is None else at.lon)
            borrowed.append(at is not None and not event.at_given)
            if event.to is not None:
                targets[i] = event.to
            if event.about:
                about[i] = event.about
        return cls(
            subjects=list(subjects),
            subject=np.array(subject, np.int32),
            publishers=list(publishers),
            publisher=np.array(publisher, np.int32),
            lat=np.array(lat, np.float64),
            lon=np.array(lon, np.float64),
            **carried([event.attributes for event in events]),
            borrowed=np.array(borrowed, np.uint8),
            targets=targets,
            about=about,
            events=events,
        )

    @classmethod
    def _of_one(cls, events: Sequence[Event]) -> Self:
        (event,) = events
        at = event.position
        return cls(
            subjects=[event.subject],
            subject=_FIRST,
            publishers=[event.publisher],
            publisher=_FIRST,
            lat=_NOWHERE if at is None else np.array([at.lat]),
            lon=_NOWHERE if at is None else np.array([at.lon]),
            **_of_one_event(event.attributes),
            borrowed=_IS_BORROWED if at is not None and not event.at_given else _IS_OWN,
            times=_AT_ZERO,
            targets=None if event.to is None else {0: event.to},
            about={0: event.about} if event.about else None,
            events=events,
        )

    def said_priorities(self, among: npt.NDArray[np.int32]) -> dict[int, tuple[int, bool]]:
        """By index, the priority that publishers gave, and whether it may raise that of receivers.

        At least of those of some indexes that have one.
        """
        return {
            i: (event.priority, event.raises)
            for i, event in enumerate(self._events or ())
            if event.priority is not None
        }

    def event(self, i: int) -> Event:
        """One of the events, rebuilt from the columns if necessary."""
        if self._events is not None:
            return self._events[i]
        attributes: dict[str, Value] = {}
        for j in range(self.first[i], self.first[i + 1]):
            attributes[self.names[self.name_of[j]]] = self._value(j)
        at = None if np.isnan(self.lat[i]) else Position(float(self.lat[i]), float(self.lon[i]))
        publisher = int(self.publisher[i])
        return Event(
            id=self.ids[i] if self.ids else str(i),
            subject=self.subjects[self.subject[i]],
            publisher=self.publishers[publisher] if publisher >= 0 else "",
            time=float(self.times[i]),
            attributes=attributes,
            position=at,
            at_given=not self.borrowed[i],
            to=self.targets.get(i),
            about=self.about.get(i, ()),
        )

    def _value(self, j: int) -> Value:
        kind, value = self.kinds[j], float(self.values[j])
        if kind == NUMBER:
            return value
        if kind == BOOLEAN:
            return value != 0.0
        return self.strings[int(value)] if kind == STRING else None


# Shared columns for batches of one event; columns are never written to.
_COUNTED = np.arange(64, dtype=np.int32)
_UP_TO = [np.array([0, count], np.int32) for count in range(len(_COUNTED))]
_FIRST = np.zeros(1, np.int32)
_NOWHERE = np.full(1, np.nan)
_AT_ZERO = np.zeros(1)
_IS_OWN, _IS_BORROWED = np.zeros(1, np.uint8), np.ones(1, np.uint8)


class AttributeColumns(TypedDict):
    """The attribute columns of a batch."""

    names: list[str]
    strings: list[str]
    first: npt.NDArray[np.int32]
    name_of: npt.NDArray[np.int32]
    kinds: npt.NDArray[np.uint8]
    values: npt.NDArray[np.float64]


def carried(attributes: Sequence[Attributes]) -> AttributeColumns:
    """Return the attributes of events as columns."""
    if len(attributes) >= MANY:
        names = list(dict.fromkeys(chain.from_iterable(attributes)))
        if len(names) * len(attributes) <= 2 * sum(map(len, attributes)):
            alike = _name_by_name(attributes, names)
            if alike is not None:
                return alike
    return event_by_event(attributes)


def event_by_event(
    attributes: Sequence[Attributes], known: Sequence[str] = (), spelt: Sequence[str] = ()
) -> AttributeColumns:
    """Return the attributes as columns; `known` names and `spelt` strings keep their numbers."""
    names = {name: number for number, name in enumerate(known)}
    strings = {string: number for number, string in enumerate(spelt)}
    first, name_of, kinds = [0], [], []
    values: list[float] = []
    for each in attributes:
        for name, value in flat(each):
            form = type(value)
            if form is float or form is int:
                kinds.append(NUMBER)
                values.append(value)  # type: ignore[arg-type]
            elif form is str:
                kinds.append(STRING)
                values.append(strings.setdefault(value, len(strings)))  # type: ignore[arg-type]
            else:
                kind, number = coded(value, strings)
                kinds.append(kind)
                values.append(number)
            name_of.append(names.setdefault(name, len(names)))
        first.append(len(name_of))
    return AttributeColumns(
        names=list(names),
        strings=list(strings),
        first=np.array(first, np.int32),
        name_of=np.array(name_of, np.int32),
        kinds=np.array(kinds, np.uint8),
        values=_numbers(values),
    )


def _of_one_event(attributes: Attributes) -> AttributeColumns:
    """Return the attributes of one event as columns, faster."""
    items = flat(attributes)
    count = len(items)
    if count != len(attributes) or count >= len(_COUNTED):
        return event_by_event([attributes])
    strings: dict[str, int] = {}
    kinds, values = [], []
    for _, value in items:
        kind, number = coded(value, strings)
        kinds.append(kind)
        values.append(number)
    return AttributeColumns(
        names=list(attributes),
        strings=list(strings),
        first=_UP_TO[count],
        name_of=_COUNTED[:count],
        kinds=np.frombuffer(bytes(kinds), np.uint8),
        values=np.array(values, np.float64),
    )


def _name_by_name(attributes: Sequence[Attributes], names: list[str]) -> AttributeColumns | None:
    """Return the columns of events with mostly the same names, faster; None if some are nested.

    An attribute that an event lacks is MISSING.
    """
    count, width = len(attributes), len(names)
    strings: dict[str, int] = {}
    kinds = np.zeros((count, width), np.uint8)
    values = np.zeros((count, width))
    for j, name in enumerate(names):
        column = [each.get(name) for each in attributes]
        forms = set(map(type, column))
        if forms <= _PLAIN_NUMBERS:
            kinds[:, j] = NUMBER
            values[:, j] = _numbers(column)  # type: ignore[arg-type]
        elif forms == _STRINGS:
            for value in dict.fromkeys(column):
                strings.setdefault(value, len(strings))  # type: ignore[arg-type]
            kinds[:, j] = STRING
            values[:, j] = list(map(strings.__getitem__, column))  # type: ignore[arg-type]
        elif any(issubclass(form, Mapping) for form in forms - _FLAT):
            return None
        else:
            found = [coded(value, strings) for value in column]
            kinds[:, j] = [kind for kind, _ in found]
            values[:, j] = [number for _, number in found]
    return AttributeColumns(
        names=names,
        strings=list(strings),
        first=np.arange(count + 1, dtype=np.int32) * np.int32(width),
        name_of=np.tile(np.arange(width, dtype=np.int32), count),
        kinds=kinds.ravel(),
        values=values.ravel(),
    )


def _numbers(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return numbers as kernels compare them: an integer beyond all doubles is infinite."""
    try:
        return np.array(values, np.float64)
    except OverflowError:
        return np.array(list(map(_bounded, values)), np.float64)


def _bounded(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_PLAIN_NUMBERS: frozenset[type] = frozenset((float, int))
_STRINGS: frozenset[type] = frozenset((str,))
_FLAT: frozenset[type] = frozenset((str, float, int, bool, type(None)))


def flat(attributes: Attributes) -> list[tuple[str, Value]]:
    """Return attributes by path; a member named by the whole path comes last and overrides."""
    for value in attributes.values():
        if type(value) not in _FLAT and isinstance(value, Mapping):
            break
    else:
        return list(attributes.items())
    nested: list[tuple[str, Value]] = []
    pending: list[tuple[str, Value]] = [
        (name, value)
        for name, value in attributes.items()
        if isinstance(value, Mapping) and "." not in name
    ]
    while pending:
        path, value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend((f"{path}.{name}", v) for name, v in value.items() if "." not in name)
        if "." in path:
            nested.append((path, value))
    return nested + list(attributes.items())


def coded(value: Value, strings: dict[str, int]) -> tuple[int, float]:
    """Return the kind of a value and its number; a string is numbered in `strings`."""
    if type(value) is float:
        return NUMBER, value
    if isinstance(value, str):
        return STRING, strings.setdefault(value, len(strings))
    if isinstance(value, bool):
        return BOOLEAN, float(value)
    if isinstance(value, int | float):
        return NUMBER, _bounded(value)
    return (MISSING, 0.0) if value is None else (OTHER, 0.0)
