"""Compiled rules: visibility rules as numbered sets of nodes.

The class of a node consists of the sets it is in and its values of attributes that rules compare.
What one class may see of another is given by the first rule that matches both.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from nearcast.core.model.context import NodeState
from nearcast.core.model.errors import PlaceError
from nearcast.core.model.geometry.area import Box, FixedArea, PlaceArea
from nearcast.core.model.geometry.geodesy import ecef
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.geometry.shapes import Code, encode, shape_holds
from nearcast.core.model.inputs import PlaceDefined, RulesSet
from nearcast.core.model.sight_rule import ANYONE, NodeCondition
from nearcast.core.model.visibility import SEE_ALL, SEE_POSITION
from nearcast.core.rights.rule_checks import carrying_rights, granted_to, heads

NodeClass: TypeAlias = tuple[int, tuple[object, ...]]
"""Bits for the sets that a node is in, and its values of attributes that rules compare."""

NO_MATTER = -1
EVERYWHERE = Box(-90.0, -180.0, 90.0, 180.0)
NOWHERE = Box(90.0, 0.0, 90.0, 0.0)
"""The pole, where no node is."""


class CompiledRules:
    """The sets of nodes that rules refer to, and the masks for them."""

    def __init__(self, rules: RulesSet, places: Places, strictly: bool = True) -> None:
        """Compile rules; strictly, each place they name must exist exactly once."""
        self._rules = rules
        self._protected = carrying_rights(rules)
        sets: dict[NodeCondition, int] = {}
        values: dict[str, int] = {}
        self._lines = [
            _Line(
                NO_MATTER if rule.viewer == ANYONE else sets.setdefault(rule.viewer, len(sets)),
                NO_MATTER if rule.other == ANYONE else sets.setdefault(rule.other, len(sets)),
                rule.see,
                rule.friend,
                NO_MATTER if rule.same is None else values.setdefault(rule.same, len(values)),
            )
            for rule in rules.rules
        ]
        self._sets = list(sets)
        self._values = list(values)
        self._names = {name for each in sets for name in heads(each.where)}
        self._names |= {part for name in values for part in (name, name.partition(".")[0])}
        self._areas: dict[int, Code] = {}
        self._places: dict[PlaceArea, FixedArea] = {}
        """The last known areas of named places."""
        hiding = {line.other for line in self._lines if not line.see & SEE_POSITION}
        self.look_up(places, strictly)
        for number, each in enumerate(self._sets):
            if each.inside is not None and number not in self._areas:
                # Its area is no longer known: what is hidden there is hidden everywhere.
                self._areas[number] = encode(EVERYWHERE if number in hiding else NOWHERE)
        self._concealing = {
            line.other
            for line in self._lines
            if line.other in self._areas and not line.see & SEE_POSITION
        }
        self.restricts = rules.default != SEE_ALL or any(x.see != SEE_ALL for x in self._lines)
        self.governs = self.restricts or bool(rules.grants)
        self.asks_friends = any(line.friend for line in self._lines)
        self.names_places = any(isinstance(each.inside, PlaceArea) for each in sets)

    def look_up(self, places: Places, strictly: bool = False) -> None:
        """Resolve areas; a removed place keeps its last area."""
        find = places.find if strictly else places.find_first
        for number, each in enumerate(self._sets):
            area = each.inside
            if isinstance(area, PlaceArea):
                try:
                    geometry = find(area.name, area.kind).geometry
                    self._areas[number] = encode(geometry)
                    self._places[area] = geometry
                except PlaceError:
                    if strictly:
                        raise
            elif area is not None:
                self._areas[number] = encode(area)  # type: ignore[arg-type]  # fixed, see Who

    def removed_places(self, places: Places) -> Iterator[PlaceDefined]:
        """Yield the named places that no longer exist, with their last areas."""
        for area, geometry in self._places.items():
            try:
                places.find_first(area.name, area.kind)
            except PlaceError:
                yield PlaceDefined(area.kind or "", area.name, geometry)

    def resume_places(self, removed: Iterable[PlaceDefined]) -> None:
        """Restore the last areas of places that no longer exist."""
        known = {(each.place_kind, each.name): each.geometry for each in removed}
        for number, each in enumerate(self._sets):
            area = each.inside
            if isinstance(area, PlaceArea):
                geometry = known.get((area.kind or "", area.name))
                if geometry is not None:
                    self._areas[number] = encode(geometry)
                    self._places[area] = geometry

    def asks(self, before: NodeState, after: NodeState) -> bool:
        """Return whether a rule depends on the difference between two states."""
        if self._areas and before.position != after.position:
            return True
        old, new = before.attributes, after.attributes
        if old is new or not self._names:
            return False
        return any(old.get(name) != new.get(name) for name in self._names)

    def class_of(self, state: NodeState) -> NodeClass:
        """The class of a node in a state."""
        if not self._sets and not self._values:
            return 0, ()
        context: dict[str, object] = {}
        if self._names:
            own = state.attributes.items()
            context = {name: value for name, value in own if name not in self._protected}
            context.update(granted_to(state.node, self._rules))
        bits = 0
        for number in range(len(self._sets)):
            if self._holds(number, state.node, context, state.position):
                bits |= 1 << number
        return bits, tuple(_comparable(_followed(context, name)) for name in self._values)

    def mask(self, viewer: NodeClass, other: NodeClass, friends: bool) -> int:
        """The visibility mask of a class for a viewer's; `friends`: the other lists the viewer."""
        for line in self._lines:
            if (
                (line.viewer == NO_MATTER or viewer[0] >> line.viewer & 1)
                and (line.other == NO_MATTER or other[0] >> line.other & 1)
                and (friends or not line.friend)
                and (line.same == NO_MATTER or _alike(viewer[1][line.same], other[1][line.same]))
            ):
                return line.see
        return self._rules.default

    def conceals(self, node: str, at: Position | None) -> bool:
        """Return whether some rule hides a node's position because of where it is."""
        if not self._concealing or at is None:
            return False
        return any(
            self._sets[number].is_named(node) and self._is_inside(number, at)
            for number in self._concealing
        )

    def _holds(
        self, number: int, node: str, context: Mapping[str, object], at: Position | None
    ) -> bool:
        who = self._sets[number]
        if not who.is_named(node):
            return False
        if who.inside is not None and (at is None or not self._is_inside(number, at)):
            return False
        return who.where is None or who.where.evaluate(context) is True  # type: ignore[arg-type]

    def _is_inside(self, number: int, at: Position) -> bool:
        lat, lon = float(at.lat), float(at.lon)
        return bool(shape_holds(self._areas[number], 0, lat, lon, *ecef(lat, lon), 0.0, 0.0))


class _Line(Struct, frozen=True):
    """A rule in numbers: its sets, the compared value, and the mask."""

    viewer: int
    other: int
    see: int
    friend: bool
    same: int


def _followed(context: Mapping[str, object], path: str) -> object:
    if path in context:
        return context[path]
    found: object = context
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _comparable(value: object) -> object:
    """Return a value that compares as in filters; None if it equals nothing."""
    if isinstance(value, bool | str):
        return type(value).__name__, value
    return float(value) if isinstance(value, int | float) else None


def _alike(first: object, second: object) -> bool:
    return first is not None and first == second
