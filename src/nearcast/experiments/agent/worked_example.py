"""Seed C's worked example (4.2.3, 4.4.1): Tables 4-6 and 4-7, and Figure 4-6."""

from msgspec import Struct

from nearcast.core.adaptation.priority_matrix import restriction_matrix
from nearcast.core.language import parse
from nearcast.core.model.context import Value
from nearcast.core.propagation.priority_outbox import PriorityOutbox
from nearcast.experiments.agent.engine_probe import EngineProbe
from nearcast.experiments.experiment_result import Curve, ExperimentFigure, ExperimentRow

UNITS = parse(
    "(unittype = 'infantry' OR unittype = 'armor' OR unittype = 'artillery') AND size <= 100"
)
VECTOR = (3, 2, 1, 3)

PRINTED_SETS = {
    1: ((0, 3), (0, 1, 3), (0, 1, 2, 3)),
    2: ((0, 1, 3), (0, 1, 2, 3), (0, 1, 2, 3)),
    3: ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)),
}
"""Table 4-6: by context value, the atoms of the subscriptions of priority 1, 2 and 3."""

PRINTED_EVENTS = (
    ("e1", "artillery", 85, 2, 2),
    ("e2", "artillery", 85, 3, 1),
    ("e3", "armor", 10, 1, 2),
    ("e4", "artillery", 32, 1, 3),
    ("e5", "artillery", 26, 1, 3),
    ("e6", "infantry", 78, 1, 1),
    ("e7", "armor", 16, 2, 2),
)
"""Table 4-7: name, unittype, size, context value, and the priority as printed."""

PROBES: tuple[dict[str, Value], ...] = tuple(
    {"unittype": kind, "size": size}
    for kind in ("infantry", "armor", "artillery", "medic")
    for size in (10, 100, 101)
)
"""Events that tell the printed sets from others by their priorities."""

INCLUSION_NOTE = (
    "Equation 4-4 prints Φp(c) with P(r, c) ≥ p; Table 4-6 itself has 0 < P(r, c) ≤ p, which is "
    "what is decided here."
)
E7_NOTE = (
    "Misprint: armor (φ1) is in Φ1(2) of the text's own Table 4-6, so S1(2) fires for e7 and its "
    "priority is 1. The printed 2 is what the restriction matrix of Table 4-9 gives."
)
FIGURE_NOTE = (
    "The text gives no times of arrival; here two events arrive for each that leaves. It says that "
    "e2 leaves first, and that e4 and e5 leave at the end. With e7 at 2 as printed, e3 leaves "
    "before e7."
)
NO_SHARE = 1 << 40
"""In bytes: lower levels wait for better ones without a guaranteed share, as in the text."""


def atom_text(atoms: tuple[int, ...], letter: str = "φ") -> str:
    """A set of atoms as the text writes it."""
    return "{" + ", ".join(f"{letter}{atom}" for atom in atoms) + "}"


def table_4_6() -> list[ExperimentRow]:
    """The atoms of each prioritised subscription, by context."""
    probe = EngineProbe(UNITS, VECTOR)
    rows = []
    for context, printed in PRINTED_SETS.items():
        probe.set_class(context)
        for priority, (theirs, ours) in enumerate(zip(printed, probe.atom_sets(), strict=True), 1):
            rows.append(
                ExperimentRow(
                    "Table 4-6", f"Φ{priority}({context})", len(theirs), len(ours), "atoms",
                    atom_text(theirs), atom_text(ours), INCLUSION_NOTE,
                )
            )  # fmt: skip
        case = f"of {len(PROBES)} events at c = {context}, as Φp({context}) say"
        agreeing = probe.agreeing(printed, PROBES)
        rows.append(ExperimentRow("Table 4-6", case, None, agreeing, "events"))
    return rows


def decided_priorities() -> dict[str, int]:
    """The priority of each event of Table 4-7, as the engine decides it."""
    return _decided(EngineProbe(UNITS, VECTOR))


def table_4_7() -> list[ExperimentRow]:
    """The priority of each event, and of e7 by the other matrix."""
    decided = decided_priorities()
    rows = [
        ExperimentRow(
            "Table 4-7", f"{name}: {kind}, {size} at c = {context}", printed, decided[name],
            "priority", note=E7_NOTE if name == "e7" else "",
        )
        for name, kind, size, context, printed in PRINTED_EVENTS
    ]  # fmt: skip
    restricted = EngineProbe(UNITS, VECTOR)
    matrix = [list(row) for row in restriction_matrix(3).rows]
    restricted.set_matrix(f'{{"rows": {matrix}}}')
    ours = _decided(restricted)["e7"]
    case = "e7 by the restriction matrix of Table 4-9"
    rows.append(ExperimentRow("Table 4-7", case, 2, ours, "priority", note=E7_NOTE))
    return rows


def figure_4_6() -> tuple[list[ExperimentRow], ExperimentFigure]:
    """The order in which the events leave a queue with priorities."""
    order = departures(decided_priorities())
    rows = [
        ExperimentRow(
            "Figure 4-6", f"{name} leaves as number", 1 if name == "e2" else None, place,
            note=FIGURE_NOTE,
        )
        for place, name in enumerate(order, 1)
    ]  # fmt: skip
    last = sum(name in ("e4", "e5") for name in order[-2:])
    case = "of e4 and e5, so many leave at the end"
    rows.append(ExperimentRow("Figure 4-6", case, 2, last, "events", note=FIGURE_NOTE))
    arrived = [float(name[1:]) for name in order]
    curves = (
        Curve("arrives as", [float(place) for place in range(1, 8)], sorted(arrived)),
        Curve("leaves", [float(place) for place in range(1, 8)], arrived),
    )
    title = "Figure 4-6: e1 to e7 in the order in which they leave"
    return rows, ExperimentFigure("figure-4-6", title, "place", "event", curves)


def departures(priorities: dict[str, int]) -> list[str]:
    """The order in which events leave, if two arrive for each that leaves."""
    outbox: PriorityOutbox[_QueuedEvent] = PriorityOutbox(NO_SHARE)
    order: list[str] = []

    def send_one() -> None:
        ready, _, _ = outbox.take(0.0, 1, allowance=1)
        order.extend(each.name for each in ready)

    for number, (name, priority) in enumerate(priorities.items(), 1):
        outbox.restore(_QueuedEvent(name, priority))
        if number % 2 == 0:
            send_one()
    while len(outbox):
        send_one()
    return order


def _decided(probe: EngineProbe) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, kind, size, context, _ in PRINTED_EVENTS:
        probe.set_class(context)
        priority = probe.priority(name, {"unittype": kind, "size": size})
        # Withheld by the restriction matrix: -1 there.
        found[name] = -1 if priority is None else priority
    return found


class _QueuedEvent(Struct, eq=False):
    """An event in a queue, with what an outbox asks for."""

    name: str
    priority: int
    size: int = 1
    qos: int = 0
    expires_at: float | None = None
    live_key: str | None = None
    was_sent: bool = False
    deadline: float | None = None
    flow: str = ""
    queued_at: float = 0.0

    def reprioritise(self, priority: int) -> None:
        """Take another priority."""
        self.priority = priority
