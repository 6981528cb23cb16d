"""Programs: a filter compiled to instructions for kernels.

NOT is pushed down to the predicates, where it becomes their wanted verdict; AND and OR become
jumps. A predicate that kernels do not support is SLOW: it counts as holding, so a program finds too
much rather than too little, and the reference evaluator rechecks the pair.
"""

from msgspec import Struct

from nearcast.core.language import Filter
from nearcast.core.language.ast import Array, Geometry, Node, Operation, Property
from nearcast.core.matching.filters.atoms import (
    ACCEPT,
    APPROACHING,
    AT_MOST,
    DISTANCE_AT_MOST,
    DISTANCE_EQUAL,
    DISTANCE_LESS,
    EQUAL,
    EVENT,
    FRIEND,
    INLINE,
    INLINE_ACCEPT,
    INLINE_REJECT,
    IS_NULL,
    IS_TRUE,
    LESS,
    ME,
    PUBLISHER,
    REJECT,
    SLOW,
    WANT_FALSE,
    WANT_NOT_FALSE,
    WANT_NOT_TRUE,
    WANT_TRUE,
)
from nearcast.core.matching.filters.vocabulary import (
    ALWAYS,
    WHOSE,
    AtomKey,
    EqualityKey,
    Place,
    Vocabulary,
)
from nearcast.core.model.event_batch import BOOLEAN, MISSING, NUMBER, STRING

MOST_INSTRUCTIONS = 250
MOST_KEYS = 8
"""A subscription is indexed under each value of `IN (...)` if there are no more than these."""

# Operator, and whether it means the wanted verdict or its opposite.
COMPARISONS = {
    "=": (EQUAL, True),
    "<>": (EQUAL, False),
    "<": (LESS, True),
    ">=": (LESS, False),
    "<=": (AT_MOST, True),
    ">": (AT_MOST, False),
}
MIRRORED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
DISTANCES = {EQUAL: DISTANCE_EQUAL, LESS: DISTANCE_LESS, AT_MOST: DISTANCE_AT_MOST}

ME_PLACE = Property("me")

INLINE_ENDS = {ACCEPT: INLINE_ACCEPT, REJECT: INLINE_REJECT}
INLINE_ATOMS = 1 << 23
PADDING = tuple((0,) * (INLINE - length) for length in range(INLINE + 1))
ACCEPT_INLINE = (
    (ALWAYS << 8) | (WANT_TRUE << 6) | (INLINE_ACCEPT << 3) | INLINE_ACCEPT,
    *PADDING[1],
)

Leaf = tuple[int, int]
"""An atom and its wanted verdict."""
Instruction = tuple[int, int, int]
"""atom * 4 + wanted verdict, jump if it holds, jump if not."""


class Branch(Struct, frozen=True, gc=False):
    """Several conditions of which all, or any, must hold."""

    all: bool
    parts: tuple["Tree", ...]


Tree = Leaf | Branch | bool


