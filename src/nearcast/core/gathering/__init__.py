"""Gathering: what waits until there is enough of it, and the aggregates it becomes (seed E)."""

from nearcast.core.gathering.cells import Cell, cell_of
from nearcast.core.gathering.group import Group
from nearcast.core.gathering.grouping import GroupKey, group_of, subject_of
from nearcast.core.gathering.parts import Aggregate, Part
from nearcast.core.gathering.rules import GatheringRule, Per, parse_rule, parse_rules
from nearcast.core.gathering.thresholds import Threshold

__all__ = [
    "Aggregate",
    "Cell",
    "GatheringRule",
    "Group",
    "GroupKey",
    "Part",
    "Per",
    "Threshold",
    "cell_of",
    "group_of",
    "parse_rule",
    "parse_rules",
    "subject_of",
]
