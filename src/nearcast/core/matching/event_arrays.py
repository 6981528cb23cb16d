"""Intake: a batch of events as columns for kernels, in the numbers of the matcher's tables."""

from collections.abc import Sequence

import numpy as np

from nearcast.core.matching.filters.intern_table import InternTable
from nearcast.core.matching.filters.vocabulary import IDENTITY
from nearcast.core.matching.index.subscription_index import SubscriptionIndex
from nearcast.core.matching.known_world import KnownWorld
from nearcast.core.matching.live.live_columns import LiveBatch, LiveStore
from nearcast.core.matching.pair_decision import CIRCLE_TARGET, NO_TARGET, NOBODY, SHAPE_TARGET
from nearcast.core.matching.reference import area_for
from nearcast.core.matching.tables import F64, I32, NONE, U8, EventArrays
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geometry.area import Area, Around, Circle, FixedArea, MovingCircle
from nearcast.core.model.geometry.area_resolution import Anchored
from nearcast.core.model.geometry.bounds import bounding_circle
from nearcast.core.model.geometry.shapes import encode

SORTED_FROM = 16
Targets = tuple[I32, F64, I32, F64]
"""Kind, (anchor latitude and longitude, reach), start of its shape; the code of all shapes."""


class EventIntake:
    """Converts batches to arrays."""

    def __init__(self, index: SubscriptionIndex, world: KnownWorld) -> None:
        self._index = index
        self._world = world
        self._guests: list[str] = []
        self._aimless: Targets = _aimless(0)

    def events(self, batch: EventBatch) -> EventArrays:
        """Return the batch as arrays; call `dismiss` when done with them."""
        vocabulary = self._index.vocabulary
        first_pattern, patterns = self._index.patterns.matching_all(batch.subjects)
        target, target_at, target_shape, target_code = self._targets(batch)
        return EventArrays(
            subject=batch.subject,
            publisher=self._publishers(batch),
            lat=batch.lat,
            lon=batch.lon,
            borrowed=batch.borrowed,
            first=batch.first,
            names=batch.name_of,
            kinds=batch.kinds,
            values=batch.values,
            slot_of=vocabulary.slots.numbers_of(batch.names),
            string_of=vocabulary.strings.numbers_of(batch.strings),
            first_pattern=first_pattern,
            patterns=patterns,
            target=target,
            target_at=target_at,
            target_shape=target_shape,
            target_code=target_code,
        )

    def live_events(self, store: LiveStore, batch: LiveBatch) -> EventArrays:
        """Return live events as arrays, by the numbers of their subjects among the live events.

        Call `dismiss` when done with them.
        """
        vocabulary, c, rows = self._index.vocabulary, store.columns, batch.rows
        attributes = (np.zeros(len(rows) + 1, np.int32), *_NO_ATTRIBUTES)
        if len(vocabulary.slots):
            attributes = store.attributes_of(rows)
        first, names, kinds, values = attributes
        target, target_at, target_shape, target_code = self._live_targets(store, batch)
        publisher = c.publisher[rows]
        publishers = list(set(publisher.tolist()))
        row_of = np.full(store.publishers.capacity, NONE, np.int32)
        row_of[publishers] = self._publisher_rows(list(map(store.publishers.value, publishers)))
        return EventArrays(
            subject=c.subject[rows],
            publisher=row_of[publisher],
            lat=c.lat[rows],
            lon=c.lon[rows],
            borrowed=c.borrowed[rows],
            first=first,
            names=names,
            kinds=kinds,
            values=values,
            slot_of=_translated(store.names, vocabulary.slots),
            string_of=_translated(store.strings, vocabulary.strings),
            first_pattern=_NO_NUMBERS,
            patterns=_NO_NUMBERS,
            target=target,
            target_at=target_at,
            target_shape=target_shape,
            target_code=target_code,
        )

    def dismiss(self) -> None:
        """Release the rows of publishers that were added for the batch."""
        nodes = self._index.nodes
        for guest in self._guests:
            nodes.release(nodes.find(guest))
        self._guests = []

    def _publishers(self, batch: EventBatch) -> I32:
        rows = self._publisher_rows(batch.publishers)
        if len(batch) == 1 and len(rows) == 1:
            return np.array(rows, np.int32)
        return np.array([*rows, NONE], np.int32)[batch.publisher]

    def _publisher_rows(self, publishers: Sequence[str]) -> list[int]:
        nodes = self._index.nodes
        rows = nodes.find_all(publishers)
        names_read = self._index.vocabulary.paths.get(IDENTITY) is not None
        if NONE in rows and (names_read or nodes.newcomer is not None):
            # Filters read names, or rules give rights: these publishers need a row during the
            # match.
            self._guests = [name for name in publishers if nodes.find(name) == NONE]
            for name in self._guests:
                nodes.acquire(name)
            rows = nodes.find_all(publishers)
        return rows

    def _targets(self, batch: EventBatch) -> Targets:
        count = len(batch)
        if not batch.targets:
            if count > len(self._aimless[0]):
                self._aimless = _aimless(count)
            return self._aimless
        found = _TargetColumns(_aimless(count))
        circles: dict[tuple[Area, int], FixedArea | Anchored | None] = {}
        numbers = batch.publisher.tolist()
        for i, area in batch.targets.items():
            publisher = numbers[i]
            caller = batch.publishers[publisher] if publisher >= 0 else ""
            if isinstance(area, Around) and isinstance(area.shape, MovingCircle):
                # Many live events with equal targets are matched together when a node moves.
                if (area, publisher) not in circles:
                    circles[area, publisher] = area_for(area, caller, self._world)
                found.put(i, circles[area, publisher])
            else:
                found.put(i, area_for(area, caller, self._world))
        return found.columns()

    def _live_targets(self, store: LiveStore, batch: LiveBatch) -> Targets:
        circle = store.columns.circle[batch.rows]
        kind, at, shape, code = _aimless(len(batch))
        is_circle = ~np.isnan(circle[:, 2])
        kind[is_circle], at[is_circle] = CIRCLE_TARGET, circle[is_circle]
        others = np.flatnonzero(store.columns.targeted[batch.rows] & ~is_circle)
        found = _TargetColumns((kind, at, shape, code))
        for i in others.tolist():
            event = batch.event(i)
            assert event.to is not None
            found.put(i, area_for(event.to, event.publisher, self._world))
        return found.columns()


