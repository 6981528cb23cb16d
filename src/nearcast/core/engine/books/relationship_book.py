"""The book of relationships: by name, by member and by the node that defined them."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from nearcast.core.model.inputs import RelationshipDefined
from nearcast.core.relationships.relationship import Relationship

RelationshipObserver = Callable[[RelationshipDefined, int], None]
"""Called with a definition that was put (1) or ended (-1)."""
_NONE: dict[str, int] = {}


class RelationshipBook:
    """Relationships with their states."""

    def __init__(self) -> None:
        self._by_name: dict[str, Relationship] = {}
        self.by_member: dict[str, dict[str, int]] = {}
        """By node: the names of its relationships, each with its place among the members."""
        self._of_definer: dict[str, dict[str, None]] = {}
        self.observer: RelationshipObserver | None = None

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[RelationshipDefined]:
        """Yield the definitions with their states."""
        return map(_in_force, self._by_name.values())

    def get(self, name: str) -> RelationshipDefined | None:
        """The definition of a name with its states, if there is one."""
        found = self._by_name.get(name)
        return None if found is None else _in_force(found)

    def relationship(self, name: str) -> Relationship:
        """The relationship of a name."""
        return self._by_name[name]

    def names(self) -> list[str]:
        """All names."""
        return list(self._by_name)

    def of_member(self, node: str) -> dict[str, int]:
        """The names of a node's relationships, each with its place among the members."""
        return self.by_member.get(node, _NONE)

    def of_definer(self, node: str) -> list[str]:
        """The names of the relationships that a node defined."""
        return list(self._of_definer.get(node, ()))

    def put(self, relationship: Relationship) -> None:
        """Add a relationship, replacing that of the same name."""
        defined = relationship.defined
        self.end(defined.name)
        self._by_name[defined.name] = relationship
        for place, member in enumerate(defined.members):
            self.by_member.setdefault(member, {})[defined.name] = place
        self._of_definer.setdefault(defined.node, {})[defined.name] = None
        if self.observer is not None:
            self.observer(defined, 1)

    def end(self, name: str) -> Relationship | None:
        """End a relationship; return it if there was one."""
        ended = self._by_name.pop(name, None)
        if ended is None:
            return None
        defined = ended.defined
        for member in defined.members:
            own = self.by_member[member]
            del own[name]
            if not own:
                del self.by_member[member]
        defining = self._of_definer[defined.node]
        del defining[name]
        if not defining:
            del self._of_definer[defined.node]
        if self.observer is not None:
            self.observer(defined, -1)
        return ended


def _in_force(relationship: Relationship) -> RelationshipDefined:
    return replace(relationship.defined, states=tuple(relationship.states))
