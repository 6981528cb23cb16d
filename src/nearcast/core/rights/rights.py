"""Rights: rules turned into what the matcher's kernels look up, and kept true as nodes change.

A node's class says which sets of nodes that rules speak of it is in; nodes of one class are in
one visibility group, and a table says what a group may see of a group. Only a node's own class is
found again when it moves or changes, and only if some rule asks for what changed. Friendship is
between two, so it makes exceptions for pairs, of nodes that list friends alone. Where there are
more classes than groups, a node of yet another class sees nobody and is seen by nobody.
"""

from collections.abc import Callable, Iterable, Mapping

from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.nodes import DEFAULT_GROUP
from nearcast.core.matching.sight import GROUPS, Sight
from nearcast.core.model.context import NodeState, Value
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import RulesSet
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_POSITION
from nearcast.core.rights.compiled_rules import CompiledRules, NodeClass
from nearcast.core.rights.rule_checks import carrying_rights, check_rules, granted_to

CLOSED = GROUPS - 1
"""The group of nodes whose class no group is left for."""
MOST_CLASSES = CLOSED - DEFAULT_GROUP


class Rights:
    """The rules in force, and what each node may see by them."""

    def __init__(self, matcher: Matcher, state_of: Callable[[str], NodeState]) -> None:
        self._matcher = matcher
        self._sight: Sight = matcher.sight
        self._state_of = state_of
        self.rules = RulesSet()
        self.protected = carrying_rights(self.rules)
        """Attributes that only rules set."""
        self._compiled = CompiledRules(self.rules, matcher.places)
        self._groups: dict[NodeClass, int] = {}
        self._classes: dict[int, NodeClass] = {}
        self._found: dict[str, NodeClass] = {}
        """Classes just found, while rules are put in force."""
        self._was: dict[str, list[NodeClass]] = {}
        """The classes that nodes have left in the present step."""

    # What rules say

    def put(self, rules: RulesSet, known: Iterable[NodeState], strictly: bool = True) -> None:
        """Put other rules in force; raise `ModelError`, and nothing changes, if they cannot be.

        Strictly, all places that they name must be there.
        """
        check_rules(rules)
        compiled = CompiledRules(rules, self._matcher.places, strictly)
        states = list(known)
        names = {*self._sight.names(), *(state.node for state in states)}
        found = {name: compiled.class_of(self._state_of(name)) for name in names}
        if len(classes := set(found.values())) > MOST_CLASSES:
            raise ModelError(
                f"these rules tell {len(classes)} classes of nodes apart, and there can be "
                f"{MOST_CLASSES}; name fewer different areas, conditions or values"
            )
        newly = self.protected ^ carrying_rights(rules)
        self.rules, self._compiled = rules, compiled
        self.protected = carrying_rights(rules)
        self._groups, self._classes = {}, {}
        self._was.clear()
        self._found = found
        self._sight.govern(self if compiled.governs else None)
        self._found = {}
        for state in states:
            if not newly.isdisjoint(state.attributes):
                self._matcher.update(state.node, self.own(state.attributes))

    def check_patch(self, patch: Mapping[str, object]) -> None:
        """Raise `ModelError` if a patch of a context sets what only rules set."""
        for name in sorted(self.protected & patch.keys()):
            raise ModelError(f"{name} carries rights: only rules set it")

    def own(self, attributes: Mapping[str, Value]) -> Mapping[str, Value]:
        """A node's own attributes, without those that it cannot set."""
        if self.protected.isdisjoint(attributes):
            return attributes
        return {name: attributes[name] for name in attributes if name not in self.protected}

    def context(self, node: str) -> dict[str, object]:
        """A node's context as filters and rules see it: its own, and what is granted to it."""
        return {**self.own(self._state_of(node).attributes), **self.granted(node)}

    def may_witness(self, viewer: str, node: str) -> bool:
        """Whether a viewer may know of a node's moves in the present step, from where and to where.

        A node that only now comes into sight has no past for the viewer.
        """
        needs = SEE_POSITION | SEE_IDENTITY
        if self._sight.may_see(viewer, node) & needs != needs:
            return False
        if viewer == node or node not in self._was:
            return True
        mine = self._class_of(self._state_of(viewer))
        return all(
            self._compiled.mask(mine, was, False) & needs == needs for was in self._was[node]
        )

    # What happens

    def begin(self) -> None:
        """A step begins."""
        self._was.clear()

    def changed(self, before: NodeState, after: NodeState) -> bool:
        """A node is in another state now; whether it sees or is seen otherwise than before."""
        compiled = self._compiled
        if not compiled.governs or not compiled.asks(before, after):
            return False
        # A node of which nothing was known may have got its group just now.
        known = before.attributes or before.position is not None
        old = self._class_of(before) if known else compiled.class_of(before)
        if old == compiled.class_of(after):
            return False
        self._was.setdefault(after.node, []).append(old)
        self._sight.reclass(after.node)
        return True

    def places_changed(self, known: Iterable[NodeState]) -> list[str]:
        """Places are others now; the nodes that see or are seen otherwise than before."""
        compiled = self._compiled
        if not compiled.names_places:
            return []
        states = [state for state in known if state.position is not None]
        before = [compiled.class_of(state) for state in states]
        compiled.look_up(self._matcher.places)
        changed = []
        for state, old in zip(states, before, strict=True):
            if compiled.class_of(state) != old:
                self._sight.reclass(state.node)
                changed.append(state.node)
        return changed

    def refresh(self) -> None:
        """Everyone may be in another state now."""
        if self._compiled.governs:
            # The table begins anew too: whoever is in a group that stayed would see nobody.
            self._groups, self._classes = {}, {}
            self._sight.govern(self)

    def conceals_now(self, node: str) -> bool:
        """Whether a node's position is hidden from some because of where it is now.

        What stays after it has gone elsewhere must not tell where it was.
        """
        return self.conceals(node, self._state_of(node).position)

    # What the matcher asks

    @property
    def restricts(self) -> bool:
        """Whether anything may be hidden at all."""
        return self._compiled.restricts

    @property
    def asks_friends(self) -> bool:
        """Whether a rule is about friends."""
        return self._compiled.asks_friends

    def group(self, node: str) -> int:
        """The visibility group of a node."""
        wanted = self._found.get(node) or self._compiled.class_of(self._state_of(node))
        group = self._groups.get(wanted)
        if group is not None:
            return group
        if len(self._groups) == MOST_CLASSES:
            in_use = self._sight.groups_in_use()
            for old in [old for old, number in self._groups.items() if number not in in_use]:
                del self._classes[self._groups.pop(old)]
        free = (g for g in range(DEFAULT_GROUP, CLOSED) if g not in self._classes)
        group = next(free, CLOSED)
        if group != CLOSED:
            self._groups[wanted] = group
            self._classes[group] = wanted
            for other, of_other in self._classes.items():
                self._sight.groups[group, other] = self._compiled.mask(wanted, of_other, False)
                self._sight.groups[other, group] = self._compiled.mask(of_other, wanted, False)
        return group

    def granted(self, node: str) -> Mapping[str, Value]:
        """What is granted to a node."""
        return granted_to(node, self.rules)  # type: ignore[return-value]  # checked when put

    def conceals(self, node: str, at: Position | None) -> bool:
        """Whether a node's position is hidden from some because of where it is, or was."""
        return self._compiled.conceals(node, at)

    def mask(self, viewer: str, other: str, friends: bool) -> int:
        """What the rules let one node see of another."""
        first, second = (self._class_of(self._state_of(name)) for name in (viewer, other))
        return self._compiled.mask(first, second, friends)

    def _class_of(self, state: NodeState) -> NodeClass:
        """The class by which a node is in its group; for one that is in none, that of its state."""
        group = self._sight.group_of(state.node)
        known = None if group is None else self._classes.get(group)
        return known or self._compiled.class_of(state)

    def statistics(self) -> dict[str, int]:
        """How much there is of everything."""
        return {
            "rules": len(self.rules.rules),
            "classes": len(self._groups),
            "closed": self._sight.members(CLOSED),
        }
