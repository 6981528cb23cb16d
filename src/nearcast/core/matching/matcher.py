"""The matcher: who is concerned by an event, and which live events concern a subscriber.

Subscriptions go in, nodes move and change, batches of events are matched. Equal filters are one
rule and equal predicates one atom; kernels decide all they can, and whatever they cannot is
decided by the reference evaluator, for just those subscriptions, with the same answer.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import is_not
from typing import NamedTuple

import numpy as np

from nearcast.core.language import Filter
from nearcast.core.language.scope import Value
from nearcast.core.matching.area_anchors import Anchors
from nearcast.core.matching.atoms import HAS_LIST, lookup
from nearcast.core.matching.deciding import CIRCLE_TARGET, NO_TARGET, NOBODY, RECHECK, SHAPE_TARGET
from nearcast.core.matching.enrolment import Enrolment
from nearcast.core.matching.globe_grid import CLASSES
from nearcast.core.matching.live import Bound, LiveEvents
from nearcast.core.matching.memory import FIELDS, Memory, memory_of, scratch_of
from nearcast.core.matching.nodes import DEFAULT_GROUP
from nearcast.core.matching.pairs import Pairs
from nearcast.core.matching.reference import EventScope, area_for, best_priority
from nearcast.core.matching.scanning import MAX_CODES, decide_for, match_events
from nearcast.core.matching.tables import (
    ANCHOR,
    F64,
    I32,
    LAT,
    LAT_BEFORE,
    NODE,
    NONE,
    PATTERN,
    RULE,
    SEE_ALL,
    EventArrays,
)
from nearcast.core.matching.vocabulary import IDENTITY
from nearcast.core.model.area import Circle, MovingCircle
from nearcast.core.model.area_resolution import Anchored, holds
from nearcast.core.model.bounds import bounding_circle
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.places import Places
from nearcast.core.model.position import Position
from nearcast.core.model.shapes import encode
from nearcast.core.model.subject import subject_matches

SORTED_FROM = 16
GROUPS = 256
EXCEPTION = 128
"""Set in every exception's byte, so that seeing nothing is not the same as having none."""


class Matches(NamedTuple):
    """Pairs of an event's index in the batch and a subscription's number, with the priority."""

    event: I32
    subscription: I32
    priority: I32


