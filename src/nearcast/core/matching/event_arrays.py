"""Intake: a batch of events as columns for kernels, in the numbers of the matcher's tables."""

import numpy as np

from nearcast.core.matching.filters.vocabulary import IDENTITY
from nearcast.core.matching.index.subscription_index import SubscriptionIndex
from nearcast.core.matching.known_world import KnownWorld
from nearcast.core.matching.pair_decision import CIRCLE_TARGET, NO_TARGET, NOBODY, SHAPE_TARGET
from nearcast.core.matching.reference import area_for
from nearcast.core.matching.tables import F64, I32, NONE, EventArrays
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geometry.area import Circle, MovingCircle
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

    def dismiss(self) -> None:
        """Release the rows of publishers that were added for the batch."""
        nodes = self._index.nodes
        for guest in self._guests:
            nodes.release(nodes.find(guest))
        self._guests = []

    def _publishers(self, batch: EventBatch) -> I32:
        nodes = self._index.nodes
        rows = nodes.find_all(batch.publishers)
        names_read = self._index.vocabulary.paths.get(IDENTITY) is not None
        if NONE in rows and (names_read or nodes.newcomer is not None):
            # Filters read names, or rules give rights: these publishers need a row during the
            # match.
            self._guests = [name for name in batch.publishers if nodes.find(name) == NONE]
            for name in self._guests:
                nodes.acquire(name)
            rows = nodes.find_all(batch.publishers)
        if len(batch) == 1 and len(rows) == 1:
            return np.array(rows, np.int32)
        return np.array([*rows, NONE], np.int32)[batch.publisher]

    def _targets(self, batch: EventBatch) -> Targets:
        count = len(batch)
        if not batch.targets:
            if count > len(self._aimless[0]):
                self._aimless = _aimless(count)
            return self._aimless
        kind, at, shape, _ = _aimless(count)
        codes: list[F64] = [np.zeros(1)]
        length = 1
        for i, area in batch.targets.items():
            publisher = int(batch.publisher[i])
            caller = batch.publishers[publisher] if publisher >= 0 else ""
            meant = area_for(area, caller, self._world)
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
                shape[i] = length
                codes.append(code)
                length += len(code)
        if len(codes) == 2:
            # The code of large polygons is not copied for each event.
            shape[:] = 0
            return kind, at, shape, codes[1]
        return kind, at, shape, np.concatenate(codes)


def order_of(batch: EventBatch) -> I32:
    """Return an order in which successive events read the same memory."""
    if len(batch) < SORTED_FROM:
        return _FEW[: len(batch)]
    return np.lexsort((batch.lat, batch.subject)).astype(np.int32)


_FEW = np.arange(SORTED_FROM, dtype=np.int32)


def _aimless(count: int) -> Targets:
    none: I32 = np.full(count, NO_TARGET, np.int32)
    return none, np.zeros((count, 3)), np.zeros(count, np.int32), np.zeros(1)


def _is_plain(shape: object) -> bool:
    return isinstance(shape, MovingCircle) and shape.east_m == shape.north_m == 0.0
