"""A script that is in force: its state, its session, and what it reads."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nearcast.broker.auth import AuthRefusal
from nearcast.broker.scripts.placed_script import EMPTY_STATE, PlacedScript
from nearcast.broker.scripts.script_event import script_event
from nearcast.broker.scripts.script_subscriptions import judged_subscriptions
from nearcast.broker.scripts.sender_sight import SenderSight
from nearcast.broker.sessions.outbound_message import OutboundMessage, QueuedDelivery
from nearcast.broker.sessions.session import Session
from nearcast.broker.situation.topic_names import INTERNAL
from nearcast.core.matching.reference import WorldView
from nearcast.core.model.event import Event, Subscription
from nearcast.core.model.visibility import SEE_ALL
from nearcast.placement.limits import CHAIN_EVENTS
from nearcast.wire.mqtt import PublishFrame

if TYPE_CHECKING:
    from nearcast.broker.scripts.script_runner import RunningBatch

_HOPS = "hops"
EXECUTE = f"{INTERNAL}execute"
"""The topic of what is queued for `run`."""


class HostedScript:
    """A script, read by the runner; the reader of its session."""

    __slots__ = (
        "_foreign",
        "_on_ended",
        "_on_queued",
        "_recall",
        "_tell",
        "_world",
        "batch",
        "failures",
        "held",
        "is_careful",
        "placed",
        "session",
        "state",
    )  # fmt: skip

    def __init__(
        self,
        placed: PlacedScript,
        session: Session,
        world: WorldView,
        on_queued: Callable[["HostedScript"], None],
        recall: Callable[["HostedScript"], AuthRefusal | None],
        on_ended: Callable[["HostedScript"], None],
        tell: Callable[["HostedScript", str], None],
    ) -> None:
        self.placed = placed
        self.session = session
        self.state = EMPTY_STATE
        """A JSON object."""
        self.failures = 0
        """Failed calls since the last that did not fail."""
        self.held: deque[QueuedDelivery] = deque()
        """Taken from the queue of its session, and not read yet."""
        self.batch: RunningBatch | None = None
        """The calls that are being made."""
        self.is_careful = False
        """Its calls are made one at a time, since it broke a worker."""
        self._world = world
        self._foreign: tuple[str, SenderSight, Sequence[Subscription]] | None = None
        """If it is at another's node: by what events are judged, for its version."""
        self._on_queued = on_queued
        self._recall = recall
        self._on_ended = on_ended
        self._tell = tell
        session.reader = self

    @property
    def payer(self) -> str:
        """The session that sent it is charged for it."""
        return self.placed.sender

    def delivery(
        self, event: Event, message: OutboundMessage, priority: int
    ) -> QueuedDelivery | None:
        """Return an event as it is queued for it; None if it is stopped, or a chain ends here."""
        placed = self.placed
        if placed.problem or event.script_hops >= CHAIN_EVENTS:
            return None
        if placed.is_foreign and not self._may_get(event):
            return None
        sees = SEE_ALL
        if event.publisher:
            sees = self._world.may_see(placed.sender_node, event.publisher)
        hops = ((_HOPS, str(event.script_hops)),) if event.script_hops else ()
        qos = max((each.wanted.qos for each in self.session.granted.values()), default=0)
        return QueuedDelivery(
            _for_scripts(message, event, sees), min(qos, event.qos), metadata=hops,
            priority=max(1, priority),
        )  # fmt: skip

    def _may_get(self, event: Event) -> bool:
        """Whether the sender, where the host is, might get an event."""
        placed = self.placed
        if self._foreign is None or self._foreign[0] != placed.version:
            sight = SenderSight(self._world, placed.node, placed.sender_node)
            self._foreign = placed.version, sight, judged_subscriptions(placed)
        _, sight, wanted = self._foreign
        return sight.may_get(event, wanted)

    def execution(self, args: bytes) -> QueuedDelivery:
        """Return a call of `run` as it is queued."""
        return QueuedDelivery(OutboundMessage(PublishFrame(EXECUTE, args)), 1)

    def note_queued(self) -> None:
        """Let it be run."""
        self._on_queued(self)

    def recall(self) -> AuthRefusal | None:
        """Set the permissions of its session anew; return why it must end."""
        return self._recall(self)

    def tell(self, why: str) -> None:
        """Tell its sender something."""
        self._tell(self, why)

    def session_ended(self) -> None:
        """It ends with its session."""
        self._on_ended(self)


def _for_scripts(message: OutboundMessage, event: Event, sees: int) -> OutboundMessage:
    """Return the message of an event as scripts read it: one for all that may see as much."""
    forms = message.for_scripts
    if forms is None:
        forms = message.for_scripts = {}
    form = forms.get(sees)
    if form is None:
        frame = PublishFrame(event.subject, script_event(event, sees))
        form = forms[sees] = OutboundMessage(frame, event.publisher, event.expires_at)
    return form


def hops_of(delivery: QueuedDelivery) -> int:
    """How many events of scripts led to a queued one, itself included."""
    return int(dict(delivery.metadata).get(_HOPS, "0"))