class Matcher:
    """Subscriptions of moving nodes, and the events that concern them."""

    def __init__(self, places: Places | None = None) -> None:
        self.places = Places() if places is None else places
        self._enrolment = Enrolment(lambda enrolment: Anchors(enrolment, self.places))
        self._nodes = self._enrolment.nodes
        self.live = LiveEvents(self._bound_of_target)
        """Retained, valid and object events; the owner puts them in and takes them out."""
        self.recent = LiveEvents(self._bound_of_target)
        """Events of the last minutes, for filters that count; the owner fills it too."""
        self._friends = Pairs()
        self._exceptions = Pairs()
        self._groups = np.full((GROUPS, GROUPS), SEE_ALL, np.uint8)
        self._restricted = False
        self._serial = 0
        self._guests: list[str] = []
        self._tables: tuple[object, ...] = (None,) * len(FIELDS)
        self._scratch = _Scratch()
        self._friends_of: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._enrolment)

    # Subscriptions

    def add(self, subscription: Subscription) -> int:
        """File a subscription; its number."""
        return int(self._enrolment.add([subscription])[0])

    def add_many(self, subscriptions: Sequence[Subscription]) -> I32:
        """File many subscriptions at once; their numbers."""
        return self._enrolment.add(subscriptions)

    def remove(self, number: int) -> None:
        """Take a subscription out."""
        self._enrolment.remove(np.array([number], np.int32))

    def remove_many(self, numbers: I32) -> None:
        """Take many subscriptions out at once."""
        self._enrolment.remove(numbers)

    def owner(self, number: int) -> str:
        """The node that a subscription belongs to."""
        return self._nodes.name(int(self._enrolment.table.rows[number, NODE]))

    # Nodes

    def row(self, node: str) -> int:
        """The row of a node, for `move_many`; NONE if nothing is known of it."""
        return self._nodes.find(node)

    def move(self, node: str, position: Position | None) -> None:
        """A node is somewhere else now, or nobody knows where."""
        row = self._nodes.find(node)
        if row == NONE:
            if position is None:
                return
            row = self._nodes.acquire(node)
            self._move(row, position)
            return
        known = not math.isnan(self._nodes.arrays.at[row, LAT])
        if not known:
            if position is None:
                return
            self._nodes.acquire(node)
        self._move(row, position)
        if known and position is None:
            self._release(row)

    def move_many(self, rows: I32, lat: F64, lon: F64) -> None:
        """Move nodes that already have a position."""
        self._enrolment.move(rows, lat, lon)
        self._enrolment.anchors.refresh_here(rows.tolist())

    def update(self, node: str, context: Mapping[str, Value]) -> None:
        """A node's context is now this."""
        row = self._nodes.acquire(node)
        before = bool(self._nodes.attributes(row))
        self._nodes.set_attributes(row, context)
        self._befriend(row, context.get("friends"))
        # One user for having a context at all, one for this call.
        if before or not context:
            self._release(row)
        if before and not context:
            self._release(row)

    def forget(self, node: str) -> None:
        """Nothing is known of a node any more; its subscriptions stay."""
        self.move(node, None)
        if self._nodes.find(node) != NONE:
            self.update(node, {})

    def refresh_places(self) -> None:
        """Places were added or removed."""
        self._enrolment.anchors.refresh_places()

    # What may be seen

    def set_group(self, node: str, group: int) -> None:
        """Put a node into a visibility group, 1 to 255; everyone is in group 1 at first."""
        if not DEFAULT_GROUP <= group < GROUPS:
            raise ValueError(f"visibility groups are 1 to {GROUPS - 1}, not {group}")
        row = self._nodes.find(node)
        if row == NONE:
            row = self._nodes.acquire(node)
        self._nodes.arrays.group[row] = group

    def set_visibility(self, viewers: int, others: int, mask: int) -> None:
        """What nodes of one group may see of nodes of another."""
        self._groups[viewers, others] = mask
        self._restricted = True

    def set_exception(self, viewer: str, other: str, mask: int | None) -> None:
        """What one node may see of another, whatever their groups; None: as their groups say."""
        if mask is None:
            first, second = self._nodes.find(viewer), self._nodes.find(other)
            if second in self._exceptions.seconds(first):
                self._exceptions.drop(first, second)
                self._release(first)
                self._release(second)
            return
        first, second = self._nodes.acquire(viewer), self._nodes.acquire(other)
        if second in self._exceptions.seconds(first):
            self._release(first)
            self._release(second)
        self._exceptions.put(first, second, mask | EXCEPTION)
        self._restricted = True

    def may_see(self, viewer: str, other: str) -> int:
        """What one node may see of another."""
        if viewer == other:
            return SEE_ALL
        first, second = self._nodes.find(viewer), self._nodes.find(other)
        if second in self._exceptions.seconds(first):
            return _byte(self._exceptions, first, second) & SEE_ALL
        group = self._nodes.arrays.group
        viewers = int(group[first]) if first != NONE else DEFAULT_GROUP
        others = int(group[second]) if second != NONE else DEFAULT_GROUP
        return int(self._groups[viewers, others])

    # The world, as the reference evaluator asks for it

    def position(self, node: str) -> Position | None:
        """Where a node is."""
        row = self._nodes.find(node)
        if row == NONE or math.isnan(self._nodes.arrays.at[row, LAT]):
            return None
        lat, lon = self._nodes.arrays.at[row, :2].tolist()
        return Position(lat, lon)

    def previous_position(self, node: str) -> Position | None:
        """Where it was at the fix before."""
        row = self._nodes.find(node)
        if row == NONE or math.isnan(self._nodes.arrays.at[row, LAT_BEFORE]):
            return None
        lat, lon = self._nodes.arrays.at[row, 2:].tolist()
        return Position(lat, lon)

    def attributes(self, node: str) -> Mapping[str, Value]:
        """The context of a node."""
        row = self._nodes.find(node)
        return {} if row == NONE else self._nodes.attributes(row)

    def earlier(
        self, event: Event, viewer: str, subject: str, where: Filter | None, within: Circle | None
    ) -> list[Event]:
        """Recent events before this one that a viewer may know of."""
        found = []
        if within is None:
            candidates = self.recent.about(subject) + self.recent.about(subject, targeted=True)
        else:
            candidates = self.recent.near(bounding_circle(within))
        for other in candidates:
            if other is event or not subject_matches(subject, other.subject):
                continue
            scope = EventScope(other, viewer, self)
            at = scope.event_position()
            if within is not None and (at is None or not holds(within, at)):
                continue
            if where is None or where.evaluate_in(scope) is True:
                found.append(other)
        return found

    # Matching

    def match(self, batch: EventBatch) -> Matches:
        """Every (event, subscription) that belongs together; the pairs of an event lie together."""
        events = self._events(batch)
        e = self._enrolment
        scratch = self._scratch
        scratch.fit(len(batch), e.vocabulary.slots.capacity, e.patterns.capacity)
        memory = self._memory()
        found: list[Matches] = []
        order = _order(batch)
        done = 0
        while True:
            before = done
            done, written = match_events(
                done, order, self._serial, events, self._restricted, memory, scratch.handle
            )
            if written:
                found.append(Matches(*(column[:written].copy() for column in scratch.out)))
            if done == len(batch):
                break
            if done == before:
                scratch.grow()
        self._serial += len(batch)
        self._dismiss_guests()
        matches = found[0] if len(found) == 1 else _joined(found)
        return self._recheck(batch, matches) if self._enrolment.filters else matches

    def live_for(self, number: int) -> list[tuple[Event, int]]:
        """The live events that concern a subscription now, with their priorities."""
        row = self._enrolment.table.rows[number]
        at = self._nodes.arrays.at
        pattern = self._enrolment.patterns.pattern(int(row[PATTERN]))
        if row[ANCHOR] != NONE:
            lat, lon = at[row[ANCHOR], :2].tolist()
            if math.isnan(lat):
                return []
            candidates = self.live.near((lat, lon, self._enrolment.reach_m(number)))
        else:
            lat, lon = at[row[NODE], :2].tolist()
            candidates = self.live.about(pattern)
            if not math.isnan(lat):
                candidates += self.live.aimed_at(lat, lon)
        candidates = [event for event in candidates if subject_matches(pattern, event.subject)]
        if not candidates:
            return []
        batch = EventBatch.of(candidates)
        events = self._events(batch)
        scratch = self._scratch
        vocabulary, patterns = self._enrolment.vocabulary, self._enrolment.patterns
        scratch.fit(len(batch), vocabulary.slots.capacity, patterns.capacity)
        written = decide_for(number, events, self._restricted, self._memory(), scratch.handle)
        matches = Matches(*(column[:written].copy() for column in scratch.out))
        self._dismiss_guests()
        matches = self._recheck(batch, matches)
        return [
            (candidates[e], priority)
            for e, priority in zip(matches.event.tolist(), matches.priority.tolist(), strict=True)
        ]

    def live_for_node(self, node: str) -> list[tuple[int, Event, int]]:
        """The live events that concern a node now: subscription, event, priority."""
        row = self._nodes.find(node)
        if row == NONE or not len(self.live):
            return []
        return [
            (number, event, priority)
            for number in self._enrolment.node_subscriptions(row)
            for event, priority in self.live_for(number)
        ]

    @property
    def counting(self) -> bool:
        """Whether some filter asks for recent events."""
        return self._enrolment.counting > 0

    @property
    def nbytes(self) -> int:
        """Bytes of memory in the index and its tables."""
        return self._enrolment.nbytes

    def statistics(self) -> dict[str, int]:
        """How much there is of everything."""
        e = self._enrolment
        return {
            "subscriptions": len(e),
            "nodes": len(e.nodes),
            "rules": int(e.rules.state[2]),
            "slow_rules": len(e.filters),
            "atoms": len(e.vocabulary),
            "patterns": len(e.patterns),
            "keys": int(e.keys.state[2]),
            "cells": int(e.cells.meta[2]),
            "entries": int(e.cells.meta[4]),
            "shapes": len(e.anchors.shapes),
            "bytes": e.nbytes,
        }

    def _dismiss_guests(self) -> None:
        for guest in self._guests:
            self._release(self._nodes.find(guest))
        self._guests = []

    def _bound_of_target(self, event: Event) -> Bound | None:
        assert event.to is not None
        meant = area_for(event.to, event.publisher, self)
        if meant is None:
            return None
        if isinstance(meant, Anchored):
            _, _, reach_m = bounding_circle(meant.shape)
            return meant.anchor.lat, meant.anchor.lon, reach_m
        return bounding_circle(meant)

    def _memory(self) -> Memory:
        """The handle on all tables, made again when one of them was replaced."""
        e = self._enrolment
        tables = (
            e.cells, e.points, e.keys, e.pattern_table, e.nodes.arrays, e.table, e.rules,
            e.vocabulary.arrays, e.anchors.shapes.code, self._groups, self._exceptions.arrays,
            self._friends.arrays, e.columns,
        )  # fmt: skip
        if any(map(is_not, tables, self._tables)):
            self._handle = memory_of(*tables)
            self._tables = tables
        return self._handle

    def _move(self, row: int, position: Position | None) -> None:
        lat, lon = (math.nan, math.nan) if position is None else (position.lat, position.lon)
        self.move_many(np.array([row], np.int32), np.array([lat]), np.array([lon]))

    def _release(self, row: int) -> None:
        self._enrolment.nodes_release(row)

    def _befriend(self, row: int, friends: Value) -> None:
        before = self._friends_of.pop(row, None)
        now: list[int] | None = None
        if isinstance(friends, list | tuple):
            names = {friend for friend in friends if isinstance(friend, str)}
            now = [self._nodes.acquire(friend) for friend in names]
        if before is not None:
            for friend in before:
                self._friends.drop(row, friend)
                self._release(friend)
            self._friends.drop(row, HAS_LIST)
        if now is not None:
            self._friends_of[row] = now
            self._friends.put(row, HAS_LIST, 1)
            for friend in now:
                self._friends.put(row, friend, 1)

    def _events(self, batch: EventBatch) -> EventArrays:
        e = self._enrolment
        first_pattern = [0]
        patterns: list[int] = []
        for subject in batch.subjects:
            patterns.extend(e.patterns.matching(subject))
            first_pattern.append(len(patterns))
        rows = [self._nodes.find(publisher) for publisher in batch.publishers]
        if NONE in rows and e.vocabulary.paths.get(IDENTITY) is not None:
            # Nothing is known of them but their names, which filters ask for.
            self._guests = [name for name in batch.publishers if self._nodes.find(name) == NONE]
            rows = [
                self._nodes.acquire(name) if row == NONE else row
                for name, row in zip(batch.publishers, rows, strict=True)
            ]
        publisher = np.array([*rows, NONE], np.int32)[batch.publisher]
        slots, strings = e.vocabulary.slots, e.vocabulary.strings
        target, target_at, target_shape, target_code = self._targets(batch)
        return EventArrays(
            subject=batch.subject,
            publisher=publisher,
            lat=batch.lat,
            lon=batch.lon,
            borrowed=batch.borrowed,
            first=batch.first,
            names=batch.name_of,
            kinds=batch.kinds,
            values=batch.values,
            slot_of=np.array([slots.number(name) for name in batch.names], np.int32),
            string_of=np.array([strings.number(text) for text in batch.strings], np.int32),
            first_pattern=np.array(first_pattern, np.int32),
            patterns=np.array(patterns, np.int32),
            target=target,
            target_at=target_at,
            target_shape=target_shape,
            target_code=target_code,
        )

    def _targets(self, batch: EventBatch) -> tuple[I32, F64, I32, F64]:
        if not batch.targets:
            return self._scratch.no_targets(len(batch))
        kind = np.full(len(batch), NO_TARGET, np.int32)
        at = np.zeros((len(batch), 3))
        shape = np.zeros(len(batch), np.int32)
        codes: list[F64] = []
        length = 0
        for i, area in batch.targets.items():
            publisher = int(batch.publisher[i])
            caller = batch.publishers[publisher] if publisher >= 0 else ""
            meant = area_for(area, caller, self)
            if meant is None:
                kind[i] = NOBODY
            elif isinstance(meant, Circle):
                kind[i] = CIRCLE_TARGET
                at[i] = meant.center.lat, meant.center.lon, meant.radius_m
            elif (
                isinstance(meant, Anchored)
                and isinstance(meant.shape, MovingCircle)
                and meant.shape.east_m == meant.shape.north_m == 0.0
            ):
                kind[i] = CIRCLE_TARGET
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
        return kind, at, shape, np.concatenate(codes) if codes else np.zeros(1)

    def _recheck(self, batch: EventBatch, matches: Matches) -> Matches:
        doubtful = np.flatnonzero(matches.priority == RECHECK)
        if len(doubtful) == 0:
            return matches
        for i in doubtful.tolist():
            event = batch.event(int(matches.event[i]))
            number = int(matches.subscription[i])
            matches.priority[i] = self._priority(event, number)
        keep = matches.priority != NONE
        return Matches(*(column[keep] for column in matches))

    def _priority(self, event: Event, number: int) -> int:
        row = self._enrolment.table.rows[number]
        where, levels = self._enrolment.filters[int(row[RULE])]
        scope = EventScope(event, self._nodes.name(int(row[NODE])), self)
        if where is not None and where.evaluate_in(scope) is not True:
            return NONE
        priority = best_priority(levels, scope)
        return NONE if priority is None else priority


