"""The matcher: subscriptions that an event matches, and live events that match a subscription.

Holds subscriptions and node states, and matches batches of events. Equal filters share one rule and
equal predicates one atom; kernels decide all they can, and the reference evaluator decides the
remaining subscriptions, with the same answer.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import is_not
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.core.adaptation.form_function import truths_of
from nearcast.core.adaptation.priority_rules import NEVER
from nearcast.core.adaptation.subscriber_priorities import SubscriberPriorities
from nearcast.core.language.evaluation.scope import Value
from nearcast.core.matching.atom_truths import TruthColumns, joined_truths, judge_atoms
from nearcast.core.matching.candidate_scan import match_events
from nearcast.core.matching.event_arrays import EventIntake, order_of
from nearcast.core.matching.filters.shared_programs import RULES_USED
from nearcast.core.matching.index.cells import CELLS_USED, IN_USE
from nearcast.core.matching.index.keys import KEYS_USED
from nearcast.core.matching.index.subscription_index import SubscriptionIndex
from nearcast.core.matching.known_world import KnownWorld
from nearcast.core.matching.live.live_columns import LiveBatch, LiveStore
from nearcast.core.matching.live.live_scan import decide_live, news_for
from nearcast.core.matching.memory import FIELDS, Memory, memory_of
from nearcast.core.matching.node_search import nodes_within
from nearcast.core.matching.pair_decision import RECHECK
from nearcast.core.matching.reference import EventScope, Memo, may_see_all
from nearcast.core.matching.sight import Sight
from nearcast.core.matching.tables import (
    ANCHOR,
    F64,
    I32,
    I64,
    LAT,
    LAT_BEFORE,
    NODE,
    NONE,
    PATTERN,
    RULE,
    EventArrays,
)
from nearcast.core.matching.workspace import Workspace
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.event_batch import EventBatch
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position


class Matches(NamedTuple):
    """Pairs of an event's index in the batch and a subscription's number, with the priority."""

    event: I32
    subscription: I32
    priority: I32
    truths: TruthColumns | None = None
    """The truth of atoms; None if no subscription has relevance."""

    def only(self, which: "npt.NDArray[np.bool_] | I64") -> "Matches":
        """Return the pairs that a mask selects, or in the order of an index."""
        truths = None if self.truths is None else self.truths.only(which)
        columns = (self.event[which], self.subscription[which], self.priority[which])
        return Matches(*columns, truths)


NO_MATCHES = Matches(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))


class LiveMatches(NamedTuple):
    """Pairs of a live event's row and a subscription's number, with the priority."""

    row: I32
    subscription: I32
    priority: I32
    truths: TruthColumns | None = None

    def only(self, which: "npt.NDArray[np.bool_] | I64") -> "LiveMatches":
        """Return the pairs that a mask selects, or in the order of an index."""
        truths = None if self.truths is None else self.truths.only(which)
        columns = (self.row[which], self.subscription[which], self.priority[which])
        return LiveMatches(*columns, truths)


_NO_ROWS: I32 = np.zeros(0, np.int32)
_NO_PAIRS: I32 = np.zeros((3, 0), np.int32)
NO_LIVE_MATCHES = LiveMatches(_NO_ROWS, _NO_ROWS, _NO_ROWS)


def joined_matches(parts: Sequence[LiveMatches]) -> LiveMatches:
    """Return all pairs, one part after the other."""
    if len(parts) < 2:
        return parts[0] if parts else NO_LIVE_MATCHES
    return LiveMatches(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.subscription for part in parts]),
        np.concatenate([part.priority for part in parts]),
        joined_truths([part.truths for part in parts], [len(part.row) for part in parts]),
    )


def _alike(rows: I32, number: int) -> LiveMatches:
    """Return matches of live events with a subscription without filters: the priority is 1."""
    return LiveMatches(rows, np.full_like(rows, number), np.ones_like(rows))


class Matcher:
    """Subscriptions of moving nodes, and matching of events against them."""

    def __init__(self, places: Places | None = None) -> None:
        self.places = Places() if places is None else places
        self._index = SubscriptionIndex(self.places)
        self._nodes = self._index.nodes
        self.sight = Sight(self._nodes)
        """Visibility between nodes."""
        self.world = KnownWorld(self._nodes, self.sight, self.places)
        """The view of the reference evaluator."""
        self.live = LiveStore(self.world.bound_of_target)
        """Retained, valid and object events; the owner adds and removes them."""
        self._intake = EventIntake(self._index, self.world)
        self._workspace = Workspace()
        self._serial = 0
        self.looked_at = 0
        """The number of live events checked so far on behalf of subscriptions."""
        self._evaluations: dict[int, int] = {}
        """By subscription: predicates evaluated outside kernels."""
        self._evaluated = 0
        """Predicates evaluated outside kernels, in all."""
        self.priorities = SubscriberPriorities()
        """The relevance of subscriptions, and the context of their subscribers."""
        self.withheld = 0
        """How many matches were withheld so far, by relevance and context."""
        self.pairs_decided = 0
        """The number of pairs of a live event and a subscription decided so far."""
        self._tables: tuple[object, ...] = (None,) * len(FIELDS)

    def __len__(self) -> int:
        return len(self._index)

    def __getstate__(self) -> dict[str, object]:
        """All state except caches and handles: handles are addresses in this process."""
        made_again = ("_workspace", "_tables", "_handle")
        return {name: value for name, value in vars(self).items() if name not in made_again}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._workspace = Workspace()
        self._tables = (None,) * len(FIELDS)

    # Subscriptions

    def add(self, subscription: Subscription) -> int:
        """Add a subscription; return its number."""
        return int(self.add_many([subscription])[0])

    def add_many(self, subscriptions: Sequence[Subscription]) -> I32:
        """Add many subscriptions at once; return their numbers."""
        numbers = self._index.add(subscriptions)
        for i, each in enumerate(subscriptions):
            if each.relevance is not None:
                self.priorities.put(int(numbers[i]), each.where, each.relevance.levels)
        return numbers

    def remove(self, number: int) -> None:
        """Remove a subscription."""
        self.remove_many(np.array([number], np.int32))

    def remove_many(self, numbers: I32) -> None:
        """Remove many subscriptions at once."""
        self._index.remove(numbers)
        if len(self.priorities):
            for number in numbers.tolist():
                self.priorities.remove(number)

    # Nodes

    def rows(self, nodes: Iterable[str]) -> I32:
        """The rows of nodes, for `move_many`; NONE for unknown nodes."""
        return np.array(self._nodes.find_all(nodes), np.int32)

    def move(self, node: str, position: Position | None) -> None:
        """Set or clear the position of a node."""
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
            self._nodes.release(row)

    def move_many(self, rows: I32, lat: F64, lon: F64) -> None:
        """Move nodes that already have a position."""
        self._index.move(rows, lat, lon, self._memory)
        self._index.anchors.refresh_here(rows.tolist())

    def update(self, node: str, context: Mapping[str, Value]) -> None:
        """Replace the context of a node."""
        row = self._nodes.acquire(node)
        before = self._nodes.has_context(row)
        self._nodes.set_attributes(row, context)
        self.sight.befriend(row, context.get("friends"))
        # One use of the row for the context itself, one for this call.
        if before or not context:
            self._nodes.release(row)
        if before and not context:
            self._nodes.release(row)

    def forget_previous(self, node: str) -> None:
        """Erase the previous position of a node."""
        row = self._nodes.find(node)
        if row != NONE:
            self._nodes.arrays.at[row, LAT_BEFORE:] = math.nan

    def forget(self, node: str) -> None:
        """Erase position and context of a node; its subscriptions stay."""
        self.move(node, None)
        if self._nodes.find(node) != NONE:
            self.update(node, {})

    def refresh_places(self) -> None:
        """Re-index areas after places were added or removed."""
        self._index.anchors.refresh_places()

    def nodes_within(self, lat: float, lon: float, reach_m: float) -> list[str] | None:
        """Nodes that may be within reach of a position; None if that is most of the globe."""
        e = self._index
        return nodes_within(e.points, e.columns, self._nodes, lat, lon, reach_m)

    # Matching

    def match(self, batch: EventBatch) -> Matches:
        """Return all matching pairs of event and subscription; those of an event are adjacent."""
        events = self._intake.events(batch)
        workspace = self._workspace
        self._fit(len(batch))
        memory, order = self._memory(), order_of(batch)
        found: list[I32] = []
        done = 0
        while True:
            before = done
            done, written = match_events(
                done, order, self._serial, events, self.sight.restricted, memory, workspace.handle
            )
            found.append(workspace.found(written))
            if done == len(batch):
                break
            if done == before:
                workspace.grow()
        pairs = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
        return self._finished(batch, events, pairs)

    def live_for(self, number: int, aimed: bool = False) -> list[tuple[Event, int]]:
        """Return the live events that match a subscription now, with their priorities.

        `aimed`: only events with a target, unless the subscription has an area.
        """
        found = self.live_matches([number], (number,) if aimed else ())
        events = map(self.live.event_at, found.row.tolist())
        return list(zip(events, found.priority.tolist(), strict=True))

    def live_matches(
        self,
        numbers: Sequence[int],
        aimed: Collection[int] = (),
        sessions: Sequence[str] | None = None,
    ) -> LiveMatches:
        """Return the live events that match some subscriptions now, oldest version first.

        For subscriptions in `aimed` that have no area, only events with a target. With the session
        of each subscription, only events that it has not seen.
        """
        if not numbers or not len(self.live):
            return NO_LIVE_MATCHES
        rows = self.live_candidates(numbers, aimed)
        return self.live_among(rows, numbers, aimed, sessions)

    def live_candidates(self, numbers: Sequence[int], aimed: Collection[int] = ()) -> I32:
        """Return the rows of live events that may match subscriptions, oldest version first."""
        live, index, at = self.live, self._index, self._nodes.arrays.at
        reaches: dict[int, float] = {}
        owners: set[int] = set()
        patterns: set[int] = set()
        some = index.table.rows[numbers]
        reach_of = index.reaches_m(some).tolist()
        for number, row, reach_m in zip(numbers, some.tolist(), reach_of, strict=True):
            anchor = row[ANCHOR]
            if anchor != NONE:
                reaches[anchor] = max(reach_m, reaches.get(anchor, 0.0))
            else:
                owners.add(row[NODE])
                if number not in aimed:
                    patterns.add(row[PATTERN])
        found = [live.rows_about(index.patterns.pattern(each)) for each in patterns]
        for anchor, reach_m in reaches.items():
            lat, lon = at[anchor, :2].tolist()
            if not math.isnan(lat):
                found.append(live.rows_near((lat, lon, reach_m)))
        for owner in owners:
            lat, lon = at[owner, :2].tolist()
            if not math.isnan(lat):
                found.append(live.rows_aimed_at(lat, lon))
        rows = found[0] if len(found) == 1 else np.unique(np.concatenate(found or [_NO_ROWS]))
        self.looked_at += len(rows)
        return live.in_order(rows)

    def live_among(
        self,
        rows: I32,
        numbers: Sequence[int],
        aimed: Collection[int] = (),
        sessions: Sequence[str] | None = None,
    ) -> LiveMatches:
        """Return those of the live events in some rows that match subscriptions, in their order."""
        live, e, workspace = self.live, self._index, self._workspace
        whose: I32 = np.full(len(numbers), NONE, np.int32)
        if sessions is not None:
            whose = live.seen.numbers(sessions)
            distinct = np.array(list(set(whose.tolist())), np.int32)
            rows = rows[news_for(rows, distinct, live.seen.arrays)]
        if not len(rows) or not len(numbers):
            return NO_LIVE_MATCHES
        places: dict[int, int] = {}
        patterns = e.table.rows[numbers, PATTERN].tolist()
        pattern_of = [places.setdefault(each, len(places)) for each in patterns]
        fits = live.fitting([e.patterns.pattern(each) for each in places], rows)
        fitting = fits[:, live.columns.subject[rows]].any(axis=0)
        rows = rows if fitting.all() else rows[fitting]
        open_: npt.NDArray[np.bool_] = np.ones(len(rows), np.bool_)
        if len(numbers) == 1 and numbers[0] not in aimed and self._takes_any_event(numbers[0]):
            # The subject alone decides for events without a target.
            open_ = live.columns.targeted[rows]
            self.pairs_decided += len(rows) - int(open_.sum())
            if not open_.any():
                return _alike(rows, numbers[0])
        batch = LiveBatch(live, rows if open_.all() else rows[open_])
        events = self._intake.live_events(live, batch)
        self._fit(len(batch))
        workspace.fit_pairs(len(numbers))
        found: list[I32] = []
        done = 0
        while done < len(batch):
            done, written, decided = decide_live(
                done, self._serial, events, batch.rows, np.array(numbers, np.int32),
                np.array([number in aimed for number in numbers], np.uint8),
                np.array(pattern_of, np.int32), fits, whose, live.seen.arrays,
                self.sight.restricted, self._memory(), workspace.handle,
            )  # fmt: skip
            found.append(workspace.found(written))
            self.pairs_decided += decided
        pairs = np.concatenate(found, axis=1) if found else _NO_PAIRS
        matches = self._finished(batch, events, pairs)
        if len(batch) < len(rows):
            matching = ~open_
            matching[np.flatnonzero(open_)[matches.event]] = True
            return _alike(rows[matching], numbers[0])
        return LiveMatches(batch.rows[matches.event], *matches[1:])

    def live_among_bounded(
        self,
        rows: I32,
        numbers: Sequence[int],
        aimed: Collection[int] = (),
        sessions: Sequence[str] | None = None,
        evaluations: int = 0,
    ) -> tuple[LiveMatches, int]:
        """Do as `live_among` for the first rows; return also how many rows these are.

        They are as many as need about so many predicates outside kernels, at least one; 0: all.
        """
        cost = self._evaluations_a_row(numbers)
        if not evaluations or not cost:
            return self.live_among(rows, numbers, aimed, sessions), len(rows)
        size = first = max(1, evaluations // cost)
        found: list[LiveMatches] = []
        done, before = 0, self._evaluated
        while done < len(rows) and self._evaluated - before < evaluations:
            spent = self._evaluated
            found.append(self.live_among(rows[done : done + size], numbers, aimed, sessions))
            done = min(done + size, len(rows))
            if 4 * (self._evaluated - spent) < evaluations:
                # Kernels decide most of them.
                size = min(2 * size, 8 * first)
        return joined_matches([each for each in found if len(each.row)]), done

    def _evaluations_a_row(self, numbers: Sequence[int]) -> int:
        """The most predicates that an event needs outside kernels for some subscriptions."""
        evaluated = self._index.evaluated
        if not evaluated:
            return 0
        rules = self._index.table.rows[numbers, RULE].tolist()
        return sum(evaluated[rule].predicates for rule in rules if rule in evaluated)

    def _takes_any_event(self, number: int) -> bool:
        """True if a subscription matches every event without a target on its subjects."""
        return not self.sight.restricted and self._index.takes_any_event(number)

    def subscriptions_of(self, node: str) -> list[int]:
        """The numbers of the subscriptions of a node."""
        row = self._nodes.find(node)
        return [] if row == NONE else self._index.node_subscriptions(row)

    def take_evaluations(self) -> dict[int, int]:
        """Return how many predicates were evaluated outside kernels, by subscription.

        Since the last call.
        """
        evaluations, self._evaluations = self._evaluations, {}
        return evaluations

    def take_candidates(self) -> tuple[I32, I64]:
        """Return how often kernels compared which subscription with an event, estimated.

        Since the last call: numbers of subscriptions, and a count for each.
        """
        return self._workspace.take_candidates()

    @property
    def evaluated_subscriptions(self) -> int:
        """The number of subscriptions that kernels cannot decide alone."""
        return self._index.partial

    @property
    def reads_attributes(self) -> bool:
        """True if some filter reads event attributes."""
        e = self._index
        return len(e.vocabulary.slots) > 0 or len(e.evaluated) > 0

    @property
    def counting(self) -> bool:
        """True if some filter counts recent events."""
        return self._index.counting > 0

    @property
    def nbytes(self) -> int:
        """Bytes of the index and its tables."""
        return self._index.nbytes

    def statistics(self) -> dict[str, int]:
        """Sizes of the index and its tables."""
        e = self._index
        return {
            "subscriptions": len(e),
            "nodes": len(e.nodes),
            "rules": int(e.rules.state[RULES_USED]),
            "slow_rules": len(e.evaluated),
            "atoms": len(e.vocabulary),
            "patterns": len(e.patterns),
            "keys": int(e.keys.state[KEYS_USED]),
            "cells": int(e.cells.meta[CELLS_USED]),
            "entries": int(e.cells.meta[IN_USE]),
            "shapes": len(e.anchors.shapes),
            "bytes": e.nbytes,
        }

    def _fit(self, events: int) -> None:
        e = self._index
        self._workspace.fit(
            events, e.vocabulary.slots.capacity, e.patterns.capacity, len(e.table.rows)
        )

    def _memory(self) -> Memory:
        """The handle on all tables, rebuilt when one of them was replaced."""
        e = self._index
        tables = (
            e.cells, e.points, e.keys, e.pattern_table, e.nodes.arrays, e.table, e.rules,
            e.vocabulary.arrays, e.anchors.shapes.code, self.sight.groups,
            self.sight.exceptions.arrays, self.sight.friends.arrays, e.columns,
        )  # fmt: skip
        if any(map(is_not, tables, self._tables)):
            self._handle = memory_of(*tables)
            self._tables = tables
        return self._handle

    def _move(self, row: int, position: Position | None) -> None:
        lat, lon = (math.nan, math.nan) if position is None else (position.lat, position.lon)
        self.move_many(np.array([row], np.int32), np.array([lat]), np.array([lon]))

    def _finished(self, batch: EventBatch | LiveBatch, events: EventArrays, pairs: I32) -> Matches:
        """Decide what kernels left open, and the priority of each pair; drop what is withheld."""
        truths = None
        if len(self.priorities) and pairs.shape[1]:
            truths = TruthColumns(
                *judge_atoms(
                    pairs[0], pairs[1], self._serial, events, self.sight.restricted,
                    self._memory(), self._workspace.handle,
                )
            )  # fmt: skip
        self._serial += len(batch)
        self._intake.dismiss()
        matches = self._recheck(batch, Matches(pairs[0], pairs[1], pairs[2], truths))
        return matches if truths is None else self._prioritised(batch, matches)

    def _prioritised(self, batch: EventBatch | LiveBatch, matches: Matches) -> Matches:
        assert matches.truths is not None
        number, priority = matches.subscription, matches.priority
        weighted, withheld = self.priorities.prioritise(number, *matches.truths, priority)
        if not weighted:
            return matches._replace(truths=None)
        said = batch.said_priorities(matches.event)
        if said:
            has_relevance = np.zeros(len(number), np.bool_)
            has_relevance[self.priorities.weighted_rows(number)] = True
            for event, (level, raises) in said.items():
                sent = has_relevance & (matches.event == event) & (priority != NEVER)
                priority[sent] = level if raises else np.maximum(priority[sent], level)
        if not withheld:
            return matches
        self.withheld += withheld
        return matches.only(priority != NEVER)

    def _recheck(self, batch: EventBatch | LiveBatch, matches: Matches) -> Matches:
        """Decide the pairs that kernels left open."""
        if batch.about and self.sight.restricted:
            matches = matches.only(self._may_know(batch, matches))
        if not self._index.evaluated:
            return matches
        memos: dict[int, Memo] = {}
        for i in np.flatnonzero(matches.priority == RECHECK).tolist():
            e = int(matches.event[i])
            memo = memos.setdefault(e, Memo())
            number, before = int(matches.subscription[i]), memo.evaluated
            matches.priority[i], *judged = self._judge(batch.event(e), number, memo)
            if matches.truths is not None:
                matches.truths.true[i], matches.truths.false[i] = judged
            evaluated = 1 + memo.evaluated - before
            self._evaluations[number] = self._evaluations.get(number, 0) + evaluated
            self._evaluated += evaluated
        keep = matches.priority != NONE
        return matches if keep.all() else matches.only(keep)

    def _may_know(self, batch: EventBatch | LiveBatch, matches: Matches) -> npt.NDArray[np.bool_]:
        """Mask out pairs whose event is about a node that the subscriber may not see."""
        rows, name, about = self._index.table.rows, self._nodes.name, batch.about
        keep = np.ones(len(matches.event), np.bool_)
        for i in np.flatnonzero(np.isin(matches.event, list(about))).tolist():
            viewer = name(int(rows[matches.subscription[i]][NODE]))
            keep[i] = may_see_all(viewer, about[int(matches.event[i])], self.world)
        return keep

    def _judge(self, event: Event, number: int, memo: Memo) -> tuple[int, int, int]:
        """Return whether a pair matches (1 or NONE), and which of its atoms are true and false."""
        row = self._index.table.rows[number]
        where, atoms, *_ = self._index.evaluated[int(row[RULE])]
        countable = self._index.countable.get(number)
        me = self._nodes.name(int(row[NODE]))
        scope = EventScope(event, me, self.world, countable=countable)
        if where is not None and memo.answer(where, scope) is not True:
            return NONE, 0, 0
        truths = truths_of([memo.answer(atom, scope) for atom in atoms])
        return 1, truths.true, truths.false