class _TargetColumns:
    """Targets of events, as they are resolved."""

    def __init__(self, aimless: Targets) -> None:
        self._kind, self._at, self._shape, none = aimless
        self._codes: list[F64] = [none]
        self._length = len(none)

    def put(self, i: int, meant: FixedArea | Anchored | None) -> None:
        """Set the target of an event; None: it contains no node."""
        kind, at = self._kind, self._at
        if meant is None:
            kind[i] = NOBODY
        elif isinstance(meant, Circle):
            kind[i] = CIRCLE_TARGET
            at[i] = meant.center.lat, meant.center.lon, meant.radius_m
        elif isinstance(meant, Anchored) and _is_plain(meant.shape):
            kind[i] = CIRCLE_TARGET
            assert isinstance(meant.shape, MovingCircle)
            at[i] = meant.anchor.lat, meant.anchor.lon, meant.shape.radius_m
        else:
            kind[i] = SHAPE_TARGET
            form = meant.shape if isinstance(meant, Anchored) else meant
            lat, lon, reach_m = bounding_circle(form)
            if isinstance(meant, Anchored):
                lat, lon = meant.anchor.lat, meant.anchor.lon
            at[i] = lat, lon, reach_m
            code = encode(form)
            self._shape[i] = self._length
            self._codes.append(code)
            self._length += len(code)

    def columns(self) -> Targets:
        """Return the columns of all targets."""
        if len(self._codes) == 2:
            # The code of large polygons is not copied for each event.
            self._shape[:] = 0
            return self._kind, self._at, self._shape, self._codes[1]
        return self._kind, self._at, self._shape, np.concatenate(self._codes)


def order_of(batch: EventBatch) -> I32:
    """Return an order in which successive events read the same memory."""
    if len(batch) < SORTED_FROM:
        return _FEW[: len(batch)]
    return np.lexsort((batch.lat, batch.subject)).astype(np.int32)


_NO_NUMBERS: I32 = np.zeros(0, np.int32)
_NO_ATTRIBUTES: tuple[I32, U8, F64] = (_NO_NUMBERS, np.zeros(0, np.uint8), np.zeros(0))


def _translated(numbers: InternTable[str], known: InternTable[str]) -> I32:
    """Return for each number of a value its number in another table, NONE if it has none."""
    found: I32 = np.full(numbers.capacity, NONE, np.int32)
    fewer, more = (numbers, known) if len(numbers) < len(known) else (known, numbers)
    for value, number in fewer.items():
        other = more.get(value)
        if other is not None:
            here, there = (number, other) if fewer is numbers else (other, number)
            found[here] = there
    return found


_FEW = np.arange(SORTED_FROM, dtype=np.int32)


def _aimless(count: int) -> Targets:
    none: I32 = np.full(count, NO_TARGET, np.int32)
    return none, np.zeros((count, 3)), np.zeros(count, np.int32), np.zeros(1)


def _is_plain(shape: object) -> bool:
    return isinstance(shape, MovingCircle) and shape.east_m == shape.north_m == 0.0
