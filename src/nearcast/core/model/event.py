"""Events, subscriptions, announcements and deliveries: the nouns that pass through the six steps.

Plain values, validated where they come in. An event's target area and an announcement's area say
who may receive (seed D's proximities); a subscription says who wants to (subject, filter, area of
the publisher), how much (seed C's relevance) and how soon (seed E's aggregability). Times are
seconds since 1970, UTC.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.model.context import Attributes
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.subject_permissions import SubjectPermissions

if TYPE_CHECKING:
    from nearcast.core.language import Filter


class Event(Struct, frozen=True):
    """Something that a node published."""

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
    # The key that a later version of the same thing replaces (`nc-object`).
    object: str | None = None
    retain: bool = False
    priority: int | None = None
    deadline_s: float | None = None
    payload: bytes = b""
    qos: int = 0
    # The session that published it, where a node has several; else it is the node's own.
    session: str = ""
    # The publisher's clock was ahead: the time is that of ingest.
    clock_off: bool = False
    # Nodes that it tells of, by name and place: only who may see all of them gets it.
    about: tuple[str, ...] = ()
    # Where the node was at ingest with which its target moves.
    target_at: Position | None = None
    # The other properties of its message, encoded as in a PUBLISH of MQTT 5.
    headers: bytes = b""
    # When copies that still wait are of no use any more.
    expires_at: float | None = None
    # The topic of its message, where that is spelt otherwise than the subject.
    topic: str = ""

    @property
    def origin(self) -> str:
        """The session that published it."""
        return self.session or self.publisher

    @property
    def stays(self) -> bool:
        """Whether it is there for those who come later, or ends what is."""
        return self.retain or self.valid_s is not None or self.object is not None


class Subscription(Struct, frozen=True, gc=False):
    """What a node wants to receive."""

    id: str
    node: str
    subject: str
    where: "Filter | None" = None
    from_: Area | None = None
    # Filters that decide the priority, the best first (seed C's prioritised subscriptions).
    levels: "tuple[Filter, ...]" = ()
    relevance: object | None = None
    aggregate: object | None = None
    detail: object | None = None
    qos: int = 0
    no_local: bool = False
    # The session that it belongs to, where a node has several; else it is the node's own.
    session: str = ""
    # Of those that share a group and a subject pattern, one gets each event.
    group: str | None = None
    # What is delivered tells of its event: who published it, where, when.
    meta: bool = False
    # The subjects whose events its filter may count; None: all of them.
    countable: SubjectPermissions | None = None

    @property
    def owner(self) -> str:
        """The session that it belongs to."""
        return self.session or self.node

    @property
    def key(self) -> str:
        """What identifies it within its session."""
        return self.id.partition("\0")[2]

    @property
    def plain(self) -> bool:
        """Whether an event's subject alone decides that it fits."""
        return (
            self.where is None
            and self.from_ is None
            and not self.levels
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
    # The session that it ends with, where a node has several.
    session: str = ""

    @property
    def owner(self) -> str:
        """The session that it ends with."""
        return self.session or self.node


class Delivery(Struct, frozen=True):
    """An event on its way to a session: one copy, however many of its subscriptions it fits.

    Priorities go from 1, the most urgent, upwards; it is the best of all that fit. What comes
    by a shared subscription is a copy of its own.
    """

    event: Event
    node: str
    subscriptions: tuple[str, ...]
    priority: int = 1
    session: str = ""
    # It was there before: the session came to match it by subscribing, moving or the like.
    replayed: bool = False

    @property
    def owner(self) -> str:
        """The session that it goes to."""
        return self.session or self.node
