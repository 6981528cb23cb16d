"""The index of subscriptions: adds, removes and moves them, and owns the matcher's tables.

Everything is done in batches: compile the filters, number the names they use, then let kernels add
the entries, with more room whenever they need it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from nearcast.core.adaptation.weighted_filter import selecting_filter, weighted_atoms
from nearcast.core.language import Filter, Operation
from nearcast.core.matching.candidate_scan import BODY_COLUMNS, FLAG_BITS, PROGRAM, RULE_WORD
from nearcast.core.matching.filters.atoms import INLINE
from nearcast.core.matching.filters.programs import MOST_KEYS, NO_FILTER, program
from nearcast.core.matching.filters.shared_programs import (
    acquire_rules,
    atoms_of,
    give_back,
    new_rules,
    release_rules,
    with_room,
)
from nearcast.core.matching.filters.vocabulary import EqualityKey, Vocabulary
from nearcast.core.matching.index.area_anchors import Anchors, AreaPlacement
from nearcast.core.matching.index.cells import (
    KEY,
    PLACE,
    grown,
    is_loose,
    new_cells,
    packed,
    with_items,
)
from nearcast.core.matching.index.evaluated_rule import EvaluatedRule
from nearcast.core.matching.index.globe_grid import columns_per_row
from nearcast.core.matching.index.keys import (
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
from nearcast.core.matching.index.node_moves import move_nodes
from nearcast.core.matching.index.patterns import Patterns
from nearcast.core.matching.index.placement import (
    ALL_CLASSES,
    SUBSCRIPTION,
    chain_subscriptions,
    file_entries,
    unfile_subscriptions,
)
from nearcast.core.matching.index.points import POINT_LEVELS
from nearcast.core.matching.memory import Memory
from nearcast.core.matching.nodes import Nodes
from nearcast.core.matching.pair_decision import LONG, PARTIAL, SHARED
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
from nearcast.core.model.event import Subscription
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.subject_permissions import SubjectPermissions

CHUNK = 1_024
TIDIED_EVERY = 256
"""The number of moves after which unused memory is checked for."""


class SubscriptionIndex:
    """All subscriptions, indexed for matching."""

    def __init__(self, places: Places) -> None:
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
        self.evaluated: dict[int, EvaluatedRule] = {}
        """Filters of rules that kernels cannot decide alone."""
        self.counting = 0
        """The number of these rules that count recent events."""
        self._partial: set[int] = set()
        """Numbers of the subscriptions with such rules."""
        self.countable: dict[int, SubjectPermissions] = {}
        """Permissions of subscriptions that may not count every subject, by number."""
        self.anchors = Anchors(self, places)
        self._free_row = NONE
        self._rows_made = 0
        self._count = 0
        self._fileable: set[tuple[int, int]] = set()
        """Slots known to serve as keys under a pattern; cleared when anything is removed."""
        self._free_entries: list[int] = []
        self._entries_made = 0
        self._spare = np.zeros((1, BODY_COLUMNS), np.int32)
        self._moves = 0

    def __len__(self) -> int:
        return self._count

    @property
    def partial(self) -> int:
        """The number of subscriptions that kernels cannot decide alone."""
        return len(self._partial)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        tables = (
            self.rules, self.cells, self.points, self.keys, self.pattern_table, self.table,
            self.nodes.arrays, self.vocabulary.arrays,
        )  # fmt: skip
        return sum(nbytes(table) for table in tables) + self.anchors.shapes.code.nbytes

    def add(self, subscriptions: Sequence[Subscription]) -> I32:
        """Add subscriptions; return their numbers."""
        if len(subscriptions) > CHUNK:
            parts = range(0, len(subscriptions), CHUNK)
            return np.concatenate([self.add(subscriptions[i : i + CHUNK]) for i in parts])
        new_rows = _NewRows()
        for subscription in subscriptions:
            self._compile(subscription, new_rows)
        compiled_rows = np.array(new_rows.rows, np.int32).reshape(-1, 7)
        rules = self._acquire_rules(new_rows.words, compiled_rows)
        rows = self._take_rows(len(subscriptions))
        values = np.full((len(rows), SUBSCRIPTION_COLUMNS), NONE, np.int32)
        values[:, (NODE, ANCHOR, PATTERN)] = compiled_rows[:, :3]
        values[:, RULE] = rules
        self.table.rows[rows] = values
        self.table.area[rows] = new_rows.areas
        for i, placement in new_rows.named:
            self.anchors.note(int(rows[i]), int(compiled_rows[i, 0]), placement)
        for i in new_rows.partial:
            rule, each = int(rules[i]), subscriptions[i]
            if rule not in self.evaluated:
                evaluated = self.evaluated[rule] = EvaluatedRule.of(each)
                self.counting += evaluated.counts
            self._partial.add(int(rows[i]))
            if each.countable is not None:
                self.countable[int(rows[i])] = each.countable
        chain_subscriptions(rows, self.nodes.arrays, self.table)
        entries = np.array(new_rows.entries, np.float64).reshape(-1, 5)
        entry_of = entries[:, 0].astype(np.int32)
        bodies = np.empty((len(entry_of), BODY_COLUMNS), np.int32)
        bodies[:, SUBSCRIPTION] = rows[entry_of]
        bodies[:, RULE_WORD] = (rules << FLAG_BITS | compiled_rows[:, 3])[entry_of]
        bodies[:, PROGRAM:] = np.array(new_rows.inline, np.int32).reshape(-1, INLINE)
        self._file(
            rows[entry_of],
            np.ascontiguousarray(entries[:, 2:]),
            np.ascontiguousarray(entries[:, 1]),
            bodies,
        )
        self._count += len(rows)
        return rows

    def remove(self, numbers: I32) -> None:
        """Remove subscriptions and release everything that only they used."""
        gone = np.ascontiguousarray(numbers, np.int32)
        self._fileable.clear()
        freed = np.empty(MOST_KEYS * len(gone), np.int32)
        count = unfile_subscriptions(
            gone, freed, self.cells, self.keys, self.pattern_table, self.nodes.arrays, self.table
        )
        self._free_entries.extend(freed[:count].tolist())
        rows = self.table.rows
        for row in gone.tolist():
            self.countable.pop(row, None)
            self._partial.discard(row)
            self.anchors.release(row)
            self.nodes.release(int(rows[row, NODE]))
            self.patterns.release(int(rows[row, PATTERN]))
        self._release_rules(rows[gone, RULE])
        for row in gone.tolist():
            rows[row, RULE] = NONE
            rows[row, NEXT_OWN] = self._free_row
            self._free_row = row
        self._count -= len(gone)
        self._tidy()

    def refile(self, row: int, placement: AreaPlacement) -> None:
        """Move a subscription's area."""
        entry_keys: list[EqualityKey] = []
        bodies: list[I32] = []
        entry = int(self.table.rows[row, ENTRY])
        while entry != NONE:
            cell, place = self.cells.lies[entry, :2]
            key = self.cells.cells[cell, KEY]
            slot, kind = self.keys.parts[key, SLOT], self.keys.parts[key, KIND]
            entry_keys.append((int(slot), int(kind), float(self.keys.value[key])))
            bodies.append(self.cells.bodies[place].copy())
            entry = int(self.table.next_entry[entry])
        freed = np.empty(len(entry_keys), np.int32)
        gone = np.array([row], np.int32)
        unfile_subscriptions(
            gone, freed, self.cells, self.keys, self.pattern_table, self.nodes.arrays, self.table
        )
        self._free_entries.extend(freed.tolist())
        for slot in {slot for slot, _, _ in entry_keys} - {NONE}:
            self._fileable.clear()
            self._may_file(int(self.table.rows[row, PATTERN]), slot)
        self.table.rows[row, ANCHOR] = placement.anchor
        self.table.area[row] = placement.area
        chain_subscriptions(gone, self.nodes.arrays, self.table)
        self._file(
            np.full(len(entry_keys), row, np.int32),
            np.array(entry_keys, np.float64),
            np.full(len(entry_keys), placement.reach_m),
            np.array(bodies, np.int32),
        )

    def move(self, rows: I32, lat: F64, lon: F64, memory: Callable[[], Memory]) -> None:
        """Move nodes, and the areas anchored to them; NaN removes the position.

        `memory` returns the handle on all tables as they are now.
        """
        self.points = with_items(self.points, self.nodes.capacity * POINT_LEVELS)
        done, resumed = 0, False
        while True:
            done = move_nodes(done, resumed, rows, lat, lon, self._spare, memory())
            if done == len(rows):
                break
            self._grow()
            self.points = grown(self.points)
            resumed = True
        self._moves += done
        if self._moves >= TIDIED_EVERY:
            self._moves = 0
            self._tidy()

    def reaches_m(self, rows: I32) -> F64:
        """The reach of the areas of subscriptions, given by their rows, from their anchors."""
        places = self.cells.lies[rows[:, ENTRY], PLACE]
        return self.cells.geo[places, 3].astype(np.float64)

    def takes_any_event(self, number: int) -> bool:
        """True if a subscription has neither area nor filter nor relevance."""
        row, rules = self.table.rows[number], self.rules
        rule = row[RULE]
        start = 2 * int(rules.start[rule])
        return bool(
            row[ANCHOR] == NONE
            and rules.length[rule] == 1
            and rules.sections[rule] == 0
            and tuple(rules.code[start : start + 2].tolist()) == NO_FILTER.words
        )

    def node_subscriptions(self, node: int) -> list[int]:
        """The numbers of all subscriptions of a node."""
        found = []
        row = int(self.nodes.arrays.heads[node, OWN])
        while row != NONE:
            found.append(row)
            row = int(self.table.rows[row, NEXT_OWN])
        return found

    def _compile(self, subscription: Subscription, new_rows: "_NewRows") -> None:
        vocabulary = self.vocabulary
        where = program(selecting_filter(subscription), vocabulary)
        partial, shared = where.partial, where.shared
        words = new_rows.words
        words += where.words
        atoms = weighted_atoms(subscription)
        for atom in atoms:
            for one in (atom, Filter(Operation("not", (atom.root,)), atom.two_valued)):
                section = program(one, vocabulary)
                words += (len(section.words) >> 1, 0)
                words += section.words
                partial = partial or section.partial
                shared = shared and section.shared
        if vocabulary.new_paths:
            self.nodes.fill_paths(vocabulary.new_paths)
            vocabulary.new_paths.clear()
        pattern = self.patterns.acquire(subscription.subject)
        if pattern >= len(self.pattern_table.keyless):
            self._room_for_pattern(pattern)
        node = self.nodes.acquire(subscription.node)
        placement = self.anchors.place(subscription.from_, node)
        under, entry_keys = where.best_key(vocabulary)
        if entry_keys and not self._may_file(pattern, entry_keys[0][0]):
            under, entry_keys = None, ()
        index = len(new_rows.areas)
        flags = 0
        if partial:
            flags = PARTIAL
            new_rows.partial.append(index)
        inline = where.inline(under)
        if shared:
            flags |= SHARED
        if inline is None:
            flags |= LONG
            inline = NOT_INLINE
        if placement.named is not None:
            new_rows.named.append((index, placement))
        new_rows.rows += (
            node, placement.anchor, pattern, flags, len(where.words) >> 1, 2 * len(atoms),
            len(words),
        )  # fmt: skip
        new_rows.areas.append(placement.area)
        for slot, kind, value in entry_keys or KEYLESS:
            new_rows.entries += (index, placement.reach_m, slot, kind, value)
            new_rows.inline += inline

    def _may_file(self, pattern: int, slot: int) -> bool:
        if (pattern, slot) in self._fileable:
            return True
        used = self.pattern_table.slots[pattern].tolist()
        if slot not in used:
            if NONE not in used:
                return False
            free = used.index(NONE)
            self.pattern_table.slots[pattern, free] = slot
            self.pattern_table.counts[pattern, free] = 0
        self._fileable.add((pattern, slot))
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

    def _acquire_rules(self, words: list[int], compiled_rows: I32) -> I32:
        self.rules = with_room(self.rules, len(compiled_rows), len(words))
        flags, length, sections, end = np.ascontiguousarray(compiled_rows[:, 3:].T)
        return acquire_rules(
            np.array(words, np.int32), np.concatenate([_ZERO, end]), length, sections,
            flags & (PARTIAL | SHARED), self.rules, self.vocabulary.arrays,
        )  # fmt: skip

    def _release_rules(self, gone: I32) -> None:
        freed = np.empty(len(gone), np.int32)
        count = release_rules(gone, self.rules, self.vocabulary.arrays, freed)
        idle: set[int] = set()
        for rule in freed[:count].tolist():
            idle |= atoms_of(self.rules, rule)
            evaluated = self.evaluated.pop(rule, None)
            if evaluated is not None:
                self.counting -= evaluated.counts
        give_back(self.rules, freed[:count])
        users = self.vocabulary.arrays.users
        for atom in idle:
            if users[atom] == 0:
                self.vocabulary.release(atom)
        for path in self.vocabulary.gone_paths:
            self.nodes.clear_path(path)
        self.vocabulary.gone_paths.clear()

    def _take_rows(self, count: int) -> I32:
        rows: list[int] = []
        while self._free_row != NONE and len(rows) < count:
            rows.append(self._free_row)
            self._free_row = int(self.table.rows[self._free_row, NEXT_OWN])
        fresh = count - len(rows)
        rows.extend(range(self._rows_made, self._rows_made + fresh))
        self._rows_made += fresh
        size = enough(len(self.table.area), self._rows_made)
        self.table = self.table._replace(
            rows=resized(self.table.rows, size), area=resized(self.table.area, size)
        )
        return np.array(rows, np.int32)

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

    def _file(self, subscription: I32, entry_keys: F64, reach_m: F64, bodies: I32) -> None:
        reach = reach_m.astype(np.float32)
        reach = np.where(reach < reach_m, np.nextafter(reach, np.float32(np.inf)), reach)
        body = np.concatenate([bodies, self._spare])
        numbers = self._take_entries(len(subscription))
        done = 0
        while True:
            done = file_entries(
                done, subscription, entry_keys, reach, body, numbers, self.cells, self.keys,
                self.pattern_table, self.nodes.arrays, self.table, self.columns,
            )  # fmt: skip
            if done == len(subscription):
                return
            self._grow()

    def _tidy(self) -> None:
        """Compact the pools if most of their memory is unused."""
        if is_loose(self.cells):
            self.cells = packed(self.cells)
        if is_loose(self.points):
            self.points = packed(self.points)

    def _grow(self) -> None:
        self.cells = grown(self.cells)
        self.keys = _with_room_for_keys(self.keys)


class _NewRows:
    """Subscriptions being added, as concatenated columns."""

    __slots__ = ("areas", "entries", "inline", "named", "partial", "rows", "words")

    def __init__(self) -> None:
        self.words: list[int] = []
        self.rows: list[int] = []
        """Seven each: node, anchor, pattern, flags, instructions, sections, end of its code."""
        self.areas: list[float] = []
        self.entries: list[float] = []
        """Five each: index of the subscription, reach, slot, kind and value of the key."""
        self.inline: list[int] = []
        self.partial: list[int] = []
        self.named: list[tuple[int, AreaPlacement]] = []


_ZERO = np.zeros(1, np.int32)
NOT_INLINE = (0,) * INLINE
KEYLESS: tuple[EqualityKey, ...] = ((NONE, 0, 0.0),)


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
