"""Outcomes: what the engine decided, and the step that is deciding it."""

from collections.abc import Callable

from msgspec import Struct

from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.record import Record


class AreaNotice(Struct, frozen=True):
    """A node came into a watched area, or went out of it."""

    area: str
    node: str
    inside: bool
    time: float


class Refusal(Struct, frozen=True):
    """An input that was not applied."""

    index: int
    reason: str


class NodeChanged(Struct, frozen=True):
    """Something else is known of a node; None: nothing any more."""

    node: str
    state: NodeState | None
    before: NodeState
    """What was known of it."""
    index: int
    """The input that changed it; if time did, the one before which it was noticed."""
    by_move: bool = False
    """A move that is recorded, and nothing else, made it out of what was known before."""


class LiveChanged(Struct, frozen=True):
    """Another event is live under a key; None: none any more."""

    key: str
    event: Event | None


class Outcome(Struct):
    """What a step decided."""

    sent: list[Deliveries] = []
    """What goes out, in order."""
    node_changes: list[NodeChanged] = []
    live_changes: list[LiveChanged] = []
    records: list[Record] = []
    refusals: list[Refusal] = []
    passed_over: list[tuple[Event, str]] = []
    """Live events that a session does not want now: it is as if it had seen them."""
    notices: list[AreaNotice] = []
    """What is told of nodes to who asked for it, by subjects of the broker's own."""
    timer: float | None = None
    """When to step again even if nothing arrives."""

    @property
    def deliveries(self) -> list[Delivery]:
        """What goes out, one by one."""
        return [delivery for deliveries in self.sent for delivery in deliveries]


class EngineStep:
    """A step that is being made: at which time and input it is, and what it decided so far."""

    __slots__ = ("events", "index", "made", "now", "outcome")

    def __init__(self, now: float) -> None:
        self.now = now
        self.index = 0
        self.outcome = Outcome()
        self.events: list[Event] = []
        """Events that wait to be decided on as one batch."""
        self.made: list[float] = []
        """When each of them was made."""

    def node_changed(
        self, node: str, state: NodeState | None, before: NodeState, by_move: bool = False
    ) -> None:
        """Something else is known of a node by the present input; None: nothing any more."""
        change = NodeChanged(node, state, before, self.index, by_move)
        self.outcome.node_changes.append(change)

    def live_changed(self, key: str, event: Event | None) -> None:
        """Another event is live under a key; None: none any more."""
        self.outcome.live_changes.append(LiveChanged(key, event))


Handlers = dict[type, Callable[..., None]]
"""What applies an input of each kind, in a step."""
