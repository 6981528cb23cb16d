"""Enrolment: subscriptions into the index and out of it, and the moves that carry them along.

Owns all the matcher's memory. Everything is done in batches: compile the filters, number what
they speak of, then let kernels file the entries, with more room whenever they ask for it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nearcast.core.language import Filter
from nearcast.core.language.ast import Operation, walk
from nearcast.core.matching.area_anchors import Anchors, Lying
from nearcast.core.matching.atoms import ACCEPT, REJECT
from nearcast.core.matching.cells import KEY, PLACE, grown, new_cells, with_items
from nearcast.core.matching.deciding import LONG, PARTIAL, SHARED
from nearcast.core.matching.filing import (
    ALL_CLASSES,
    chain_subscriptions,
    file_entries,
    unfile_subscriptions,
)
from nearcast.core.matching.globe_grid import columns_per_row
from nearcast.core.matching.keys import (
    FREE_GRID,
    FREE_KEY,
    GRIDS_MADE,
    KEY_COLUMNS,
    KEY_SLOTS,
    KEYS_MADE,
    KEYS_USED,
    KIND,
    SLOT,
    key_home,
)
from nearcast.core.matching.moving import move_nodes
from nearcast.core.matching.nodes import Nodes
from nearcast.core.matching.patterns import Patterns
from nearcast.core.matching.points import POINT_LEVELS
from nearcast.core.matching.programs import MOST_KEYS, Program, instructions, program, without
from nearcast.core.matching.rules import (
    acquire_rules,
    atoms_of,
    give_back,
    new_rules,
    release_rules,
    with_room,
)
from nearcast.core.matching.scanning import (
    BODY_COLUMNS,
    FLAG_BITS,
    INLINE,
    INLINE_ACCEPT,
    INLINE_ATOMS,
    INLINE_REJECT,
)
from nearcast.core.matching.tables import (
    ANCHOR,
    ENTRY,
    F64,
    I32,
    NEXT_OWN,
    NODE,
    NONE,
    OWN,
    PATTERN,
    RULE,
    SUBSCRIPTION_COLUMNS,
    KeyTable,
    PatternTable,
    SubscriptionTable,
    enough,
    nbytes,
    resized,
)
from nearcast.core.matching.vocabulary import Filed, Vocabulary
from nearcast.core.model.event import Subscription

CHUNK = 65_536
Filters = tuple[Filter | None, tuple[Filter, ...]]


class Enrolment:
    """All subscriptions, filed where events find them."""

    def __init__(self, anchors: Callable[["Enrolment"], Anchors]) -> None:
        self.vocabulary = Vocabulary()
        self.nodes = Nodes(self.vocabulary)
        self.patterns = Patterns()
        self.rules = new_rules()
        self.cells = new_cells(4, BODY_COLUMNS, chained=True)
        self.points = new_cells(0, 0)
        self.columns = columns_per_row()
        self.keys = _new_keys()
        self.pattern_table = PatternTable(
            keyless=np.full(16, NONE, np.int32),
            slots=np.full((16, KEY_SLOTS), NONE, np.int32),
            counts=np.zeros((16, KEY_SLOTS), np.int32),
        )
        self.table = SubscriptionTable(
            rows=np.full((16, SUBSCRIPTION_COLUMNS), NONE, np.int32),
            area=np.zeros(16, np.float64),
            next_entry=np.full(16, NONE, np.int32),
        )
        self.filters: dict[int, Filters] = {}
        """Of rules that kernels cannot decide alone."""
        self.counting = 0
        """How many of them ask for recent events."""
        self.anchors = anchors(self)
        self._free_row = NONE
        self._rows_made = 0
        self._count = 0
        self._free_entries: list[int] = []
        self._entries_made = 0
        self._spare = np.zeros((1, BODY_COLUMNS), np.int32)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of memory in the arrays."""
        tables = (
            self.rules, self.cells, self.points, self.keys, self.pattern_table, self.table,
            self.nodes.arrays, self.vocabulary.arrays,
        )  # fmt: skip
        return sum(nbytes(table) for table in tables) + self.anchors.shapes.code.nbytes

    def add(self, subscriptions: Sequence[Subscription]) -> I32:
        """File subscriptions; their numbers."""
        if len(subscriptions) > CHUNK:
            parts = range(0, len(subscriptions), CHUNK)
            return np.concatenate([self.add(subscriptions[i : i + CHUNK]) for i in parts])
        drafts = [self._draft(subscription) for subscription in subscriptions]
        rules = self._acquire_rules(drafts)
        rows = self._take_rows(len(drafts))
        values, area = self.table.rows, self.table.area
        entry_of, slot, kind, value, reach, bodies = [], [], [], [], [], []
        for row, rule, draft in zip(rows.tolist(), rules.tolist(), drafts, strict=True):
            lying = draft.lying
            values[row] = (draft.node, rule, lying.anchor, NONE, draft.pattern, NONE, NONE)
            area[row] = lying.area
            self.anchors.note(row, draft.node, lying)
            if draft.flags & PARTIAL and rule not in self.filters:
                self.filters[rule] = draft.filters
                self.counting += _counts(draft.filters)
            body = [row, rule << FLAG_BITS | draft.flags, *draft.inline]
            for filed in draft.values:
                entry_of.append(row)
                slot.append(filed[0])
                kind.append(filed[1])
                value.append(filed[2])
                reach.append(lying.reach_m)
                bodies.append(body)
        chain_subscriptions(rows, self.nodes.arrays, self.table)
        self._file(
            np.array(entry_of, np.int32),
            np.array(slot, np.int32),
            np.array(kind, np.int32),
            np.array(value, np.float64),
            np.array(reach, np.float64),
            np.array(bodies, np.int32).reshape(-1, BODY_COLUMNS),
        )
        self._count += len(drafts)
        return rows

    def remove(self, numbers: I32) -> None:
        """Take subscriptions out and give back all that only they used."""
        gone = np.ascontiguousarray(numbers, np.int32)
        freed = np.empty(MOST_KEYS * len(gone), np.int32)
        count = unfile_subscriptions(
            gone, freed, self.cells, self.keys, self.pattern_table, self.nodes.arrays, self.table
        )
        self._free_entries.extend(freed[:count].tolist())
        rows = self.table.rows
        for row in gone.tolist():
            self.anchors.release(row)
            self.nodes_release(int(rows[row, NODE]))
            self.patterns.release(int(rows[row, PATTERN]))
        self._release_rules(rows[gone, RULE])
        for row in gone.tolist():
            rows[row, RULE] = NONE
            rows[row, NEXT_OWN] = self._free_row
            self._free_row = row
        self._count -= len(gone)

    def refile(self, row: int, lying: Lying) -> None:
        """Let a subscription's area lie elsewhere."""
        slot, kind, value, bodies = [], [], [], []
        entry = int(self.table.rows[row, ENTRY])
        while entry != NONE:
            cell, place = self.cells.lies[entry, :2]
            key = self.cells.cells[cell, KEY]
            slot.append(self.keys.parts[key, SLOT])
            kind.append(self.keys.parts[key, KIND])
            value.append(self.keys.value[key])
            bodies.append(self.cells.bodies[place].copy())
            entry = int(self.table.next_entry[entry])
        freed = np.empty(len(slot), np.int32)
        gone = np.array([row], np.int32)
        unfile_subscriptions(
            gone, freed, self.cells, self.keys, self.pattern_table, self.nodes.arrays, self.table
        )
        self._free_entries.extend(freed.tolist())
        for filed in set(slot) - {NONE}:
            self._may_file(int(self.table.rows[row, PATTERN]), int(filed))
        self.table.rows[row, ANCHOR] = lying.anchor
        self.table.area[row] = lying.area
        chain_subscriptions(gone, self.nodes.arrays, self.table)
        self._file(
            np.full(len(slot), row, np.int32),
            np.array(slot, np.int32),
            np.array(kind, np.int32),
            np.array(value, np.float64),
            np.full(len(slot), lying.reach_m),
            np.array(bodies, np.int32),
        )

    def move(self, rows: I32, lat: F64, lon: F64) -> None:
        """Move nodes, and the areas round them with them; NaN takes them off the map."""
        self.points = with_items(self.points, self.nodes.capacity * POINT_LEVELS)
        done, resumed = 0, False
        while True:
            done = move_nodes(
                done, resumed, rows, lat, lon, self._spare, self.cells, self.points,
                self.keys, self.nodes.arrays, self.table, self.columns,
            )  # fmt: skip
            if done == len(rows):
                return
            self._grow()
            self.points = grown(self.points)
            resumed = True

    def nodes_release(self, row: int) -> None:
        """One user of a node less."""
        self.nodes.release(row)

    def reach_m(self, number: int) -> float:
        """How far from its anchor a subscription's area reaches."""
        place = self.cells.lies[self.table.rows[number, ENTRY], PLACE]
        return float(self.cells.geo[place, 3])

    def node_subscriptions(self, node: int) -> list[int]:
        """The numbers of all subscriptions of a node."""
        found = []
        row = int(self.nodes.arrays.heads[node, OWN])
        while row != NONE:
            found.append(row)
            row = int(self.table.rows[row, NEXT_OWN])
        return found

    def _draft(self, subscription: Subscription) -> "_Draft":
        where = program(subscription.where, self.vocabulary)
        levels = [program(level, self.vocabulary) for level in subscription.levels]
        if self.vocabulary.new_paths:
            self.nodes.fill_paths(self.vocabulary.new_paths)
            self.vocabulary.new_paths.clear()
        pattern = self.patterns.acquire(subscription.subject)
        node = self.nodes.acquire(subscription.node)
        lying = self.anchors.lie(subscription.from_, node)
        programs = (where, *levels)
        partial = any(each.partial for each in programs)
        shared = all(each.shared for each in programs)
        values = self._values_to_file(pattern, where)
        rest = instructions(without(where.tree, values, self.vocabulary)) if values else where.code
        flags = PARTIAL * partial
        if levels or len(rest) > INLINE or any(step[0] >> 2 >= INLINE_ATOMS for step in rest):
            flags |= LONG | SHARED * shared
            inline: Sequence[int] = _NOTHING
        else:
            inline = [_inline(step) for step in rest] + [0] * (INLINE - len(rest))
        return _Draft(
            node, pattern, lying, programs, flags, inline, values or _KEYLESS,
            (subscription.where, subscription.levels),
        )  # fmt: skip

    def _values_to_file(self, pattern: int, where: Program) -> tuple[Filed, ...]:
        """What to file under: the attribute with the most different values, the fewest of them."""
        self._room_for_pattern(pattern)
        best: tuple[Filed, ...] = ()
        best_worth = 0.0
        for values in where.keys(self.vocabulary):
            worth = self.vocabulary.values_of[values[0][0]] / len(values)
            if worth > best_worth:
                best, best_worth = values, worth
        return best if best and self._may_file(pattern, best[0][0]) else ()

    def _may_file(self, pattern: int, slot: int) -> bool:
        used = self.pattern_table.slots[pattern]
        free = NONE
        for k, other in enumerate(used.tolist()):
            if other == slot:
                return True
            if other == NONE and free == NONE:
                free = k
        if free == NONE:
            return False
        used[free] = slot
        self.pattern_table.counts[pattern, free] = 0
        return True

    def _room_for_pattern(self, pattern: int) -> None:
        have = len(self.pattern_table.keyless)
        if pattern >= have:
            size = enough(have, pattern + 1)
            keyless = np.full(size, NONE, np.int32)
            keyless[:have] = self.pattern_table.keyless
            slots = np.full((size, KEY_SLOTS), NONE, np.int32)
            slots[:have] = self.pattern_table.slots
            counts = resized(self.pattern_table.counts, size)
            self.pattern_table = PatternTable(keyless, slots, counts)

    def _acquire_rules(self, drafts: "list[_Draft]") -> I32:
        words: list[int] = []
        first, length, levels, flags = [0], [], [], []
        for draft in drafts:
            for at, each in enumerate(draft.programs):
                if at:
                    words += (len(each.code), 0)
                for word, yes, no in each.code:
                    words += (word, yes << 8 | no)
            first.append(len(words))
            length.append(len(draft.programs[0].code))
            levels.append(len(draft.programs) - 1)
            flags.append(draft.flags & (PARTIAL | SHARED))
        self.rules = with_room(self.rules, len(drafts), len(words))
        return acquire_rules(
            np.array(words, np.int32), np.array(first, np.int32), np.array(length, np.int32),
            np.array(levels, np.int32), np.array(flags, np.int32), self.rules,
            self.vocabulary.arrays,
        )  # fmt: skip

    def _release_rules(self, gone: I32) -> None:
        freed = np.empty(len(gone), np.int32)
        count = release_rules(gone, self.rules, self.vocabulary.arrays, freed)
        idle: set[int] = set()
        for rule in freed[:count].tolist():
            idle |= atoms_of(self.rules, rule)
            filters = self.filters.pop(rule, None)
            if filters is not None:
                self.counting -= _counts(filters)
        give_back(self.rules, freed[:count])
        users = self.vocabulary.arrays.users
        for atom in idle:
            if users[atom] == 0:
                self.vocabulary.release(atom)
        for path in self.vocabulary.gone_paths:
            self.nodes.clear_path(path)
        self.vocabulary.gone_paths.clear()

    def _take_rows(self, count: int) -> I32:
        rows = np.empty(count, np.int32)
        for i in range(count):
            if self._free_row != NONE:
                rows[i] = self._free_row
                self._free_row = int(self.table.rows[self._free_row, NEXT_OWN])
            else:
                rows[i] = self._rows_made
                self._rows_made += 1
                if self._rows_made > len(self.table.area):
                    size = enough(len(self.table.area), self._rows_made + count)
                    self.table = self.table._replace(
                        rows=resized(self.table.rows, size), area=resized(self.table.area, size)
                    )
        return rows

    def _take_entries(self, count: int) -> I32:
        again = min(count, len(self._free_entries))
        entries = self._free_entries[len(self._free_entries) - again :]
        del self._free_entries[len(self._free_entries) - again :]
        fresh = count - again
        entries.extend(range(self._entries_made, self._entries_made + fresh))
        self._entries_made += fresh
        size = enough(len(self.table.next_entry), self._entries_made)
        if size != len(self.table.next_entry):
            self.table = self.table._replace(next_entry=resized(self.table.next_entry, size))
        self.cells = with_items(self.cells, self._entries_made)
        return np.array(entries, np.int32)

    def _file(
        self, subscription: I32, slot: I32, kind: I32, value: F64, reach_m: F64, bodies: I32
    ) -> None:
        reach = reach_m.astype(np.float32)
        reach = np.where(reach < reach_m, np.nextafter(reach, np.float32(np.inf)), reach)
        body = np.concatenate([bodies, self._spare])
        numbers = self._take_entries(len(subscription))
        done = 0
        while True:
            done = file_entries(
                done, subscription, slot, kind, value, reach, body, numbers, self.cells, self.keys,
                self.pattern_table, self.nodes.arrays, self.table, self.columns,
            )  # fmt: skip
            if done == len(subscription):
                return
            self._grow()

    def _grow(self) -> None:
        self.cells = grown(self.cells)
        self.keys = _with_room_for_keys(self.keys)


