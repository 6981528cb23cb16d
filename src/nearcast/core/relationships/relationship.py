"""A named relationship: whether its members are near each other, in metres or in any quantity.

Members have values: positions, or numbers of their contexts, or none. A changed value changes only
the distances of its member: for each member there is the set of the others that it is linked to,
which are near enough, or far enough away if `beyond` is asked for. The state follows from the
links. From seed A, extended to groups, to other quantities and to the end of closeness.
"""

from collections.abc import Iterator, Sequence

from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.geodesy import distance_m
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import RelationshipDefined
from nearcast.core.model.relationship_state import RelationshipState
from nearcast.core.relationships.cliques import MOST_CHOSEN_FROM, has_clique
from nearcast.core.relationships.member_travel import slack_m

MOST_MEMBERS = 100
Value = Position | float | None


class Relationship:
    """A relationship with the values of its members and its states."""

    __slots__ = ("_linked_pairs", "_links", "defined", "known", "states", "values")

    def __init__(self, defined: RelationshipDefined, now: float) -> None:
        self.defined = defined
        self.values: list[Value] = [None] * len(defined.members)
        self.known = 0
        """The number of members with a value."""
        self._links = [0] * len(defined.members)
        """For each member, a bit for each other that is near enough, or far enough away."""
        self._linked_pairs = 0
        """The number of links of all members together, each counted at both ends."""
        count = len(defined.members) if defined.metres else 1
        first = RelationshipState(defined.beyond is not None, now)
        self.states = list(defined.states) or [first] * count

    @property
    def is_determined(self) -> bool:
        """True if the state follows from the values; otherwise it is as it was."""
        return self.defined.beyond is None or self.known == len(self.values)

    @property
    def is_pair(self) -> bool:
        """True if it has two members, compared by position."""
        return len(self.values) == 2 and self.defined.of is None

    def slack_m(self) -> float | None:
        """Return what the members of a pair may travel together without changing its states.

        None if one of them has no position: then no travel changes them.
        """
        one, other = self.values
        if one is None or other is None:
            return None
        defined = self.defined
        limits = (defined.within, defined.beyond, *defined.metres)
        return slack_m(_distance(one, other), tuple(each for each in limits if each is not None))

    def put(self, place: int, value: Value) -> Sequence[int]:
        """Set the value of a member; return the numbers of the states that may have changed."""
        before = self.values[place]
        if value == before:
            return ()
        self.known += (value is not None) - (before is not None)
        self.values[place] = value
        defined, links = self.defined, self._links
        bit = 1 << place
        touched = [place]
        mine = 0
        for other, at in enumerate(self.values):
            if other == place:
                continue
            far = None if at is None or value is None else _distance(value, at)
            if self._is_linked(place, far):
                mine |= 1 << other
            theirs = links[other]
            links[other] = theirs | bit if self._is_linked(other, far) else theirs & ~bit
            if links[other] != theirs:
                touched.append(other)
                self._linked_pairs += 1 if links[other] & bit else -1
        self._linked_pairs += mine.bit_count() - links[place].bit_count()
        links[place] = mine
        return touched if defined.metres else (0,)

    def is_near(self, number: int) -> bool:
        """Return whether a state is near by the values of now; as before if that is unknown."""
        defined = self.defined
        if defined.metres:
            return self._links[number].bit_count() >= defined.need - 1
        if defined.beyond is None:
            return self._has_linked()
        if self.known < len(self.values):
            return self.states[number].near
        return not self._has_linked()

    def distance(self, number: int) -> float | None:
        """Return the largest distance within the closest members that are needed.

        With metres of their own, the largest from the member. None if too few have a value.
        """
        need, values = self.defined.need, self.values
        if self.defined.metres:
            mine = values[number]
            if mine is None or self.known < need:
                return None
            others = (at for other, at in enumerate(values) if other != number and at is not None)
            return sorted(_distance(mine, at) for at in others)[need - 2]
        if self.known < need:
            return None
        found = [(place, at) for place, at in enumerate(values) if at is not None]
        pairs = [
            (_distance(at, other), place, further)
            for index, (place, at) in enumerate(found)
            for further, other in found[index + 1 :]
        ]
        if need == 2:
            return min(pairs)[0]
        if need == len(found):
            return max(pairs)[0]
        return self._closest(sorted(pairs))

    def _closest(self, pairs: Sequence[tuple[float, int, int]]) -> float:
        """Return the smallest distance that, as the largest allowed, leaves enough members."""
        low, high = 0, len(pairs) - 1
        while low < high:
            middle = (low + high) // 2
            links = [0] * len(self.values)
            for _, one, other in pairs[: middle + 1]:
                links[one] |= 1 << other
                links[other] |= 1 << one
            if has_clique(links, self.defined.need):
                high = middle
            else:
                low = middle + 1
        return pairs[low][0]

    def _is_linked(self, place: int, far: float | None) -> bool:
        """Whether somebody at a distance from a member is linked to it."""
        if far is None:
            return False
        defined = self.defined
        if defined.within is not None:
            return far <= defined.within
        if defined.beyond is not None:
            return far > defined.beyond
        return far <= defined.metres[place]

    def _has_linked(self) -> bool:
        """Whether as many members as are needed are linked, every two of them."""
        need, count = self.defined.need, len(self.values)
        if need == count:
            return self._linked_pairs == count * (count - 1)
        return self._linked_pairs > 0 if need == 2 else has_clique(self._links, need)


def check_relationship(value: RelationshipDefined) -> None:
    """Raise `ModelError` if a definition is not one."""
    count, need = len(value.members), value.need
    if count < 2:
        raise ModelError(f"a relationship has at least two members, not {count}")
    if count > MOST_MEMBERS:
        raise ModelError(f"a relationship has at most {MOST_MEMBERS} members, not {count}")
    for name in _problems_with_names(value.members):
        raise ModelError(name)
    if not 2 <= need <= count:
        raise ModelError(f"of {count} members 2 to {count} can be needed, not {need}")
    chosen = 2 < need < count and not value.metres
    if chosen and count > MOST_CHOSEN_FROM:
        raise ModelError(
            f"{need} of {count} members are too many to choose from: all, any two, or some of "
            f"at most {MOST_CHOSEN_FROM}"
        )


def _problems_with_names(members: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in members:
        if not name:
            yield "a member has an empty name"
        if "~" in name:
            yield f"{name!r} is a part: members are nodes, such as {name.partition('~')[0]!r}"
        if name in seen:
            yield f"{name!r} is a member twice"
        seen.add(name)


def _distance(one: Position | float, other: Position | float) -> float:
    if isinstance(one, Position):
        assert isinstance(other, Position)
        return distance_m(float(one.lat), float(one.lon), float(other.lat), float(other.lon))
    assert not isinstance(other, Position)
    return abs(one - other)
