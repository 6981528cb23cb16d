"""Programs: a filter as instructions that kernels run.

NOT is pushed down to the predicates, where it becomes the verdict that is wanted of them; AND
and OR become jumps. A predicate that kernels do not know is SLOW: it counts as holding, so a
program finds too much rather than too little, and the pair is decided again by the reference
evaluator.
"""

from collections.abc import Sequence

from msgspec import Struct

from nearcast.core.language import Filter
from nearcast.core.language.ast import Array, Geometry, Node, Operation, Property
from nearcast.core.matching.atoms import (
    ACCEPT,
    APPROACHING,
    AT_MOST,
    DISTANCE_AT_MOST,
    DISTANCE_EQUAL,
    DISTANCE_LESS,
    EQUAL,
    EVENT,
    FRIEND,
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
from nearcast.core.matching.vocabulary import ALWAYS, WHOSE, AtomKey, Filed, Place, Vocabulary
from nearcast.core.model.event_batch import BOOLEAN, MISSING, NUMBER, STRING

MOST_INSTRUCTIONS = 250
MOST_KEYS = 8
"""A subscription is filed under each value of `IN (...)` if there are no more than these."""

# Operator, and whether it is the wanted verdict or its opposite.
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

Leaf = tuple[int, int]
"""An atom and the verdict wanted of it."""
Instruction = tuple[int, int, int]
"""atom * 4 + wanted verdict, where to go if it holds, where if not."""


class Branch(Struct, frozen=True):
    """Several conditions of which all, or any, must hold."""

    all: bool
    parts: tuple["Tree", ...]


Tree = Leaf | Branch | bool


class Program(Struct, frozen=True):
    """A filter ready to run."""

    code: tuple[Instruction, ...]
    partial: bool
    """It has SLOW atoms."""
    shared: bool
    """It decides the same for every subscriber."""
    tree: Tree

    def keys(self, slots: "Vocabulary") -> list[tuple[Filed, ...]]:
        """What entries can be filed under: each alternative is a value, or several of one slot."""
        parts = self.tree.parts if isinstance(self.tree, Branch) and self.tree.all else (self.tree,)
        return [found for part in parts if (found := _filed(part, slots))]


def _filed(tree: Tree, vocabulary: Vocabulary) -> tuple[Filed, ...]:
    if isinstance(tree, tuple):
        filed = vocabulary.filed[tree[0]] if tree[1] == WANT_TRUE else None
        return () if filed is None else (filed,)
    if isinstance(tree, Branch) and not tree.all and len(tree.parts) <= MOST_KEYS:
        values: list[Filed] = []
        for part in tree.parts:
            if not isinstance(part, tuple) or part[1] != WANT_TRUE:
                return ()
            filed = vocabulary.filed[part[0]]
            if filed is None or (values and values[0][0] != filed[0]):
                return ()
            if filed not in values:
                values.append(filed)
        return tuple(values)
    return ()


NO_FILTER = Program(((ALWAYS * 4 + WANT_TRUE, ACCEPT, ACCEPT),), False, True, True)


def program(where: Filter | None, vocabulary: Vocabulary) -> Program:
    """Compile a filter; None, no filter, accepts everything."""
    if where is None:
        return NO_FILTER
    compiler = _Compiler(vocabulary, where.two_valued)
    tree = compiler.tree(where.root, True)
    code = _linear(tree)
    if len(code) > MOST_INSTRUCTIONS:
        tree = (compiler.slow(where.root), WANT_TRUE)
        code = _linear(tree)
    return Program(code, compiler.partial, compiler.shared, tree)


def without(tree: Tree, values: tuple[Filed, ...], vocabulary: Vocabulary) -> Tree:
    """What is left to decide once an entry was found under one of these values."""
    if isinstance(tree, Branch) and tree.all:
        rest = tuple(part for part in tree.parts if _filed(part, vocabulary) != values)
        if len(rest) == 1:
            return rest[0]
        return Branch(True, rest) if rest else True
    return True if _filed(tree, vocabulary) == values else tree


class _Compiler:
    def __init__(self, vocabulary: Vocabulary, two_valued: bool) -> None:
        self.vocabulary = vocabulary
        self.two_valued = two_valued
        self.partial = False
        self.shared = True

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
        return atom, verdict

    def slow(self, node: Node) -> int:
        self.partial = True
        self.shared = False
        atom = self.vocabulary.atom((SLOW, node, self.two_valued))
        assert atom is not None
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
    """Lay a tree out as instructions that jump forward only."""
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


def instructions(tree: Tree) -> Sequence[Instruction]:
    """The instructions of a tree by itself."""
    return _linear(tree)