class _Draft:
    __slots__ = ("filters", "flags", "inline", "lying", "node", "pattern", "programs", "values")

    def __init__(
        self,
        node: int,
        pattern: int,
        lying: Lying,
        programs: tuple[Program, ...],
        flags: int,
        inline: Sequence[int],
        values: tuple[Filed, ...],
        filters: Filters,
    ) -> None:
        self.node = node
        self.pattern = pattern
        self.lying = lying
        self.programs = programs
        self.flags = flags
        self.inline = inline
        self.values = values
        self.filters = filters


_NOTHING = (0,) * INLINE
_KEYLESS: tuple[Filed, ...] = ((NONE, 0, 0.0),)
_INLINE_ENDS = {ACCEPT: INLINE_ACCEPT, REJECT: INLINE_REJECT}


def _counts(filters: Filters) -> bool:
    """Whether any of the filters asks for recent events."""
    where, levels = filters
    return any(
        isinstance(node, Operation) and node.op in ("count", "earlier")
        for each in (where, *levels)
        if each is not None
        for node, _ in walk(each.root)
    )


def _inline(step: tuple[int, int, int]) -> int:
    word, yes, no = step
    return (
        word >> 2 << 8
        | (word & 3) << 6
        | _INLINE_ENDS.get(yes, yes) << 3
        | _INLINE_ENDS.get(no, no)
    )


