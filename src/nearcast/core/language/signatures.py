"""The argument types of operators and functions: one table that checks text and JSON."""

from msgspec import Struct

from nearcast.core.language.ast import (
    ARITHMETIC,
    ARRAYS,
    COMPARISONS,
    FOLDINGS,
    FUNCTIONS,
    LOGICAL,
    SPATIAL,
    TEMPORAL,
    Array,
    BBox,
    Date,
    Geometry,
    Interval,
    Node,
    Operation,
    Property,
    Timestamp,
)

WHO = ("me", "publisher", "event")
EVENT_MEMBERS = ("subject", "time", "position", "id", "priority")
OPERATORS = (
    *LOGICAL,
    *COMPARISONS,
    *ARITHMETIC,
    *FOLDINGS,
    *SPATIAL,
    *TEMPORAL,
    *ARRAYS,
    "like",
    "between",
    "in",
    "isNull",
)
CALLED = (*FOLDINGS, *SPATIAL, *TEMPORAL, *ARRAYS, *FUNCTIONS)


class SignatureProblem(Struct, frozen=True):
    """An error in an operation: the index of the argument (-1 for the whole) and the message."""

    arg: int
    message: str


class Slot(Struct, frozen=True):
    """The kinds that one argument accepts, and their name in error messages."""

    kinds: frozenset[str]
    called: str


def slot(called: str, *kinds: str) -> Slot:
    """Build a slot; it accepts a property too, whose type is known only at evaluation."""
    return Slot(frozenset((*kinds, "property")), called)


TRUTH = slot("a condition", "boolean", "predicate")
SCALAR = slot("a number, a text, a boolean or an instant", "boolean", "number", "string", "instant")
ORDERED = slot("a number, a text or an instant", "number", "string", "instant")
NUMBER = slot("a number", "number")
STRING = slot("a text", "string")
PATTERN = Slot(frozenset(("string",)), "a pattern in quotes, such as 'a%'")
GEOMETRY = slot("a geometry, such as POINT(-6.26 53.35)", "geometry")
TIME = slot("DATE('...'), TIMESTAMP('...') or INTERVAL('...', '...')", "instant", "interval")
LIST = slot("a list, such as ('a', 'b')", "array")
ANYTHING = slot(
    "a value or a condition in brackets",
    *("boolean", "predicate", "number", "string", "instant", "interval", "geometry"),
)
PLACE = "me, publisher, event, a property that ends in .position, or POINT(lon lat)"

SLOTS: dict[str, tuple[Slot, ...]] = {
    "not": (TRUTH,),
    **dict.fromkeys(COMPARISONS, (SCALAR, SCALAR)),
    **dict.fromkeys(ARITHMETIC, (NUMBER, NUMBER)),
    **dict.fromkeys(FOLDINGS, (STRING,)),
    **dict.fromkeys(SPATIAL, (GEOMETRY, GEOMETRY)),
    **dict.fromkeys(TEMPORAL, (TIME, TIME)),
    **dict.fromkeys(ARRAYS, (LIST, LIST)),
    "like": (STRING, PATTERN),
    "between": (ORDERED, ORDERED, ORDERED),
    "isNull": (ANYTHING,),
}
ARGUMENTS = {
    "distance": "two arguments: distance(me, event)",
    "approaching": "one argument: approaching(event)",
    "friend": "one argument: friend(publisher)",
    "count": "two or three arguments: count('traffic/#', 'speed < 20', 500)",
}


def problem_with(op: str, args: tuple[Node, ...]) -> SignatureProblem | None:
    """Return the problem of an operation whose arguments have been checked, or None."""
    if op in FUNCTIONS:
        return problem_with_function(op, args)
    if op in ("and", "or"):
        if len(args) < 2:
            return SignatureProblem(
                -1, f"{op.upper()} joins at least two conditions, not {len(args)}."
            )
        return misfit(op, args, (TRUTH,) * len(args))
    if op == "in":
        return problem_with_in(args)
    slots = SLOTS[op]
    if len(args) != len(slots):
        s = "" if len(slots) == 1 else "s"
        return SignatureProblem(-1, f"{op} takes {len(slots)} argument{s}, not {len(args)}.")
    return misfit(op, args, slots) or (problem_with_pattern(args[1]) if op == "like" else None)


def misfit(op: str, args: tuple[Node, ...], slots: tuple[Slot, ...]) -> SignatureProblem | None:
    """Return the problem of the first argument that its slot does not accept, or None."""
    for index, (arg, wanted) in enumerate(zip(args, slots, strict=True)):
        kind = kind_of(arg)
        if kind not in wanted.kinds:
            return SignatureProblem(index, f"{op} takes {wanted.called} here, not {called(arg)}.")
    return None


