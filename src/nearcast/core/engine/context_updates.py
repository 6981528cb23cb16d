"""Situating, the second step: where nodes are, what is known of them, and who may see it.

Whatever of that changes, whether by a node, by an operator or by time, is in force before anyone
is told; then live events go to those whom they concern only now. A move that cannot bring anyone
anything waits for others, to be made with them.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers, NodeChanged, Outcome
from nearcast.core.model.context import NodeState, moved, patched
from nearcast.core.model.geometry import position as positions
from nearcast.core.model.geometry.area import PlaceArea, PlaceHere
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    Moved,
    PlaceDefined,
    RulesSet,
    SightSet,
)


class ContextUpdates:
    """Keeps the situation true."""

    def __init__(self, state: EngineState) -> None:
        self._matcher = state.matcher
        self._nodes = state.nodes
        self._rights = state.rights
        self._areas = state.areas
        self._live = state.live
        self._subscriptions = state.subscriptions
        self._live_delivery = state.live_delivery
        self._moving: dict[str, Position] = {}
        """Moves that are still to be made, of nodes that have a position."""
        self.handlers: Handlers = {
            Moved: self.move,
            ContextPatched: self.patch,
            PlaceDefined: self.define_place,
            SightSet: self.set_sight,
            RulesSet: self.set_rules,
        }

    # Nodes

    def move(self, each: Moved, step: EngineStep) -> None:
        """A node is somewhere else, or no longer says where."""
        state = self._nodes.state_of(each.node)
        if each.position is None:
            self._set_state(NodeState(each.node, attributes=state.attributes), step)
        else:
            at = positions.checked(each.position)
            self._set_state(moved(state, at, step.now), step, by_move=True)

    def move_later(self, inputs: Sequence[Input], times: Sequence[float], step: EngineStep) -> int:
        """Note moves that bring nobody anything, to be made together; up to which input.

        From that of the step on, as long as they are such moves, at the time of the step.
        """
        moving, now, index = self._moving, step.now, step.index
        if not moving and not self._is_still():
            return index
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
        return len(inputs)

    def settle_moves(self) -> None:
        """Make the moves that were noted."""
        if not self._moving:
            return
        moving, self._moving = self._moving, {}
        rows = self._matcher.rows(moving)
        lat = np.array([each.lat for each in moving.values()])
        lon = np.array([each.lon for each in moving.values()])
        self._matcher.move_many(rows, lat, lon)

    def patch(self, each: ContextPatched, step: EngineStep) -> None:
        """A node's context changed."""
        self._rights.check_patch(each.patch)
        state = patched(self._nodes.state_of(each.node), each.patch, step.now)
        self._set_state(state, step)

    def expire(self, step: EngineStep) -> None:
        """Positions that are too old by now count as none."""
        for before in self._nodes.outdated(step.now):
            node = before.node
            gone = NodeState(node, attributes=before.attributes)
            self._nodes.by_name[node] = gone
            self._matcher.move(node, None)
            self._areas.lost(node)
            step.node_changed(node, gone, before)
            if self._rights.changed(before, gone):
                self._live_delivery.deliver_live(self._live.met_by(node), step.outcome)
                self._come_into_sight(node, step.outcome)

    def forget(self, node: str, step: EngineStep) -> None:
        """Know nothing of a node any more."""
        self._areas.forget(node)
        self._matcher.forget(node)
        gone = self._nodes.by_name.pop(node, None)
        if gone is not None:
            self._rights.changed(gone, NodeState(node))
            step.node_changed(node, None, gone)

    def resume(self, nodes: Iterable[NodeState]) -> None:
        """Know of nodes what another knew, telling nobody."""
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
        """A named place lies elsewhere, or nowhere."""
        places, outcome = self._matcher.places, step.outcome
        if each.geometry is None:
            places.remove(each.place_kind, each.name, each.parent)
        else:
            places.add(each.place_kind, each.name, each.geometry, each.parent, each.order)
        self._matcher.refresh_places()
        outcome.notices.extend(self._areas.places_changed(step.now, self._nodes.by_name))
        deliver_live = self._live_delivery.deliver_live
        for node in self._rights.places_changed(self._nodes.by_name.values()):
            deliver_live(self._live.met_by(node), outcome)
            self._come_into_sight(node, outcome)
        deliver_live(self._live.met_in_named_places(), outcome)
        for subscription in self._subscriptions.by_id.values():
            if isinstance(subscription.from_, PlaceArea | PlaceHere):
                deliver_live(self._live_delivery.met_by_one(subscription.id), outcome)

    def set_sight(self, each: SightSet, step: EngineStep) -> None:
        """One node may see more or less of another than rules say."""
        self._matcher.sight.set_exception(each.viewer, each.other, each.mask)
        self._areas.refresh()
        self._live_delivery.deliver_live(self._live.overtaken_by(each.other), step.outcome)
        self._live_delivery.deliver_live(self._live.met_by(each.viewer), step.outcome)

    def set_rules(self, each: RulesSet, step: EngineStep) -> None:
        """Other rules say who may see what."""
        self._rights.put(each, self._nodes.by_name.values())
        self._areas.refresh()
        self._live_delivery.deliver_live(self._live.met_again(), step.outcome)

    def resume_places_and_rights(self, standing: Sequence[Input]) -> None:
        """Put up the places and rights of another, telling nobody: first where, then who."""
        untold = EngineStep(0.0)
        defined = [value for value in standing if isinstance(value, PlaceDefined)]
        for place in sorted(defined, key=lambda each: each.order):
            self.define_place(place, untold)
        for first in (RulesSet, SightSet):
            for value in standing:
                if isinstance(value, RulesSet) and first is RulesSet:
                    # A place that they name may be gone since then.
                    self._rights.put(value, self._nodes.by_name.values(), strictly=False)
                elif isinstance(value, first):
                    self.handlers[first](value, untold)

    # What a change brings

    def _is_still(self) -> bool:
        """Whether there is nothing that a move could bring to anyone, or change for anyone."""
        rights = self._rights
        return not (
            len(self._matcher.live) or len(self._areas) or rights.restricts or rights.rules.grants
        )

    def _set_state(self, state: NodeState, step: EngineStep, *, by_move: bool = False) -> None:
        node, outcome, deliver_live = state.node, step.outcome, self._live_delivery.deliver_live
        before = self._nodes.state_of(node)
        self._nodes.by_name[node] = state
        if state.attributes != before.attributes:
            self._matcher.update(node, self._rights.own(state.attributes))
        # Two fixes at one place are two fixes: it no longer approaches anything.
        fixed = state.position_at != before.position_at or state.position != before.position
        if fixed:
            self._matcher.move(node, state.position)
        # Before anyone is told of it.
        reclassed = self._rights.changed(before, state)
        if fixed:
            if reclassed:
                self._matcher.forget_previous(node)
                state = replace(state, previous=None, previous_at=None)
                self._nodes.by_name[node] = state
            if state.position is not None:
                self._nodes.fixed(node, step.now)
                first = before.position is None
                seen = self._areas.moved(node, first, step.now, self._nodes.by_name)
                outcome.notices.extend(seen)
            else:
                self._areas.lost(node)
            deliver_live(self._live.overtaken_by(node), outcome)
            self._live_delivery.deliver_to_followers(node, outcome)
        elif state.attributes != before.attributes:
            outcome.notices.extend(self._areas.changed(node, step.now))
        step.node_changed(node, state, before, by_move and not reclassed)
        aimed = () if reclassed else self._subscriptions.aimed
        deliver_live(self._live.met_by(node, aimed=aimed), outcome)
        if reclassed:
            self._come_into_sight(node, outcome)

    def _come_into_sight(self, node: str, outcome: Outcome) -> None:
        self._areas.refresh()
        self._live_delivery.deliver_live(self._live.met_through(node), outcome)
        self._live_delivery.deliver_to_followers(node, outcome)
