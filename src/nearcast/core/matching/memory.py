"""Memory: all tables of a matcher in one handle.

Passing some seventy arrays to a kernel costs more than matching one event. A handle is made when a
table was replaced by a larger one, and reused until then.
"""

from typing import TYPE_CHECKING, Any

from numba.core.types import StructRef, unliteral  # type: ignore[attr-defined]
from numba.experimental import structref

from nearcast.core.compiled import compiled

FIELDS = (
    "cells",
    "points",
    "keys",
    "patterns",
    "nodes",
    "subscriptions",
    "rules",
    "atoms",
    "shapes",
    "groups",
    "exceptions",
    "friends",
    "columns",
)
SCRATCH_FIELDS = (
    "kinds",
    "values",
    "pattern_stamp",
    "ranges",
    "probes",
    "codes",
    "code_count",
    "survivors",
    "candidates",
    "out_event",
    "out_subscription",
    "out_priority",
)


class _HandleType(StructRef):  # type: ignore[misc]
    """A reference to tables whose types are those of its fields."""

    def preprocess_fields(self, fields: Any) -> Any:  # noqa: ANN401
        """Drop literal types from fields."""
        return tuple((name, unliteral(kind)) for name, kind in fields)


@structref.register
class MemoryType(_HandleType):
    """The type of `Memory` in kernels."""


@structref.register
class ScratchType(_HandleType):
    """The type of `Scratch` in kernels."""


if TYPE_CHECKING:
    from nearcast.core.matching.index.cells import CellArrays
    from nearcast.core.matching.tables import (
        F64,
        I32,
        I64,
        U8,
        AtomTable,
        KeyTable,
        NodeTable,
        PairTable,
        PatternTable,
        RuleTable,
        SubscriptionTable,
    )

    class Memory:
        """All tables that kernels read and write."""

        cells: CellArrays
        points: CellArrays
        keys: KeyTable
        patterns: PatternTable
        nodes: NodeTable
        subscriptions: SubscriptionTable
        rules: RuleTable
        atoms: AtomTable
        shapes: F64
        groups: U8
        exceptions: PairTable
        friends: PairTable
        columns: I32

        def __init__(self, *tables: object) -> None: ...

    class Scratch:
        """Scratch arrays of a kernel, and its output columns."""

        kinds: U8
        values: F64
        pattern_stamp: I64
        ranges: I32
        probes: I64
        codes: I64
        code_count: I32
        survivors: I32
        candidates: I64
        out_event: I32
        out_subscription: I32
        out_priority: I32

        def __init__(self, *arrays: object) -> None: ...

else:

    class Memory(structref.StructRefProxy):
        """All tables that kernels read and write."""

    class Scratch(structref.StructRefProxy):
        """Scratch arrays of a kernel, and its output columns."""

    structref.define_proxy(Memory, MemoryType, list(FIELDS))
    structref.define_proxy(Scratch, ScratchType, list(SCRATCH_FIELDS))


@compiled
def memory_of(
    cells: "CellArrays",
    points: "CellArrays",
    keys: "KeyTable",
    patterns: "PatternTable",
    nodes: "NodeTable",
    subscriptions: "SubscriptionTable",
    rules: "RuleTable",
    atoms: "AtomTable",
    shapes: "F64",
    groups: "U8",
    exceptions: "PairTable",
    friends: "PairTable",
    columns: "I32",
) -> Memory:
    """Return one handle for all tables."""
    return Memory(
        cells,
        points,
        keys,
        patterns,
        nodes,
        subscriptions,
        rules,
        atoms,
        shapes,
        groups,
        exceptions,
        friends,
        columns,
    )


@compiled
def scratch_of(
    kinds: "U8",
    values: "F64",
    pattern_stamp: "I64",
    ranges: "I32",
    probes: "I64",
    codes: "I64",
    code_count: "I32",
    survivors: "I32",
    candidates: "I64",
    out_event: "I32",
    out_subscription: "I32",
    out_priority: "I32",
) -> Scratch:
    """Return one handle for all scratch arrays."""
    return Scratch(
        kinds,
        values,
        pattern_stamp,
        ranges,
        probes,
        codes,
        code_count,
        survivors,
        candidates,
        out_event,
        out_subscription,
        out_priority,
    )