def problem_with_in(args: tuple[Node, ...]) -> SignatureProblem | None:
    """Check ``in``: a value and a list of at least one item."""
    if len(args) != 2 or not isinstance(args[1], Array):
        return SignatureProblem(-1, "in takes a value and a list: x IN ('a', 'b').")
    if not args[1].items:
        return SignatureProblem(1, "The list of IN is empty; give at least one value.")
    found = misfit("in", args[:1], (SCALAR,))
    return found or next(
        (
            SignatureProblem(1, f"The list of IN holds {SCALAR.called}, not {called(item)}.")
            for item in args[1].items
            if kind_of(item) not in SCALAR.kinds
        ),
        None,
    )


def problem_with_pattern(pattern: Node) -> SignatureProblem | None:
    """Check that a pattern is a text, folded or not; CQL2 has no computed patterns."""
    while isinstance(pattern, Operation):
        pattern = pattern.args[0]
    return (
        None if isinstance(pattern, str) else SignatureProblem(1, f"like takes {PATTERN.called}.")
    )


def problem_with_function(op: str, args: tuple[Node, ...]) -> SignatureProblem | None:
    """Check a call of one of Nearcast's own functions."""
    counts = {"distance": (2,), "approaching": (1,), "friend": (1,), "count": (2, 3)}[op]
    if len(args) not in counts:
        return SignatureProblem(-1, f"{op} takes {ARGUMENTS[op]}.")
    if op == "friend":
        if args[0] == Property("publisher"):
            return None
        return SignatureProblem(0, "friend takes publisher: whether they list me as a friend.")
    if op == "count":
        return problem_with_count(args)
    for index, arg in enumerate(args):
        if not is_place(arg):
            return SignatureProblem(index, f"{op} takes {PLACE} here, not {called(arg)}.")
    return None


def problem_with_count(args: tuple[Node, ...]) -> SignatureProblem | None:
    """Check the arguments of ``count``; the text of its filter is checked by the parser."""
    subject = args[0]
    if not isinstance(subject, str):
        return SignatureProblem(0, "count takes a subject in quotes first, such as 'traffic/#'.")
    levels = subject.split("/")
    if (
        not subject
        or any(("+" in level or "#" in level) and len(level) > 1 for level in levels)
        or "#" in levels[:-1]
    ):
        return SignatureProblem(
            0, "A subject has + for one level and # only as its last: 'traffic/+/#'."
        )
    if not isinstance(args[1], str):
        return SignatureProblem(1, "count takes a filter in quotes second, such as 'speed < 20'.")
    if len(args) == 3:
        metres = args[2]
        if isinstance(metres, bool) or not isinstance(metres, int | float) or metres <= 0:
            return SignatureProblem(
                2, "count takes a distance in metres above 0 third, such as 500."
            )
    return None


def is_place(node: Node) -> bool:
    """Return whether a node is accepted by ``distance`` and ``approaching``."""
    if isinstance(node, Property):
        return node.name in WHO or node.name.endswith(".position")
    return isinstance(node, Geometry) and node.type == "Point"


def problem_with_root(root: Node) -> str | None:
    """Return an error message if a node is not a condition, or None."""
    if kind_of(root) in TRUTH.kinds:
        return None
    if isinstance(root, Operation) and root.op in FUNCTIONS:
        return f"{root.op} gives a number; compare it with one, as in {root.op}(...) < 500."
    return f"A filter is a condition that is true or false, not {called(root)}."


def problem_with_name(name: str) -> str | None:
    """Return an error message for a property's name, or None."""
    if not name:
        return "A property needs a name."
    if not name.startswith("event."):
        if name in ("me.", "publisher."):
            return f"A member must follow {name}, such as {name}position."
        return None
    member = name.removeprefix("event.")
    if member in EVENT_MEMBERS or (member.startswith("attributes.") and member != "attributes."):
        return None
    return (
        f"event has no member {member or 'without a name'}; it has "
        f"{', '.join(EVENT_MEMBERS)} and attributes.NAME."
    )


def kind_of(node: Node) -> str:
    """Return the kind of a node's value, as far as it is known without evaluation."""
    if isinstance(node, bool):
        return "boolean"
    if isinstance(node, int | float):
        return "number"
    if isinstance(node, str):
        return "string"
    if isinstance(node, Property):
        return "who" if node.name in WHO else "property"
    if isinstance(node, Date | Timestamp):
        return "instant"
    if isinstance(node, Interval):
        return "interval"
    if isinstance(node, Geometry | BBox):
        return "geometry"
    if isinstance(node, Array):
        return "array"
    if node.op in ARITHMETIC or node.op in ("distance", "count"):
        return "number"
    if node.op in FOLDINGS:
        return "string"
    return "boolean" if node.op in ("approaching", "friend") else "predicate"


def called(node: Node) -> str:
    """Return the name of a node in error messages."""
    if isinstance(node, Property) and node.name in WHO:
        return f"{node.name} itself (it stands alone only in distance, approaching and friend)"
    if isinstance(node, Property):
        return f"the property {node.name}"
    kind = kind_of(node)
    return {
        "predicate": "a condition",
        "boolean": "a boolean",
        "number": "a number",
        "string": "a text",
        "instant": "an instant",
        "interval": "an interval",
        "geometry": "a geometry",
        "array": "a list",
    }[kind]