class Program(Struct, gc=False):
    """A compiled filter."""

    words: tuple[int, ...]
    """Its code: two integers per instruction, see `atoms`."""
    partial: bool
    """True if it has SLOW atoms."""
    shared: bool
    """True if its result is the same for every subscriber."""
    parts: tuple[Tree, ...]
    """Conditions that must all hold."""

    def best_key(self, vocabulary: Vocabulary) -> tuple[Tree | None, tuple[EqualityKey, ...]]:
        """The condition to index entries under, and the values that satisfy it.

        Chosen by the number of distinct values of its attribute, divided by its own number of
        values.
        """
        best: Tree | None = None
        best_values: tuple[EqualityKey, ...] = ()
        best_worth = 0.0
        equality_keys, values_of = vocabulary.equality_keys, vocabulary.values_of
        for part in self.parts:
            if type(part) is tuple:
                key = equality_keys[part[0]] if part[1] == WANT_TRUE else None
                if key is not None and values_of[key[0]] > best_worth:
                    best, best_values, best_worth = part, (key,), values_of[key[0]]
            elif type(part) is Branch:
                values = _alternatives(part, vocabulary)
                if values and values_of[values[0][0]] / len(values) > best_worth:
                    best, best_values = part, values
                    best_worth = values_of[values[0][0]] / len(values)
        return best, best_values

    def inline(self, found_under: Tree | None) -> tuple[int, ...] | None:
        """The remaining code beside an entry, padded; None if it does not fit there."""
        words: list[int] = []
        for part in self.parts:
            if part is not found_under and part is not True:
                if type(part) is not tuple or part[0] >= INLINE_ATOMS:
                    return self._inline_tree(found_under)
                next_one = len(words) + 1
                words.append(part[0] << 8 | part[1] << 6 | next_one << 3 | INLINE_REJECT)
        if not words:
            return ACCEPT_INLINE
        if len(words) > INLINE:
            return None
        words[-1] |= INLINE_ACCEPT << 3
        return (*words, *PADDING[len(words)])

    def _inline_tree(self, found_under: Tree | None) -> tuple[int, ...] | None:
        rest = tuple(part for part in self.parts if part is not found_under)
        code = _linear(_joined(rest, True))
        if len(code) > INLINE or any(word >> 2 >= INLINE_ATOMS for word, _, _ in code):
            return None
        words = [
            (word >> 2 << 8)
            | ((word & 3) << 6)
            | (INLINE_ENDS.get(yes, yes) << 3)
            | INLINE_ENDS.get(no, no)
            for word, yes, no in code
        ]
        return (*words, *PADDING[len(words)])


def _alternatives(branch: Branch, vocabulary: Vocabulary) -> tuple[EqualityKey, ...]:
    """The values of one attribute, if a branch is true for exactly those; else empty."""
    values: list[EqualityKey] = []
    if branch.all or len(branch.parts) > MOST_KEYS:
        return ()
    for part in branch.parts:
        if not isinstance(part, tuple) or part[1] != WANT_TRUE:
            return ()
        key = vocabulary.equality_keys[part[0]]
        if key is None or (values and values[0][0] != key[0]):
            return ()
        if key not in values:
            values.append(key)
    return tuple(values)


def program(where: Filter | None, vocabulary: Vocabulary) -> Program:
    """Compile a filter; None accepts everything."""
    if where is None:
        return NO_FILTER
    plain = _plain(where, vocabulary)
    if plain is not None:
        return plain
    compiler = _Compiler(vocabulary, where.two_valued)
    tree = compiler.cheapest_first(compiler.tree(where.root, True))
    code = _linear(tree)
    if len(code) > MOST_INSTRUCTIONS:
        tree = (compiler.slow(where.root), WANT_TRUE)
        code = _linear(tree)
    words = tuple(number for word, yes, no in code for number in (word, yes << 8 | no))
    parts = tree.parts if isinstance(tree, Branch) and tree.all else (tree,)
    return Program(words, compiler.partial, compiler.shared, parts)


def _plain(where: Filter, vocabulary: Vocabulary) -> Program | None:
    """Compile the commonest kind of filter, comparisons joined by AND; None for other kinds."""
    root = where.root
    if type(root) is not Operation or where.two_valued:
        return None
    leaves: list[Leaf] = []
    words: list[int] = []
    known = vocabulary.leaves
    for part in root.args if root.op == "and" else (root,):
        if type(part) is not Operation or len(part.args) != 2:
            return None
        left, right = part.args
        # Excluded because True and 1 are equal as dict keys.
        if type(left) is not Property or right is True or right is False:
            return None
        leaf = known.get((part.op, left.name, right))
        if leaf is None:
            leaf = _new_leaf(part.op, left.name, right, vocabulary)
            if leaf is None:
                return None
        leaves.append(leaf)
        words += (leaf[0] << 2 | leaf[1], len(leaves) << 8 | REJECT)
    words[-1] = ACCEPT << 8 | REJECT
    return Program(tuple(words), False, True, tuple(leaves))


def _new_leaf(op_text: str, name: str, right: Node, vocabulary: Vocabulary) -> Leaf | None:
    comparison = COMPARISONS.get(op_text)
    if comparison is None or "." in name:
        return None
    op, straight = comparison
    if isinstance(right, str):
        atom = vocabulary.atom((op, EVENT, name, STRING, right)) if op == EQUAL else None
    elif isinstance(right, int | float):
        atom = vocabulary.atom((op, EVENT, name, NUMBER, float(right)))
    else:
        atom = None
    if atom is None:
        return None
    leaf = (atom, WANT_TRUE if straight else WANT_FALSE)
    vocabulary.leaves[op_text, name, right] = leaf
    return leaf


