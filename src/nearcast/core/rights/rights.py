"""Rights: visibility rules as tables for the matcher's kernels, updated as nodes change.

A node's class is given by the sets of nodes, named in rules, that it is in; nodes of one class are
in one visibility group, and a table gives what a group may see of another. When a node moves or
changes, only its own class is recomputed, and only if some rule depends on the change. Friendship
is between two nodes, so it makes exceptions for pairs, only of nodes that list friends. If there
are more classes than groups, a node of a further class sees no other node and is seen by none.
"""

from collections.abc import Callable, Iterable, Mapping

from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.nodes import DEFAULT_GROUP
from nearcast.core.matching.sight import GROUPS, Sight
from nearcast.core.model.context import NodeState, Value
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import PlaceDefined, RulesSet
from nearcast.core.model.visibility import SEE_IDENTITY, SEE_POSITION
from nearcast.core.rights.compiled_rules import CompiledRules, NodeClass
from nearcast.core.rights.rule_checks import carrying_rights, check_rules, granted_to

CLOSED = GROUPS - 1
"""The group of nodes whose class has no group left."""
MOST_CLASSES = CLOSED - DEFAULT_GROUP


class Rights:
    """The rules in force, and the visibility they give each node."""

    def __init__(self, matcher: Matcher, state_of: Callable[[str], NodeState]) -> None:
        self._matcher = matcher
        self._sight: Sight = matcher.sight
        self._state_of = state_of
        self.rules = RulesSet()
        self.protected = carrying_rights(self.rules)
        """Attributes that only rules can set."""
        self._compiled = CompiledRules(self.rules, matcher.places)
        self._groups: dict[NodeClass, int] = {}
        self._classes: dict[int, NodeClass] = {}
        self._found: dict[str, NodeClass] = {}
        """Classes just computed, while rules are replaced."""
        self._was: dict[str, list[NodeClass]] = {}
        """The classes that nodes have left in the current step."""

    # Rules

    def put(self, rules: RulesSet, known: Iterable[NodeState], strictly: bool = True) -> None:
        """Replace the rules; raise `ModelError`, changing nothing, if they are invalid.

        Strictly, all places that they name must exist.
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
        """Raise `ModelError` if a patch sets an attribute that only rules can set."""
        for name in sorted(self.protected & patch.keys()):
            raise ModelError(f"{name} carries rights: only rules set it")

    def own(self, attributes: Mapping[str, Value]) -> Mapping[str, Value]:
        """A node's own attributes, without those that it cannot set."""
        if self.protected.isdisjoint(attributes):
            return attributes
        return {name: attributes[name] for name in attributes if name not in self.protected}

    def context(self, node: str) -> dict[str, object]:
        """A node's context as filters and rules see it: its own and the granted attributes."""
        return {**self.own(self._state_of(node).attributes), **self.granted(node)}

    def may_witness(self, viewer: str, node: str) -> bool:
        """Return whether a viewer may know a node's moves in the current step, with both ends.

        A node that has just become visible has no past for the viewer.
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

    # Changes

    def begin(self) -> None:
        """Begin a step."""
        self._was.clear()

    def changed(self, before: NodeState, after: NodeState) -> bool:
        """Apply a changed node state; return whether visibility of or for the node changed."""
        compiled = self._compiled
        if not compiled.governs or not compiled.asks(before, after):
            return False
        # A node without previous state may have got its group just now.
        known = before.attributes or before.position is not None
        old = self._class_of(before) if known else compiled.class_of(before)
        if old == compiled.class_of(after):
            return False
        self._was.setdefault(after.node, []).append(old)
        self._sight.reclass(after.node)
        return True

    def places_changed(self, known: Iterable[NodeState]) -> list[str]:
        """Apply changed places; return the nodes whose visibility changed."""
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

    def removed_places(self) -> list[PlaceDefined]:
        """Places that no longer exist, as the rules still know them."""
        return list(self._compiled.removed_places(self._matcher.places))

    def resume_places(self, removed: Iterable[PlaceDefined]) -> None:
        """Restore what the rules know of places that no longer exist; before any node is known."""
        self._compiled.resume_places(removed)

    def refresh(self) -> None:
        """Recompute the groups of all nodes."""
        if self._compiled.governs:
            # The table is rebuilt too: members of a group that remained would see no other node.
            self._groups, self._classes = {}, {}
            self._sight.govern(self)

    def conceals_now(self, node: str) -> bool:
        """Return whether a node's position is hidden from some nodes because of where it is now.

        An event that stays after the node has left must not reveal where it was.
        """
        return self.conceals(node, self._state_of(node).position)

    # Interface of the matcher

    @property
    def restricts(self) -> bool:
        """True if anything may be hidden at all."""
        return self._compiled.restricts

    @property
    def asks_friends(self) -> bool:
        """True if a rule is about friends."""
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
        """The attributes granted to a node."""
        return granted_to(node, self.rules)  # type: ignore[return-value]  # checked when put

    def conceals(self, node: str, at: Position | None) -> bool:
        """True if a node's position is hidden from some nodes because of where it is, or was."""
        return self._compiled.conceals(node, at)

    def mask(self, viewer: str, other: str, friends: bool) -> int:
        """The visibility mask that rules give a viewer of another node."""
        first, second = (self._class_of(self._state_of(name)) for name in (viewer, other))
        return self._compiled.mask(first, second, friends)

    def _class_of(self, state: NodeState) -> NodeClass:
        """The class of a node's group; for a node without a group, that of its state."""
        group = self._sight.group_of(state.node)
        known = None if group is None else self._classes.get(group)
        return known or self._compiled.class_of(state)

    def statistics(self) -> dict[str, int]:
        """Numbers of rules, classes, and nodes without a group."""
        return {
            "rules": len(self.rules.rules),
            "classes": len(self._groups),
            "closed": self._sight.members(CLOSED),
        }
