"""Outcomes: the decisions of the engine, and the step in progress."""

from collections.abc import Callable

from msgspec import Struct

from nearcast.core.engine.books.gathering_book import PoolChange
from nearcast.core.engine.delivery.deliveries import Deliveries
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Delivery, Event
from nearcast.core.model.record import Record


class AreaNotice(Struct, frozen=True):
    """A node entered or left a watched area."""

    area: str
    node: str
    inside: bool
    time: float


class RelationshipNotice(Struct, frozen=True):
    """The state of a relationship, where it may be news to somebody."""

    relationship: str
    members: tuple[str, ...]
    near: bool
    """Whether it is near; one that ended is apart."""
    before: bool | None
    """Whether it was, as readers were told; None: they were told nothing."""
    distance: float | None
    """None if too few members have a position, or if it may be told to few: see `is_old`."""
    time: float
    sight: int
    """What a reader must see of all members."""
    by: str = ""
    """The member by whose metres it is so, if each has its own."""
    defined: bool = False
    """It was defined just now."""
    ended: bool = False
    veiled: bool = False
    """Nobody may be told: it does not follow from what may be seen now."""

    @property
    def is_old(self) -> bool:
        """True if the state is as before, but other nodes may see the members now."""
        return self.near == self.before and not self.defined


class NeedQuestion(Struct, frozen=True):
    """What does a subscription need to get this event? Its function is to say."""

    subscription: str
    event: Event


Notice = AreaNotice | RelationshipNotice


class Refusal(Struct, frozen=True):
    """An input that was not applied."""

    index: int
    reason: str


class NodeChanged(Struct, frozen=True):
    """The state of a node changed; None: it was erased."""

    node: str
    state: NodeState | None
    before: NodeState
    """The previous state."""
    index: int
    """The input that changed it; for an expiry, the input before which it was noticed."""
    by_move: bool = False
    """True if a recorded move alone turned the previous state into this one."""


class LiveChanged(Struct, frozen=True):
    """The live event of a key changed; None: it ended."""

    key: str
    event: Event | None


class Outcome(Struct):
    """Decisions of a step."""

    sent: list[Deliveries] = []
    """Deliveries in order."""
    node_changes: list[NodeChanged] = []
    live_changes: list[LiveChanged] = []
    records: list[Record] = []
    refusals: list[Refusal] = []
    passed_over: list[tuple[Event, str]] = []
    """Live events not replayed to a session at its request: they count as seen."""
    behind: set[str] = set()
    """Sessions to which more live events are brought when the host has room for them."""
    reprioritised: dict[str, None] = {}
    """Sessions whose context or relevance changed: what waits for them has other priorities."""
    warnings: list[tuple[str, str]] = []
    """Ids of subscriptions, each with what its owner should know."""
    notices: list[Notice] = []
    """Entries to and exits from watched areas, and states of relationships, published on subjects
    of the broker's own."""
    waiting_changes: list[PoolChange] = []
    """What changed in what waits for subscriptions that gather."""
    hidden_changes: list[PoolChange] = []
    """What changed in events that wait for a smallest number of people."""
    need_questions: list[NeedQuestion] = []
    """Of which events functions are to say what they need."""
    now: float = 0.0
    """The time of the input that is being applied."""
    index: int = 0
    """The index of the input that is being applied."""
    timer: float | None = None
    """The time at which to step again even without input."""

    @property
    def deliveries(self) -> list[Delivery]:
        """All deliveries, one by one."""
        return [delivery for deliveries in self.sent for delivery in deliveries]


class EngineStep:
    """A step in progress: its current time and input, and its decisions so far."""

    __slots__ = ("event_index", "events", "index", "made", "now", "outcome")

    def __init__(self, now: float) -> None:
        self.now = now
        self.index = 0
        self.outcome = Outcome(now=now)
        self.events: list[Event] = []
        """Events waiting to be matched as one batch."""
        self.made: list[float] = []
        """The time of each of them."""
        self.event_index = 0
        """The input of the last of them."""

    def node_changed(
        self, node: str, state: NodeState | None, before: NodeState, by_move: bool = False
    ) -> None:
        """Record a changed node state, caused by the current input; None: erased."""
        change = NodeChanged(node, state, before, self.index, by_move)
        self.outcome.node_changes.append(change)

    def live_changed(self, key: str, event: Event | None) -> None:
        """Record the new live event of a key; None: it ended."""
        self.outcome.live_changes.append(LiveChanged(key, event))


Handlers = dict[type, Callable[..., None]]
"""The function that applies an input of each kind, in a step."""