NO_FILTER = Program((ALWAYS << 2 | WANT_TRUE, ACCEPT << 8 | ACCEPT), False, True, (True,))


class _Compiler:
    def __init__(self, vocabulary: Vocabulary, two_valued: bool) -> None:
        self.vocabulary = vocabulary
        self.two_valued = two_valued
        self.partial = False
        self.shared = True
        self._costs: dict[int, int] = {}
        """By atom: 0 if it reads the event alone, 1 for another comparison, 2 for the rest."""

    def tree(self, node: Node, wanted: bool) -> Tree:
        if isinstance(node, Operation):
            op = node.op
            if op in COMPARISONS:
                return self._comparison(op, node, wanted)
            if op == "and" or op == "or":
                parts = tuple(self.tree(arg, wanted) for arg in node.args)
                return _joined(parts, (op == "and") is wanted)
            if op == "not":
                return self.tree(node.args[0], not wanted)
            if op == "in":
                return self._in(node, wanted)
            if op == "between":
                value, low, high = node.args
                parts = (
                    self.tree(Operation(">=", (value, low)), wanted),
                    self.tree(Operation("<=", (value, high)), wanted),
                )
                return _joined(parts, wanted)
            if op == "isNull" and isinstance(node.args[0], Property):
                return self._property(
                    node, node.args[0].name, IS_NULL, MISSING, 0.0, self._verdict(wanted)
                )
            if op == "approaching":
                return self._relation(
                    node, APPROACHING, node.args[0], ME_PLACE, 0.0, self._verdict(wanted)
                )
            if op == "friend" and node.args[0] == Property("publisher"):
                return self._leaf(
                    node, (FRIEND, PUBLISHER, ME, 0.0), self._verdict(wanted), shared=False
                )
        elif isinstance(node, bool):
            return node is wanted
        elif isinstance(node, Property):
            return self._property(node, node.name, IS_TRUE, BOOLEAN, 0.0, self._verdict(wanted))
        return self._slow(node, self._verdict(wanted))

    def cheapest_first(self, tree: Tree) -> Tree:
        """Return a tree whose conditions are asked in the order of what they cost.

        What alone decides is often the event, which is known once for all subscribers.
        """
        if not isinstance(tree, Branch):
            return tree
        parts = sorted(map(self.cheapest_first, tree.parts), key=self._cost)
        return Branch(tree.all, tuple(parts))

    def _cost(self, tree: Tree) -> int:
        if isinstance(tree, Branch):
            return max(map(self._cost, tree.parts))
        return 0 if isinstance(tree, bool) else self._costs[tree[0]]

    def _comparison(self, op: str, node: Operation, wanted: bool) -> Tree:
        left, right = node.args
        if not isinstance(right, int | float | str):
            left, right, op = right, left, MIRRORED[op]
            if not isinstance(right, int | float | str):
                return self._slow(node, self._verdict(wanted))
        code, straight = COMPARISONS[op]
        verdict = self._verdict(wanted, straight)
        if isinstance(left, Property):
            if isinstance(right, str):
                if code == EQUAL:
                    return self._property(node, left.name, EQUAL, STRING, right, verdict)
            elif isinstance(right, bool):
                if code == EQUAL:
                    return self._property(node, left.name, EQUAL, BOOLEAN, float(right), verdict)
            else:
                return self._property(node, left.name, code, NUMBER, float(right), verdict)
        elif (
            isinstance(left, Operation)
            and left.op == "distance"
            and not isinstance(right, bool | str)
        ):
            first, second = left.args
            return self._relation(node, DISTANCES[code], first, second, float(right), verdict)
        return self._slow(node, self._verdict(wanted))

    def _in(self, node: Operation, wanted: bool) -> Tree:
        value, items = node.args
        if isinstance(items, Array) and len(items.items) <= MOST_INSTRUCTIONS:
            parts = tuple(self.tree(Operation("=", (value, item)), wanted) for item in items.items)
            return _joined(parts, not wanted)
        return self._slow(node, self._verdict(wanted))

    def _property(
        self, node: Node, name: str, op: int, kind: int, constant: float | str, verdict: int
    ) -> Tree:
        whose = EVENT
        head, dot, rest = name.partition(".")
        if dot and head in WHOSE:
            whose = WHOSE[head]
            if whose == EVENT:
                name = rest.removeprefix("attributes.")
                if name == rest:
                    return self._slow(node, verdict)
            else:
                name = rest
                if name.partition(".")[0] in ("position", "previous_position"):
                    return self._slow(node, verdict)
        elif head == "node" and self.two_valued:
            return self._slow(node, verdict)
        return self._leaf(node, (op, whose, name, kind, constant), verdict, shared=whose == EVENT)

    def _relation(
        self, node: Node, op: int, first: Node, second: Node, metres: float, verdict: int
    ) -> Tree:
        left, right = _place(first), _place(second)
        if left is None or right is None:
            return self._slow(node, verdict)
        return self._leaf(node, (op, left, right, metres), verdict, shared=False)

    def _leaf(self, node: Node, key: AtomKey, verdict: int, *, shared: bool) -> Tree:
        atom = self.vocabulary.atom(key)
        if atom is None:
            return self._slow(node, verdict)
        if not shared:
            self.shared = False
        self._costs[atom] = 0 if shared else 1 if key[0] <= IS_TRUE else 2
        return atom, verdict

    def slow(self, node: Node) -> int:
        self.partial = True
        self.shared = False
        atom = self.vocabulary.atom((SLOW, node, self.two_valued))
        assert atom is not None
        self._costs[atom] = 2
        return atom

    def _slow(self, node: Node, verdict: int) -> Leaf:
        return self.slow(node), verdict

    def _verdict(self, wanted: bool, straight: bool = True) -> int:
        if wanted:
            return WANT_TRUE if straight else WANT_FALSE
        if self.two_valued:
            return WANT_NOT_TRUE if straight else WANT_NOT_FALSE
        return WANT_FALSE if straight else WANT_TRUE


