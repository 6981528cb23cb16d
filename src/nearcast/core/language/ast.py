"""The tree of a filter: the common form of CQL2 text, CQL2 JSON and seed C's XML.

The structure is that of CQL2 JSON. Every node is frozen and hashable, and two nodes are equal
only if they are written alike: ``1``, ``1.0`` and ``TRUE`` are three different literals here, so
that a table of shared nodes never confuses them. Trees have no cycles, so the garbage collector
need not track them.
"""

from collections.abc import Iterator
from datetime import date, datetime
from typing import TypeAlias, Union

from msgspec import Struct

LOGICAL = ("and", "or", "not")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/", "^", "%", "div")
FOLDINGS = ("casei", "accenti")
SPATIAL = (
    "s_intersects",
    "s_equals",
    "s_disjoint",
    "s_touches",
    "s_within",
    "s_overlaps",
    "s_crosses",
    "s_contains",
)
TEMPORAL = (
    "t_after",
    "t_before",
    "t_contains",
    "t_disjoint",
    "t_during",
    "t_equals",
    "t_finishedBy",
    "t_finishes",
    "t_intersects",
    "t_meets",
    "t_metBy",
    "t_overlappedBy",
    "t_overlaps",
    "t_startedBy",
    "t_starts",
)
ARRAYS = ("a_equals", "a_contains", "a_containedBy", "a_overlaps")
FUNCTIONS = ("distance", "approaching", "count", "friend")

Node: TypeAlias = Union[
    "Property",
    "Operation",
    "Array",
    "Date",
    "Timestamp",
    "Interval",
    "Geometry",
    "BBox",
    bool,
    int,
    float,
    str,
]
Coordinates: TypeAlias = tuple[float, ...] | tuple["Coordinates", ...]


class Property(Struct, frozen=True, gc=False):
    """A value looked up by its dotted path: ``speed``, ``a.b``, ``me.role``."""

    name: str


class Operation(Struct, frozen=True, gc=False, eq=False):
    """An operator or function, under its CQL2 JSON name, with its arguments."""

    op: str
    args: tuple[Node, ...]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Operation) and self.op == other.op and alike(self.args, other.args)

    def __hash__(self) -> int:
        return hash((self.op, self.args))


class Array(Struct, frozen=True, gc=False, eq=False):
    """A list of values; the second argument of ``in`` is one too."""

    items: tuple[Node, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and alike(self.items, other.items)

    def __hash__(self) -> int:
        return hash(("Array", self.items))


class Date(Struct, frozen=True, gc=False):
    """A whole day in UTC."""

    value: date


class Timestamp(Struct, frozen=True, gc=False):
    """An instant in UTC, to the microsecond."""

    value: datetime


End: TypeAlias = Date | Timestamp | Property | None


class Interval(Struct, frozen=True, gc=False):
    """The time from `start` to `end`, both included; None is the unbounded ``'..'``."""

    start: End
    end: End


class Geometry(Struct, frozen=True, gc=False, cache_hash=True):
    """A GeoJSON geometry; `geometries` is used by GeometryCollection only."""

    type: str
    coordinates: Coordinates = ()
    geometries: tuple["Geometry", ...] = ()


class BBox(Struct, frozen=True, gc=False):
    """West, south, east, north; or six numbers with heights, in the order of GeoJSON."""

    values: tuple[float, ...]


def alike(left: tuple[Node, ...], right: tuple[Node, ...]) -> bool:
    """Return whether two tuples of nodes are equal in value and in type."""
    return len(left) == len(right) and all(
        type(a) is type(b) and a == b for a, b in zip(left, right, strict=True)
    )


def flattened(op: str, args: tuple[Node, ...]) -> Operation:
    """Build ``and`` or ``or``, merging directly nested operations of the same kind."""
    merged: list[Node] = []
    for arg in args:
        if isinstance(arg, Operation) and arg.op == op:
            merged.extend(arg.args)
        else:
            merged.append(arg)
    return Operation(op, tuple(merged))


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly below this one, from left to right."""
    if isinstance(node, Operation):
        return node.args
    if isinstance(node, Array):
        return node.items
    if isinstance(node, Interval):
        return tuple(end for end in (node.start, node.end) if end is not None)
    return ()


def walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yield every node with its depth (the root's is 1), parents before children."""
    pending: list[tuple[Node, int]] = [(root, 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        pending.extend((child, depth + 1) for child in reversed(children(node)))