class _Scratch:
    """Memory that kernels write into, kept from one batch to the next."""

    def __init__(self) -> None:
        self.kinds = np.zeros(16, np.uint8)
        self.values = np.zeros(16)
        self.pattern_stamp = np.full(16, NONE, np.int64)
        self.ranges = np.zeros((256, 2), np.int32)
        self.probes = np.zeros((512, 3), np.int64)
        self.codes = np.zeros((CLASSES + 2, MAX_CODES), np.int64)
        self.code_count = np.zeros(CLASSES + 2, np.int32)
        self.survivors = np.zeros(4096, np.int32)
        self.out = tuple(np.zeros(4096, np.int32) for _ in range(3))
        self._bind()
        self._untargeted: tuple[I32, F64, I32, F64] = (
            np.zeros(0, np.int32), np.zeros((0, 3)), np.zeros(0, np.int32), np.zeros(1)
        )  # fmt: skip

    def fit(self, events: int, slots: int, patterns: int) -> None:
        if slots > len(self.kinds):
            self.kinds = np.zeros(2 * slots, np.uint8)
            self.values = np.zeros(2 * slots)
            self._bind()
        if patterns > len(self.pattern_stamp):
            self.pattern_stamp = np.full(2 * patterns, NONE, np.int64)
            self._bind()
        if 32 * events > len(self.out[0]):
            self.out = tuple(np.zeros(32 * events, np.int32) for _ in range(3))
            self._bind()

    def grow(self) -> None:
        self.ranges = np.zeros((2 * len(self.ranges), 2), np.int32)
        self.probes = np.zeros((2 * len(self.probes), 3), np.int64)
        self.survivors = np.zeros(2 * len(self.survivors), np.int32)
        self.out = tuple(np.zeros(2 * len(column), np.int32) for column in self.out)
        self._bind()

    def _bind(self) -> None:
        self.handle = scratch_of(
            self.kinds, self.values, self.pattern_stamp, self.ranges, self.probes, self.codes,
            self.code_count, self.survivors, *self.out,
        )  # fmt: skip

    def no_targets(self, events: int) -> tuple[I32, F64, I32, F64]:
        kind, at, shape, code = self._untargeted
        if events > len(kind):
            kind, at, shape = np.zeros(events, np.int32), np.zeros((events, 3)), kind
            shape = np.zeros(events, np.int32)
            self._untargeted = kind, at, shape, code
        return kind, at, shape, code


def _order(batch: EventBatch) -> I32:
    """Events that look into the same memory one after the other."""
    if len(batch) < SORTED_FROM:
        return np.arange(len(batch), dtype=np.int32)
    return np.lexsort((batch.lat, batch.subject)).astype(np.int32)


def _joined(parts: Iterable[Matches]) -> Matches:
    empty = Matches(*(np.zeros(0, np.int32) for _ in range(3)))
    return Matches(*(np.concatenate(columns) for columns in zip(empty, *parts, strict=True)))


def _byte(pairs: Pairs, first: int, second: int) -> int:
    return int(lookup(pairs.arrays, first, second))