def _place(node: Node) -> Place | None:
    if isinstance(node, Property):
        return WHOSE.get(node.name.removesuffix(".position"))
    if isinstance(node, Geometry) and node.type == "Point" and len(node.coordinates) >= 2:
        lon, lat = node.coordinates[0], node.coordinates[1]
        if isinstance(lon, int | float) and isinstance(lat, int | float):
            return float(lat), float(lon)
    return None


def _joined(parts: tuple[Tree, ...], every: bool) -> Tree:
    kept: list[Tree] = []
    for part in parts:
        if isinstance(part, bool):
            if part is not every:
                return part
        elif isinstance(part, Branch) and part.all is every:
            kept.extend(part.parts)
        else:
            kept.append(part)
    if len(kept) == 1:
        return kept[0]
    return Branch(every, tuple(kept)) if kept else every


def _linear(tree: Tree) -> tuple[Instruction, ...]:
    """Flatten a tree to instructions that jump forward only."""
    if isinstance(tree, bool):
        end = ACCEPT if tree else REJECT
        return ((ALWAYS * 4 + WANT_TRUE, end, end),)
    if isinstance(tree, tuple):
        return ((tree[0] * 4 + tree[1], ACCEPT, REJECT),)
    code: list[Instruction] = []
    _lay(tree, ACCEPT, REJECT, 0, code)
    return tuple(code)


def _lay(tree: Tree, yes: int, no: int, at: int, code: list[Instruction]) -> None:
    if isinstance(tree, tuple):
        code.append((tree[0] * 4 + tree[1], yes, no))
        return
    assert isinstance(tree, Branch)
    last = len(tree.parts) - 1
    for i, part in enumerate(tree.parts):
        after = at + _size(part)
        if i == last:
            _lay(part, yes, no, at, code)
        elif tree.all:
            _lay(part, after, no, at, code)
        else:
            _lay(part, yes, after, at, code)
        at = after


def _size(tree: Tree) -> int:
    if isinstance(tree, Branch):
        return sum(_size(part) for part in tree.parts)
    return 1
