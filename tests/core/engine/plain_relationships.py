"""Relationships, decided slowly and plainly: every pair and every choice of members, each time."""

from collections.abc import Callable, Iterator
from itertools import combinations

from nearcast.core.language.evaluation.scope import followed
from nearcast.core.model.context import merge_patch
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    ContextPatched,
    Forgot,
    Input,
    Moved,
    NodeExpired,
    RelationshipDefined,
    RelationshipEnded,
    SightSet,
)
from nearcast.core.model.visibility import SEE_ALL, SEE_ATTRIBUTES, SEE_IDENTITY, SEE_POSITION

Change = tuple[str, str, bool, float | None]
"""A relationship, by whose metres, whether it is near now, and the distance."""


class PlainRelationships:
    """A world of nodes, and what is to be told of their relationships."""

    def __init__(self, position_ttl_s: float) -> None:
        self._ttl_s = position_ttl_s
        self._at: dict[str, tuple[Position, float]] = {}
        self._attributes: dict[str, dict[str, object]] = {}
        self._sight: dict[tuple[str, str], int] = {}
        self._defined: dict[str, RelationshipDefined] = {}
        self.states: dict[tuple[str, str], bool] = {}

    def apply(self, value: Input, now: float) -> list[Change]:
        """Return the changes of an input, those of positions that expired before it first."""
        found: list[Change] = []
        for at, node in sorted((at, node) for node, (_, at) in self._at.items()):
            if at + self._ttl_s <= now:
                del self._at[node]
                found += self._changes()
        return found + self._apply(value, now)

    def _apply(self, value: Input, now: float) -> list[Change]:
        match value:
            case RelationshipDefined(name=name):
                self._end(name)
                self._defined[name] = value
                states = {
                    by: self._state(value, by, value.beyond is not None) for by in _bys(value)
                }
                self.states |= {(name, by): near for by, near in states.items()}
                return [(name, by, near, self._far(value, by)) for by, near in states.items()]
            case RelationshipEnded(name):
                self._end(name)
            case Moved(node, None) | NodeExpired(node):
                self._at.pop(node, None)
                if isinstance(value, NodeExpired):
                    self._attributes.pop(node, None)
            case Moved(node, position):
                assert position is not None
                self._at[node] = position, now
            case ContextPatched(node, patch):
                self._attributes[node] = merge_patch(self._attributes.get(node, {}), patch)
            case SightSet(viewer, other, mask):
                self._sight[viewer, other] = SEE_ALL if mask is None else mask
            case Forgot(node):
                for name, each in list(self._defined.items()):
                    if node in (each.node, *each.members):
                        self._end(name)
                self._at.pop(node, None)
                self._attributes.pop(node, None)
            case _:
                raise AssertionError(value)
        return self._changes()

    def _end(self, name: str) -> None:
        ended = self._defined.pop(name, None)
        for by in () if ended is None else _bys(ended):
            del self.states[name, by]

    def _changes(self) -> list[Change]:
        found: list[Change] = []
        for name, defined in sorted(self._defined.items()):
            for by in _bys(defined):
                near = self._state(defined, by, self.states[name, by])
                if near != self.states[name, by]:
                    self.states[name, by] = near
                    found.append((name, by, near, self._far(defined, by)))
        return found

    def _state(self, defined: RelationshipDefined, by: str, before: bool) -> bool:
        if defined.beyond is not None:
            if any(self._value(defined, each) is None for each in defined.members):
                return before
            beyond = defined.beyond
            return not self._some(defined, lambda far: far > beyond)
        if by:
            metres = dict(zip(defined.members, defined.metres, strict=True))[by]
            near = [far for far in self._from(defined, by) if far <= metres]
            return len(near) >= defined.need - 1
        within = defined.within
        assert within is not None
        return self._some(defined, lambda far: far <= within)

    def _some(self, defined: RelationshipDefined, holds: Callable[[float], bool]) -> bool:
        return any(all(map(holds, fars)) for fars in self._choices(defined))

    def _far(self, defined: RelationshipDefined, by: str) -> float | None:
        if by:
            fars = sorted(self._from(defined, by))
            return fars[defined.need - 2] if len(fars) >= defined.need - 1 else None
        return min((max(fars) for fars in self._choices(defined)), default=None)

    def _from(self, defined: RelationshipDefined, by: str) -> list[float]:
        """The distances from a member to the others that are known."""
        mine = self._value(defined, by)
        others = [self._value(defined, each) for each in defined.members if each != by]
        return [] if mine is None else [_far(mine, each) for each in others if each is not None]

    def _choices(self, defined: RelationshipDefined) -> Iterator[list[float]]:
        """All distances within each choice of as many members as are needed."""
        values = [self._value(defined, each) for each in defined.members]
        for some in combinations([each for each in values if each is not None], defined.need):
            yield [_far(one, other) for one, other in combinations(some, 2)]

    def _value(self, defined: RelationshipDefined, node: str) -> Position | float | None:
        viewer = defined.node
        sees = SEE_ALL if viewer == node else self._sight.get((viewer, node), SEE_ALL)
        attributes = self._attributes.get(node, {}) if sees & SEE_ATTRIBUTES else {}
        if defined.where is not None and defined.where.evaluate(attributes) is not True:  # type: ignore[arg-type]  # JSON
            return None
        if defined.of is not None:
            number = followed(attributes, defined.of)  # type: ignore[arg-type]  # JSON
            if not sees & SEE_IDENTITY or isinstance(number, bool):
                return None
            return float(number) if isinstance(number, int | float) else None
        if not sees & SEE_POSITION or not sees & SEE_IDENTITY or node not in self._at:
            return None
        return self._at[node][0]


def _bys(defined: RelationshipDefined) -> tuple[str, ...]:
    return defined.members if defined.metres else ("",)


def _far(one: Position | float, other: Position | float) -> float:
    if isinstance(one, Position):
        assert isinstance(other, Position)
        return distance_m(one.lat, one.lon, other.lat, other.lon)
    assert not isinstance(other, Position)
    return abs(one - other)