def _new_keys() -> KeyTable:
    state = np.zeros(5, np.int64)
    state[FREE_KEY] = state[FREE_GRID] = NONE
    return KeyTable(
        parts=np.zeros((16, KEY_COLUMNS), np.int32),
        value=np.zeros(16),
        classes=np.zeros((4, ALL_CLASSES), np.int32),
        slots=np.full(64, NONE, np.int32),
        state=state,
    )


def _with_room_for_keys(keys: KeyTable) -> KeyTable:
    made, grids = int(keys.state[KEYS_MADE]), int(keys.state[GRIDS_MADE])
    size = enough(len(keys.value), made + 64)
    grid_size = enough(len(keys.classes), grids + 1)
    if size != len(keys.value):
        keys = keys._replace(parts=resized(keys.parts, size), value=resized(keys.value, size))
    if grid_size != len(keys.classes):
        keys = keys._replace(classes=resized(keys.classes, grid_size))
    if 2 * (int(keys.state[KEYS_USED]) + 64) > len(keys.slots):
        slots = np.full(2 * len(keys.slots), NONE, np.int32)
        mask = len(slots) - 1
        for key in keys.slots[keys.slots != NONE]:
            pattern, slot, kind = keys.parts[key, :3]
            i = key_home(pattern, slot, kind, keys.value[key], mask)
            while slots[i] != NONE:
                i = (i + 1) & mask
            slots[i] = key
        keys = keys._replace(slots=slots)
    return keys
