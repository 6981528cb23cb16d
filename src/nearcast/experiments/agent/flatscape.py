"""FLATSCAPE's subscription and roles (seed C, 6.1 and 7.3.2): Table 6-1, Listings 7-4 and 7-5."""

from nearcast.core.adaptation.policy_documents import ROLES, TEMPLATE
from nearcast.core.engine.engine import Engine
from nearcast.core.language import Filter
from nearcast.core.model.context import Value
from nearcast.core.model.inputs import ContextPatched, PolicySet
from nearcast.experiments.agent.engine_probe import NODE, EngineProbe
from nearcast.experiments.agent.worked_example import atom_text
from nearcast.experiments.experiment_result import ExperimentRow

NAME = "flatscape"
SUBSCRIPTION = """\
<SUBSCRIPTION filename="flatscape">
  <LOGICAL_OPERATOR value="OR">
    <LOGICAL_OPERATOR value="OR">
      <ATOM name="type" operator="=" value="document"/>
      <ATOM name="type" operator="=" value="time"/>
      <ATOM name="type" operator="=" value="overlay"/>
      <ATOM name="type" operator="=" value="chat"/>
    </LOGICAL_OPERATOR>
    <LOGICAL_OPERATOR value="AND">
      <ATOM name="type" operator="=" value="unit"/>
      <LOGICAL_OPERATOR value="OR">
        <ATOM name="affiliation" operator="=" value="H"/>
        <ATOM name="affiliation" operator="=" value="F"/>
        <ATOM name="affiliation" operator="=" value="N"/>
      </LOGICAL_OPERATOR>
    </LOGICAL_OPERATOR>
  </LOGICAL_OPERATOR>
</SUBSCRIPTION>
"""
"""Listing 6-1, with the outermost operator closed."""
RELEVANCE = """\
<RELEVANCE>
  <ROLE name="platoon leader">
    <TASK name="offense">
      <RELEVANCE value="1 0.3 0.3 0.8 1 1 0.9 0.5" default="yes"/>
    </TASK>
  </ROLE>
</RELEVANCE>
"""
"""Of Listing 7-3, the role and the task of the simulation."""

H, M, L = 3, 2, 1
TABLE_6_1 = {
    "HIGH": (0, 4, 5),
    "MEDIUM": (0, 1, 2, 4, 5, 6),
    "LOW": (0, 1, 2, 3, 4, 5, 6, 7),
}
EVERY_ATOM = (0, 1, 2, 3, 4, 5, 6, 7)
LISTINGS: dict[str, tuple[float, tuple[tuple[int, ...] | None, ...]]] = {
    "Listing 7-4": (3750.0, (EVERY_ATOM, (), None)),
    "Listing 7-5": (195.6, ((0, 3, 4, 5, 6), (0, 3, 4, 5, 6, 7), EVERY_ATOM)),
}
"""The throughput in kb/s, and the facts' atoms for priorities 0, 1 and 2; None: no fact."""

_TYPES: list[dict[str, Value]] = [
    {"type": each} for each in ("document", "time", "overlay", "chat", "other")
]
_UNITS: list[dict[str, Value]] = [
    {"type": "unit", "affiliation": each} for each in ("H", "F", "N", "U")
]
PROBES = (*_TYPES, *_UNITS)
"""Every combination of the atoms' values."""
DECISIONS = f"of {len(PROBES)} events, delivered as the printed sets say"

EMPTY_NOTE = (
    "Misprint: the fact of priority 1 is empty; by Equation 4-5 the set contains that of every "
    "better priority. The rule priorityMatrix (Listing 5-6) loops `while (> ?priority 0)`, so one "
    "of the sets is never filled: by Appendix B that of priority 2, which Listing 7-5 has in full. "
    "The decisions are the same: priority 0 already selects all."
)
NO_FACT_NOTE = (
    "The listing has no fact of priority 2: the text says that it is the same as that of priority "
    "1. By Equation 4-5 it holds all atoms; the decisions are the same."
)
OMITTED_NOTE = (
    "Misprint: the rule subscription4 looks for a fact with atoms a6 … a0, without a7, and would "
    "never find its own fact, which has a7; its test has a7. The fact is what is decided here."
)
NUMBERING_NOTE = "Priorities are numbered from 0 as in the implementation: ours less 1."


def table_6_1() -> list[ExperimentRow]:
    """The prioritised subscriptions of (H M M L H H M L) in the worst context."""
    probe = EngineProbe(_template_filter(), (H, M, M, L, H, H, M, L))
    probe.set_class(1)
    rows = [
        ExperimentRow(
            "Table 6-1", f"subscription of priority {name}", len(theirs), len(ours), "atoms",
            atom_text(theirs, "a"), atom_text(ours, "a"),
        )
        for (name, theirs), ours in zip(TABLE_6_1.items(), probe.atom_sets(), strict=True)
    ]  # fmt: skip
    agreeing = probe.agreeing(tuple(TABLE_6_1.values()), PROBES)
    return [*rows, ExperimentRow("Table 6-1", DECISIONS, None, agreeing, "events")]


def listings_7_4_and_7_5() -> list[ExperimentRow]:
    """The sets of atoms of a platoon leader with an offensive task, at two throughputs."""
    probe = platoon_leader()
    rows = []
    for listing, (kbps, printed) in LISTINGS.items():
        probe.set_throughput(kbps)
        for priority, (theirs, ours) in enumerate(zip(printed, probe.atom_sets(), strict=True)):
            note = NUMBERING_NOTE
            if theirs is None:
                note = NO_FACT_NOTE
            elif not theirs:
                note = EMPTY_NOTE
            elif listing == "Listing 7-5" and priority == 2:
                note = OMITTED_NOTE
            rows.append(
                ExperimentRow(
                    listing, f"atoms of priority {priority} at {kbps:g} kb/s",
                    None if theirs is None else len(theirs), len(ours), "atoms",
                    "" if theirs is None else atom_text(theirs, "a"), atom_text(ours, "a"), note,
                )
            )  # fmt: skip
        agreeing = probe.agreeing([each or () for each in printed], PROBES)
        rows.append(ExperimentRow(listing, DECISIONS, None, agreeing, "events"))
    return rows


def platoon_leader() -> EngineProbe:
    """A subscriber whose vector follows its role and task, by the text's own XML."""
    policies = (PolicySet(TEMPLATE, NAME, SUBSCRIPTION), PolicySet(ROLES, NAME, RELEVANCE))
    asked = EngineProbe(_template_filter(), (1,) * 8, before=policies)
    levels = asked.engine.role_levels(NODE, NAME)
    has_role = ContextPatched(NODE, {"role": "platoon leader", "task": "offense"})
    return EngineProbe(_template_filter(), levels, NAME, (*policies, has_role))


def _template_filter() -> Filter:
    engine = Engine()
    engine.step([PolicySet(TEMPLATE, NAME, SUBSCRIPTION)], 0.0)
    return engine.policies.template(NAME).where
