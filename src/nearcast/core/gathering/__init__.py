"""Gathering: events held until a threshold is reached, and their aggregates (seed E)."""

from nearcast.core.gathering.aggregates.parts import Aggregate as Aggregate
from nearcast.core.gathering.aggregates.parts import Part as Part
from nearcast.core.gathering.cells import Cell as Cell
from nearcast.core.gathering.cells import cell_of as cell_of
from nearcast.core.gathering.group import Group as Group
from nearcast.core.gathering.grouping import GroupKey as GroupKey
from nearcast.core.gathering.grouping import group_of as group_of
from nearcast.core.gathering.grouping import subject_of as subject_of
from nearcast.core.gathering.needs.rules import GatheringRule as GatheringRule
from nearcast.core.gathering.needs.rules import Per as Per
from nearcast.core.gathering.needs.rules import parse_rule as parse_rule
from nearcast.core.gathering.needs.rules import parse_rules as parse_rules
from nearcast.core.gathering.needs.thresholds import Threshold as Threshold
