"""A node without a broker: its proximities, and an engine with its own subscriptions (seed D).

What the proximities learn is applied to the engine as inputs: beacons are moves and announcements,
received events are published. The engine alone decides what is delivered, as in a broker.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.engine.engine import Engine
from nearcast.core.engine.outcome import RelationshipNotice
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.model.errors import ModelError
from nearcast.core.model.event import Delivery, Subscription
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.inputs import (
    ContextPatched,
    Input,
    NodeExpired,
    RelationshipDefined,
    RelationshipEnded,
    Subscribed,
    Unsubscribed,
)
from nearcast.core.proximity.discovery.event_type import EventType
from nearcast.core.proximity.discovery.own_names import NodeOf, by_itself
from nearcast.core.proximity.dissemination.send_queue import Send
from nearcast.core.proximity.messages import Message
from nearcast.core.proximity.proximity_node import ProximityNode
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityStep

if TYPE_CHECKING:
    from nearcast.core.model.context import Value


class ProximityOutcome(Struct):
    """What the host carries out: messages, memberships, deliveries to the application."""

    sends: list[Send]
    joins: list[int]
    leaves: list[int]
    deliveries: list[Delivery]
    notices: list[RelationshipNotice] = []


class ProximityEngine:
    """One run of a node."""

    def __init__(
        self,
        name: str,
        settings: ProximitySettings | None = None,
        incarnation: int = 1,
        engine_settings: EngineSettings | None = None,
        node_of: NodeOf = by_itself,
    ) -> None:
        self.proximities = ProximityNode(name, settings, incarnation, node_of)
        self.proximities.hears_itself = False
        self.engine = Engine(engine_settings)
        self.refusals = 0
        """Inputs that the engine refused: events or announcements of others that are not valid."""
        self._reason = ""
        """Why the last of them was refused."""
        self._members: dict[str, tuple[str, ...]] = {}
        """Of each relationship: they are not forgotten, so that they part once."""
        self._introspective: set[str] = set()
        """Subscriptions that this node's own events may concern."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.proximities.name

    @property
    def wake_at(self) -> float:
        """When `elapse` is due; infinite if nothing waits."""
        timer = self.engine.next_timer()
        at = self.proximities.wake_at
        return at if timer is None else min(at, timer)

    def announce(
        self, event_type: EventType, area: Area, now: float, grow_s: float = 0.0
    ) -> ProximityOutcome:
        """Announce a type of events in an area; see `ProximityNode.announce`."""
        return self._apply(self.proximities.announce(event_type, area, now, grow_s), now)

    def unannounce(self, subject: str, now: float) -> ProximityOutcome:
        """End an announcement."""
        return self._apply(self.proximities.unannounce(subject, now), now)

    def raise_event(
        self, subject: str, attributes: Mapping[str, object], now: float,
        at: Position | None = None, *, publisher: str = "", event_id: str = "",
    ) -> tuple[str, ProximityOutcome]:  # fmt: skip
        """Raise an event; see `ProximityNode.raise_event`."""
        name, step = self.proximities.raise_event(
            subject, attributes, now, at=at, publisher=publisher, event_id=event_id
        )
        return name, self._apply(step, now)

    def subscribe(
        self, subscription: Subscription, now: float, within: Area | None = None
    ) -> ProximityOutcome:
        """Subscribe; `within` is the area in which this consumer seeks events itself."""
        refused = self.engine.step((Subscribed(subscription),), now)
        if refused.refusals:
            raise ModelError(refused.refusals[0].reason)
        where = subscription.where
        if not subscription.no_local or (where is not None and where.counted_subjects):
            self._introspective.add(subscription.id)
            self.proximities.hears_itself = True
        steps = [self.proximities.subscribe(subscription.id, subscription.subject, now)]
        if within is not None:
            steps.append(self.proximities.seek(subscription.subject, within, now))
        return self._apply(joined(steps), now, refused.deliveries)

    def unsubscribe(
        self, subscription: Subscription, now: float, seeks: bool = False
    ) -> ProximityOutcome:
        """End a subscription."""
        steps = [self.proximities.unsubscribe(subscription.id, now)]
        if seeks:
            steps.append(self.proximities.end_seek(subscription.subject, now))
        step = joined(steps)
        self._introspective.discard(subscription.id)
        self.proximities.hears_itself = bool(self._introspective)
        step.inputs.append(Unsubscribed(subscription.id))
        return self._apply(step, now)

    def patch_context(self, patch: "dict[str, Value]", now: float) -> ProximityOutcome:
        """Change this node's own context, which its filters read as `me.…`."""
        step = ProximityStep()
        step.inputs.append(ContextPatched(self.name, patch))
        return self._apply(step, now)

    def relate(self, each: RelationshipDefined | RelationshipEnded, now: float) -> ProximityOutcome:
        """Define or end a relationship between nodes; raises `ModelError` if it is not valid.

        Where others are is known from their beacons and events.
        """
        step = ProximityStep()
        step.inputs.append(each)
        refusals = self.refusals
        outcome = self._apply(step, now)
        if self.refusals > refusals:
            raise ModelError(self._reason)
        self._members.pop(each.name, None)
        if isinstance(each, RelationshipDefined):
            self._members[each.name] = each.members
        return outcome

    def move(self, position: Position, now: float) -> ProximityOutcome:
        """Take a fix."""
        return self._apply(self.proximities.move(position, now), now)

    def vanish(self, now: float) -> ProximityOutcome:
        """Tell others that all announcements end, before going on under another name."""
        return self._apply(self.proximities.vanish(now), now)

    def rename(self, alias: str, now: float) -> ProximityOutcome:
        """Be known to others by another name from now on."""
        return self._apply(self.proximities.rename(alias, now), now)

    def receive(self, message: Message, now: float) -> ProximityOutcome:
        """Take a message of another node."""
        return self._apply(self.proximities.receive(message, now), now)

    def elapse(self, now: float) -> ProximityOutcome:
        """Let time pass."""
        timer = self.engine.next_timer()
        step = self.proximities.elapse(now)
        return self._apply(step, now, due=timer is not None and timer <= now)

    def _apply(
        self,
        step: ProximityStep,
        now: float,
        deliveries: list[Delivery] | None = None,
        *,
        due: bool = False,
    ) -> ProximityOutcome:
        found = [] if deliveries is None else deliveries
        notices: list[RelationshipNotice] = []
        if step.inputs or due:
            inputs = step.inputs if not self._members else self._without_members(step.inputs)
            outcome = self.engine.step(inputs, now)
            self.refusals += len(outcome.refusals)
            if outcome.refusals:
                self._reason = outcome.refusals[-1].reason
            found = [*found, *outcome.deliveries]
            notices = [each for each in outcome.notices if isinstance(each, RelationshipNotice)]
        return ProximityOutcome(step.sends, step.joins, step.leaves, found, notices)

    def _without_members(self, inputs: list[Input]) -> list[Input]:
        members = {node for each in self._members.values() for node in each}
        return [
            each for each in inputs if not (isinstance(each, NodeExpired) and each.node in members)
        ]


def joined(steps: list[ProximityStep]) -> ProximityStep:
    """Return several steps as one."""
    found = ProximityStep()
    for step in steps:
        found.sends += step.sends
        found.joins += step.joins
        found.leaves += step.leaves
        found.inputs += step.inputs
    return found
