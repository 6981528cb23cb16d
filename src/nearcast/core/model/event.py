"""Events, subscriptions, announcements and deliveries: the values that pass through the six steps.

Plain values, validated at input. An event's target area and an announcement's area define who may
receive (seed D's proximities); a subscription defines who wants to (subject, filter, area of the
publisher), how much (seed C's relevance) and how soon (seed E's aggregability). Times are seconds
since 1970, UTC.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.model.context import Attributes
from nearcast.core.model.errors import ModelError
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.subject_permissions import SubjectPermissions

if TYPE_CHECKING:
    from nearcast.core.language import Filter


class Event(Struct, frozen=True, gc=False):
    """An event published by a node."""

    id: str
    subject: str
    publisher: str
    time: float
    attributes: Attributes = {}
    position: Position | None = None
    # The position was given with the event (`nc-at`), not taken from the publisher's context.
    at_given: bool = False
    to: Area | None = None
    valid_s: float | None = None
    # The key under which a later version replaces it (`nc-object`).
    object: str | None = None
    retain: bool = False
    priority: int | None = None
    deadline_s: float | None = None
    payload: bytes = b""
    qos: int = 0
    # The session that published it, if its node has several; empty: the node's own.
    session: str = ""
    # The publisher's clock was ahead: the time is that of ingest.
    clock_off: bool = False
    # Nodes it reveals, by name and position: delivered only to nodes that may see all of them.
    about: tuple[str, ...] = ()
    # The position at ingest of the node that its target moves with.
    target_at: Position | None = None
    # The other properties of its message, encoded as in an MQTT 5 PUBLISH.
    headers: bytes = b""
    # The time after which queued copies are dropped.
    expires_at: float | None = None
    # The topic of its message, if spelt differently from the subject.
    topic: str = ""
    # Its priority may raise the one that relevance gives it, not only lower it.
    raises: bool = False
    # How many events of scripts led to it, itself included; 0: no script published it.
    script_hops: int = 0
    # How many events are gathered in its payload; 0: it is not an aggregate.
    gathered: int = 0
    # The smallest number of people of whom anybody may hear together; 0: it is seen by itself.
    people: int = 0
    # How events with a smallest number of people are divided, and when they go out.
    base_set: str = ""
    # The user that published it, where there are users, or the bridge that it came over; empty: its
    # node counts as a person.
    person: str = ""
    # The people of a base set; these are never told.
    persons: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The session that published it."""
        return self.session or self.publisher

    @property
    def stays(self) -> bool:
        """True if it is kept as a live event, or ends one."""
        return self.retain or self.valid_s is not None or self.object is not None


class Relevance(Struct, frozen=True, gc=False):
    """How much each atom of a subscription's filter matters to its subscriber (seed C)."""

    # By atom, in the order in which they are written: 0 leaves it out, the highest matters most.
    # Without a filter there is one level for the whole subscription.
    levels: tuple[int, ...]
    # The template whose roles give the levels, if they follow the subscriber's role and task.
    template: str = ""


class Subscription(Struct, frozen=True, gc=False):
    """A node's request for events.

    Relevance that does not fit the filter raises `ModelError`.
    """

    id: str
    node: str
    subject: str
    where: "Filter | None" = None
    from_: Area | None = None
    relevance: Relevance | None = None
    aggregate: object | None = None
    detail: object | None = None
    qos: int = 0
    no_local: bool = False
    # The session that it belongs to, if its node has several; empty: the node's own.
    session: str = ""
    # Among subscriptions with the same group and subject pattern, one gets each event.
    group: str | None = None
    # Deliveries include metadata of the event: publisher, position, time.
    meta: bool = False
    # The subjects that its filter may count; None: all of them.
    countable: SubjectPermissions | None = None

    def __post_init__(self) -> None:
        if self.relevance is not None:
            self._check_relevance(self.relevance.levels)

    def _check_relevance(self, levels: tuple[int, ...]) -> None:
        atoms = 1 if self.where is None else len(self.where.atoms)
        if len(levels) != atoms:
            raise ModelError(
                f"The relevance of subscription {self.id!r} has {len(levels)} levels; it needs "
                f"{atoms}, one for each atom of its filter."
            )
        if min(levels) < 0:
            raise ModelError(
                f"The relevance of subscription {self.id!r} has a level of {min(levels)}; the "
                "lowest is 0, which leaves an atom out."
            )

    @property
    def owner(self) -> str:
        """The session that it belongs to."""
        return self.session or self.node

    @property
    def plain(self) -> bool:
        """True if an event's subject alone decides whether it matches."""
        return (
            self.where is None
            and self.from_ is None
            and self.relevance is None
            and self.aggregate is None
            and self.detail is None
            and self.group is None
            and not self.meta
        )


class Announcement(Struct, frozen=True):
    """A standing target area for the events that a node publishes on a subject."""

    node: str
    subject: str
    to: Area
    # The session that it ends with, if its node has several.
    session: str = ""

    @property
    def owner(self) -> str:
        """The session that it ends with."""
        return self.session or self.node


class Delivery(Struct, frozen=True):
    """One copy of an event for a session, however many of its subscriptions match.

    Priorities count from 1, the most urgent; a copy has the best of all that match. A shared
    subscription makes a copy of its own.
    """

    event: Event
    node: str
    subscriptions: tuple[str, ...]
    priority: int = 1
    session: str = ""
    # The event was live before: the session matched it by subscribing, moving or the like.
    replayed: bool = False

    @property
    def owner(self) -> str:
        """The session that it is for."""
        return self.session or self.node
