"""Inputs: everything that can happen to the core, in the order in which it is applied.

These are what the event log records, and what decides is only what came before in it. Each is
a plain value with a kind; how it is written down, kept and erased follows from its fields and from
its `InputForm`.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.model.context import Value
from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.geometry.area import Area, FixedArea
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.input_form import InputForm
from nearcast.core.model.sight_rule import SightRule
from nearcast.core.model.visibility import SEE_ALL

if TYPE_CHECKING:
    from nearcast.core.language import Filter


@InputForm(part="event")
class Published(Struct, frozen=True, tag_field="kind", tag="event"):
    """A node raised an event; without `at_given` its position is the publisher's own."""

    event: Event


@InputForm(node="node", position="position")
class Moved(Struct, frozen=True, tag_field="kind", tag="position"):
    """A node is somewhere else; None: it no longer says where."""

    node: str
    position: Position | None


@InputForm(node="node", renamed=(), member_names=True)
class ContextPatched(Struct, frozen=True, tag_field="kind", tag="context"):
    """A node's context changed by a merge patch; a `position` in it is a fix."""

    node: str
    patch: dict[str, Value]


@InputForm(
    part="subscription", node="subscription.node", subject="subscription.subject",
    names={"from_": "from"}, renamed=("id",),
)  # fmt: skip
class Subscribed(Struct, frozen=True, tag_field="kind", tag="subscription"):
    """A node wants something; instead of what it wanted under the same id.

    With `replay` it gets retained events that match even if it has seen them before; without,
    it gets none of them now. With `more` others follow that it wants along with this one: what is
    live comes after the last of them, by all that it fits.
    """

    subscription: Subscription
    replay: bool = True
    more: bool = False


@InputForm()
class Unsubscribed(Struct, frozen=True, tag_field="kind", tag="unsubscription"):
    """A node no longer wants something."""

    id: str


@InputForm(
    part="announcement", node="announcement.node", subject="announcement.subject",
    space="announcements", key=("announcement.node", "announcement.subject"),
    renamed=(), own_subject=True,
)  # fmt: skip
class Announced(Struct, frozen=True, tag_field="kind", tag="announcement"):
    """A standing target for a node's events on a subject."""

    announcement: Announcement


@InputForm(
    node="node", subject="subject", space="announcements", key=("node", "subject"), ends=True
)
class Unannounced(Struct, frozen=True, tag_field="kind", tag="unannouncement"):
    """The end of a standing target."""

    node: str
    subject: str


@InputForm(
    names={"place_kind": "kind"}, data=("parent",),
    space="places", key=("place_kind", "name"), ends_without="geometry",
)  # fmt: skip
class PlaceDefined(Struct, frozen=True, tag_field="kind", tag="place"):
    """A place has a name, or another geometry than before; None: it has none any more.

    Of places that have a name in common it means the one with the lowest `order`; 0: one that is
    new comes after all others.
    """

    place_kind: str
    name: str
    geometry: FixedArea | None
    parent: str | None = None
    order: int = 0


@InputForm(node="viewer")
class SightSet(Struct, frozen=True, tag_field="kind", tag="rule"):
    """What one node may see of another; None: as everyone."""

    viewer: str
    other: str
    mask: int | None


@InputForm(complete=True, space="rights", renamed=(), member_names=True)
class RulesSet(Struct, frozen=True, tag_field="kind", tag="rules"):
    """Who may see what of whom, instead of the rules before; the first that fits decides.

    `grants` are attributes that nodes have by rule, by patterns of their ids. These, `protected`
    ones and those that rules ask of viewers cannot be set by nodes, unless they are `settable`.
    """

    rules: tuple[SightRule, ...] = ()
    grants: dict[str, dict[str, Value]] = {}
    protected: tuple[str, ...] = ("rank",)
    settable: tuple[str, ...] = ()
    default: int = SEE_ALL


@InputForm(node="node")
class Presence(Struct, frozen=True, tag_field="kind", tag="presence"):
    """A session has a connection, or has lost it; the session stays."""

    node: str
    here: bool
    session: str = ""


@InputForm(node="node")
class Undelivered(Struct, frozen=True, tag_field="kind", tag="undelivered"):
    """A session did not get live events that were for it: too much waited for it.

    By their keys, and the ids of the versions.
    """

    node: str
    live: tuple[tuple[str, str], ...]
    session: str = ""


@InputForm(node="node")
class QueueDrained(Struct, frozen=True, tag_field="kind", tag="drained"):
    """There is room again for what a session did not get."""

    node: str
    session: str = ""


@InputForm(node="node")
class Left(Struct, frozen=True, tag_field="kind", tag="session"):
    """A session has ended, and its subscriptions and announcements with it."""

    node: str
    session: str = ""


@InputForm(node="node")
class Forgot(Struct, frozen=True, tag_field="kind", tag="forgotten"):
    """All that is known of a node is to be forgotten, and what it announced and keeps alive."""

    node: str


@InputForm(node="node", space="areas", key=("name",), renamed=("name",))
class AreaWatched(Struct, frozen=True, tag_field="kind", tag="area"):
    """A node wants to know who comes into an area and who goes out of it.

    `where` is about the nodes: bare names are attributes of their contexts.
    """

    name: str
    node: str
    area: Area
    where: "Filter | None" = None


@InputForm(space="areas", key=("name",), ends=True)
class AreaUnwatched(Struct, frozen=True, tag_field="kind", tag="unwatched"):
    """Nobody wants to know that any more."""

    name: str


@InputForm(complete=True, also={"kind": "restart"}, sessions="sessions")
class Restarted(Struct, frozen=True, tag_field="kind", tag="restart"):
    """A broker began anew, with these sessions, all of them away; the others are gone.

    What was not kept is gone too: whose turn it is, what sessions were to get. It also says what
    an operator chose, as far as decisions depend on it.
    """

    sessions: tuple[str, ...] = ()
    position_ttl_s: float = 600.0
    recent_s: float = 300.0
    elsewhere: tuple[tuple[str, bool], ...] = ()
    """Patterns of subjects, and whether events on them are left to the pipeline."""
    deliveries: bool = False
    """From here on it is recorded to whom events go."""
    keeps_recent: bool = False
    """Recent events were read back from the log, and count; earlier releases forgot them."""
    shared_objects: tuple[str, ...] = ()
    """Patterns of subjects whose objects have one key whoever publishes."""


Input = (
    Published
    | Moved
    | ContextPatched
    | Subscribed
    | Unsubscribed
    | Announced
    | Unannounced
    | PlaceDefined
    | SightSet
    | RulesSet
    | Presence
    | Undelivered
    | QueueDrained
    | Left
    | Forgot
    | AreaWatched
    | AreaUnwatched
    | Restarted
)
