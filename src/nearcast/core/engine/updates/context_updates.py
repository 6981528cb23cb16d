"""Situating, the second step: positions, attributes, places and visibility of nodes.

A change, whether by a node, an operator or expiry, is in force before dependents are notified; then
live events are delivered to the subscriptions that match them only now. Moves that cannot cause a
delivery are held and applied together.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from nearcast.core.engine.dependent import EngineDependent, NodeUpdate
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers, NodeChanged
from nearcast.core.model.context import (
    LARGEST_ATTRIBUTES_BYTES,
    NodeState,
    check_size,
    moved,
    patched,
)
from nearcast.core.model.geometry import position as positions
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    Moved,
    NodeExpired,
    PlaceDefined,
    RulesSet,
    SightSet,
    TimePassed,
)


class ContextUpdates(EngineDependent):
    """Applies changes of positions, attributes, places and rights."""

    def __init__(self, state: EngineState) -> None:
        self._matcher = state.matcher
        self._nodes = state.nodes
        self._most_bytes = state.settings.context_bytes
        self._rights = state.rights
        self._dependents = state.dependents
        self._moving: dict[str, Position] = {}
        """Held moves, of nodes that have a position."""
        self.handlers: Handlers = {
            Moved: self.move,
            ContextPatched: self.patch,
            PlaceDefined: self.define_place,
            SightSet: self.set_sight,
            RulesSet: self.set_rules,
            NodeExpired: self.drop_node,
        }

    # Nodes

    def move(self, each: Moved, step: EngineStep) -> None:
        """Set or clear the position of a node."""
        state = self._nodes.state_of(each.node)
        if each.position is None:
            gone = NodeState(each.node, attributes=state.attributes, changed_at=step.now)
            self._set_state(gone, step)
        else:
            at = positions.checked(each.position)
            self._set_state(moved(state, at, step.now), step, by_move=True)

    def move_later(
        self, inputs: Sequence[Input | TimePassed], times: Sequence[float], step: EngineStep
    ) -> int:
        """Hold moves that cause no delivery, to be applied together; return the next input's index.

        Starts at the input of the step, and stops at the first input that is no such move or has
        another time.
        """
        moving, now, index = self._moving, step.now, step.index
        if not moving and not self._is_still():
            return index
        followers = [each for each in self._dependents if each.followed]
        nodes = self._nodes
        by_name, changes = nodes.by_name, step.outcome.node_changes
        for place in range(index, len(inputs)):
            each = inputs[place]
            if type(each) is not Moved or times[place] != now:
                return place
            node, at = each.node, each.position
            before = by_name.get(node)
            if before is None or before.position is None or before.position_at == now:
                return place
            if at is None or node in moving or not positions.is_usual(at):
                return place
            state = by_name[node] = moved(before, at, now)
            moving[node] = at
            nodes.fixed(node, now)
            changes.append(NodeChanged(node, state, before, place, True))
            for follower in followers:
                if node in follower.followed:
                    follower.moved(node, step)
        return len(inputs)

    def settle_moves(self) -> None:
        """Apply the held moves."""
        if not self._moving:
            return
        moving, self._moving = self._moving, {}
        at = np.array([(each.lat, each.lon) for each in moving.values()]).T.copy()
        self._matcher.move_many(self._matcher.rows(moving), at[0], at[1])

    def patch(self, each: ContextPatched, step: EngineStep) -> None:
        """Patch the attributes of a node."""
        self._rights.check_patch(each.patch)
        state = patched(self._nodes.state_of(each.node), each.patch, step.now)
        if self._most_bytes < LARGEST_ATTRIBUTES_BYTES:
            check_size(state.attributes, self._most_bytes)
        self._set_state(state, step)

    def expire(self, step: EngineStep) -> None:
        """Clear positions older than the time limit.

        It has happened when it was due, whenever the host looks: all hosts tell the same time.
        """
        now = step.now
        for before, due in self._nodes.outdated(now):
            step.now, node = due, before.node
            gone = NodeState(node, attributes=before.attributes, changed_at=before.changed_at)
            self._nodes.by_name[node] = gone
            self._matcher.move(node, None)
            step.node_changed(node, gone, before)
            reclassed = self._rights.changed(before, gone)
            self._tell(NodeUpdate(before, gone, True, reclassed, expired=True), step)
        step.now = now

    def next_timer(self) -> float | None:
        """The time at which the next position expires."""
        return self._nodes.next_expiry()

    def forget(self, node: str, step: EngineStep) -> None:
        """Erase all state of a node."""
        for dependent in self._dependents:
            dependent.node_forgotten(node, step)
        self._drop_state(node, step)

    def drop_node(self, each: NodeExpired, step: EngineStep) -> None:
        """Drop the state of a node that has been gone for long."""
        for dependent in self._dependents:
            dependent.node_expired(each.node, step)
        self._drop_state(each.node, step)

    def _drop_state(self, node: str, step: EngineStep) -> None:
        self._matcher.forget(node)
        self._nodes.silent.pop(node, None)
        gone = self._nodes.by_name.pop(node, None)
        if gone is not None:
            self._rights.changed(gone, NodeState(node))
            step.node_changed(node, None, gone)

    def resume(self, nodes: Iterable[NodeState]) -> None:
        """Restore node states, without deliveries."""
        matcher = self._matcher
        for state in nodes:
            self._nodes.by_name[state.node] = state
            matcher.update(state.node, self._rights.own(state.attributes))
            if state.previous is not None:
                matcher.move(state.node, state.previous)
            if state.position is not None and state.position_at is not None:
                matcher.move(state.node, state.position)
        self._nodes.resumed()
        self._rights.refresh()

    # Places and rights

    def define_place(self, each: PlaceDefined, step: EngineStep) -> None:
        """Define, redefine or remove a named place."""
        places = self._matcher.places
        if each.geometry is None:
            places.remove(each.place_kind, each.name, each.parent)
        else:
            places.add(each.place_kind, each.name, each.geometry, each.parent, each.order)
        self._matcher.refresh_places()
        reclassed = list(self._rights.places_changed(self._nodes.by_name.values()))
        for dependent in self._dependents:
            dependent.places_changed(reclassed, step)

    def set_sight(self, each: SightSet, step: EngineStep) -> None:
        """Set an exception to the visibility rules for one pair of nodes."""
        self._matcher.sight.set_exception(each.viewer, each.other, each.mask)
        for dependent in self._dependents:
            dependent.sight_changed(each.viewer, each.other, step)

    def set_rules(self, each: RulesSet, step: EngineStep) -> None:
        """Replace the visibility rules."""
        self._rights.put(each, self._nodes.by_name.values())
        for dependent in self._dependents:
            dependent.rules_changed(step)

    def resume_places_and_rights(
        self, standing: Sequence[Input], removed: Iterable[PlaceDefined] = ()
    ) -> None:
        """Restore places, then rules, then exceptions, without deliveries.

        `removed` are places that no longer exist, as the rules still know them.
        """
        untold = EngineStep(0.0)
        defined = [value for value in standing if isinstance(value, PlaceDefined)]
        for place in sorted(defined, key=lambda each: each.order):
            self.define_place(place, untold)
        for first in (RulesSet, SightSet):
            for value in standing:
                if isinstance(value, RulesSet) and first is RulesSet:
                    # A place that a rule names may have been removed since.
                    self._rights.put(value, self._nodes.by_name.values(), strictly=False)
                    self._rights.resume_places(removed)
                elif isinstance(value, first):
                    self.handlers[first](value, untold)

    # Effects of changes

    def _is_still(self) -> bool:
        """True if no move can cause a delivery or change a right."""
        rights = self._rights
        if rights.restricts or rights.rules.grants:
            return False
        return all(each.ignores_moves for each in self._dependents)

    def _set_state(self, state: NodeState, step: EngineStep, *, by_move: bool = False) -> None:
        node = state.node
        before = self._nodes.state_of(node)
        self._nodes.by_name[node] = state
        if state.attributes != before.attributes:
            self._matcher.update(node, self._rights.own(state.attributes))
        # A second fix at the same position counts: the node no longer approaches anything.
        fixed = state.position_at != before.position_at or state.position != before.position
        if fixed:
            self._matcher.move(node, state.position)
        # Rights change before dependents are notified.
        reclassed = self._rights.changed(before, state)
        if fixed:
            if reclassed:
                self._matcher.forget_previous(node)
                state = replace(state, previous=None, previous_at=None)
                self._nodes.by_name[node] = state
            if state.position is not None:
                self._nodes.fixed(node, step.now)
        step.node_changed(node, state, before, by_move and not reclassed)
        self._tell(NodeUpdate(before, state, fixed, reclassed), step)

    def _tell(self, update: NodeUpdate, step: EngineStep) -> None:
        for dependent in self._dependents:
            dependent.node_changed(update, step)
