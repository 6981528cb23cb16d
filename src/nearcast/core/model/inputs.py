"""Inputs: everything that can happen to the core, in the order of application.

The event log records them, and decisions depend only on earlier inputs. Each is a plain value with
a kind; how it is recorded, kept and erased follows from its fields and its `InputForm`.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from nearcast.core.model.context import Value
from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.geometry.area import Area, FixedArea
from nearcast.core.model.geometry.position import Position
from nearcast.core.model.input_form import InputForm
from nearcast.core.model.region_record import RegionRecord
from nearcast.core.model.relationship_state import RelationshipState
from nearcast.core.model.sight_rule import SightRule
from nearcast.core.model.visibility import SEE_ALL, SEE_WHERE_NAMED

if TYPE_CHECKING:
    from nearcast.core.language import Filter


@InputForm(part="event")
class Published(Struct, frozen=True, tag_field="kind", tag="event"):
    """A node published an event; without `at_given` its position is the publisher's own."""

    event: Event


@InputForm(node="node", position="position")
class Moved(Struct, frozen=True, tag_field="kind", tag="position"):
    """A node reported its position; None: it has none any more."""

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
    """A node subscribed; replaces its subscription with the same id.

    With `replay` it gets matching retained events even if it has seen them; without, it gets none
    of them now. With `more`, further subscriptions of the same request follow: live events are
    delivered after the last of them, once for all that match.
    """

    subscription: Subscription
    replay: bool = True
    more: bool = False


@InputForm()
class Unsubscribed(Struct, frozen=True, tag_field="kind", tag="unsubscription"):
    """A subscription ended."""

    id: str


@InputForm()
class Suspended(Struct, frozen=True, tag_field="kind", tag="suspension"):
    """A subscription matches nothing until it is resumed, replaced or its broker restarts."""

    id: str


@InputForm()
class Resumed(Struct, frozen=True, tag_field="kind", tag="resumption"):
    """A suspended subscription matches again; it gets the live events that it has not seen."""

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
    """The end of an announcement."""

    node: str
    subject: str


@InputForm(
    names={"place_kind": "kind"}, data=("parent",),
    space="places", key=("place_kind", "name"), ends_without="geometry",
)  # fmt: skip
class PlaceDefined(Struct, frozen=True, tag_field="kind", tag="place"):
    """A place was defined or redefined; None: it was removed.

    Among places with the same name, the one with the lowest `order` is meant; 0: a new place comes
    after all others.
    """

    place_kind: str
    name: str
    geometry: FixedArea | None
    parent: str | None = None
    order: int = 0


@InputForm(
    names={"policy_kind": "kind"},
    space="policies", key=("policy_kind", "name"), ends_without="document",
)  # fmt: skip
class PolicySet(Struct, frozen=True, tag_field="kind", tag="policy"):
    """A policy of adaptation was set, as the text of its document; None: it was removed."""

    policy_kind: str
    name: str
    document: str | None


@InputForm(node="viewer")
class SightSet(Struct, frozen=True, tag_field="kind", tag="rule"):
    """A visibility exception for one pair of nodes; None: removed."""

    viewer: str
    other: str
    mask: int | None


@InputForm(complete=True, space="rights", renamed=(), member_names=True)
class RulesSet(Struct, frozen=True, tag_field="kind", tag="rules"):
    """The visibility rules, replacing earlier ones; the first that matches decides.

    `grants` are attributes that nodes have by rule, by patterns of their ids. These, `protected`
    ones and those that rules require of viewers cannot be set by nodes, unless they are `settable`.
    """

    rules: tuple[SightRule, ...] = ()
    grants: dict[str, dict[str, Value]] = {}
    protected: tuple[str, ...] = ("rank",)
    settable: tuple[str, ...] = ()
    default: int = SEE_ALL


@InputForm(node="node")
class Presence(Struct, frozen=True, tag_field="kind", tag="presence"):
    """A session has a connection, or lost it; the session itself continues."""

    node: str
    here: bool
    session: str = ""


@InputForm(node="node")
class Undelivered(Struct, frozen=True, tag_field="kind", tag="undelivered"):
    """Live events did not reach a session because its queue was full.

    Given by their keys, and the ids of the versions.
    """

    node: str
    live: tuple[tuple[str, str], ...]
    session: str = ""


@InputForm(node="node")
class QueueDrained(Struct, frozen=True, tag_field="kind", tag="drained"):
    """The queue of a session has room again for what it missed."""

    node: str
    session: str = ""


@InputForm(
    node="node", space="links", key=("node", "session", "module"), ends_without="context_class"
)
class Classified(Struct, frozen=True, tag_field="kind", tag="link"):
    """A module of awareness classified the link of a session; None: it has no class any more.

    With `attribute`, which only snapshots have, it is the class of an attribute of the node.
    """

    node: str
    module: str
    context_class: int | None
    session: str = ""
    attribute: bool = False


@InputForm(node="node")
class Left(Struct, frozen=True, tag_field="kind", tag="session"):
    """A session ended, with its subscriptions and announcements."""

    node: str
    session: str = ""


@InputForm(node="node")
class LiveForgotten(Struct, frozen=True, tag_field="kind", tag="live_forgotten"):
    """The oldest live events of a node that is about to be erased end: so many of them."""

    node: str
    most: int


@InputForm(node="node")
class Forgot(Struct, frozen=True, tag_field="kind", tag="forgotten"):
    """A node is to be erased, with its announcements and live events."""

    node: str


@InputForm(node="node")
class NodeExpired(Struct, frozen=True, tag_field="kind", tag="expired"):
    """What is known of a node is dropped: it has been gone for long.

    Its live events and the events that count stay.
    """

    node: str


@InputForm(node="node", space="areas", key=("name",), renamed=("name",))
class AreaWatched(Struct, frozen=True, tag_field="kind", tag="area"):
    """A node watches an area for entries and exits.

    `where` is about the nodes: bare names are attributes of their contexts.
    """

    name: str
    node: str
    area: Area
    where: "Filter | None" = None


@InputForm(space="areas", key=("name",), ends=True)
class AreaUnwatched(Struct, frozen=True, tag_field="kind", tag="unwatched"):
    """An area is no longer watched."""

    name: str


@InputForm(node="node", space="relationships", key=("name",))
class RelationshipDefined(Struct, frozen=True, tag_field="kind", tag="relationship"):
    """A node defined a named relationship between nodes, replacing the one of that name.

    It is near while `need` members, every two of them, are `within` metres of each other; or apart
    while they are `beyond` that. With `metres` each member has a state by its own metres.
    """

    name: str
    node: str
    members: tuple[str, ...]
    need: int
    within: float | None = None
    beyond: float | None = None
    metres: tuple[float, ...] = ()
    """The metres of each member, in their order."""
    of: str | None = None
    """The dotted name of a number in contexts, compared in place of positions."""
    where: "Filter | None" = None
    """A condition on a member's attributes; a member that does not meet it has no position."""
    states: tuple[RelationshipState, ...] = ()
    """Only in the store and in snapshots: the state, or that of each member with `metres`."""

    @property
    def reads_attributes(self) -> bool:
        """True if it depends on the attributes of members."""
        return self.of is not None or self.where is not None

    @property
    def needed_sight(self) -> int:
        """What whoever is told of it must see of all members."""
        return SEE_ALL if self.reads_attributes else SEE_WHERE_NAMED


@InputForm(space="relationships", key=("name",), ends=True)
class RelationshipEnded(Struct, frozen=True, tag_field="kind", tag="relationship_end"):
    """A relationship is no longer kept."""

    name: str


@InputForm()
class RelationshipSilenced(Struct, frozen=True, tag_field="kind", tag="relationship_silence"):
    """Members of a relationship keep silent inside regions, or do so no more.

    While they do, it is judged when their reports are settled, not when one of them moves.
    """

    name: str
    silent: bool


@InputForm()
class RelationshipSettled(Struct, frozen=True, tag_field="kind", tag="relationship_settled"):
    """What the members of a silent relationship reported last holds for all of them together."""

    name: str
    regions: tuple[RegionRecord, ...] = ()
    """Where members keep silent, if that has changed; for explanations alone."""


@InputForm(node="node", space="silence", key=("node", "session"), ends_unless="silent")
class SilenceTold(Struct, frozen=True, tag_field="kind", tag="silence"):
    """A session of a node reports its position only when it leaves a region, or does so no more.

    While one does, and has its connection, the position of the node does not age.
    """

    node: str
    silent: bool
    session: str = ""


@InputForm(complete=True, also={"kind": "restart"}, sessions="sessions")
class Restarted(Struct, frozen=True, tag_field="kind", tag="restart"):
    """A broker restarted with these sessions, all without connection; other sessions ended.

    State that was not kept is lost: turns of shared groups, queued messages. It also records the
    settings on which decisions depend.
    """

    sessions: tuple[str, ...] = ()
    position_ttl_s: float = 600.0
    recent_s: float = 300.0
    elsewhere: tuple[tuple[str, bool], ...] = ()
    """Subject patterns, each with whether its events are left to the pipeline."""
    deliveries: bool = False
    """From here on the recipients of events are recorded."""
    keeps_recent: bool = False
    """True if recent events were read back from the log and count; earlier releases dropped them.
    """
    shared_objects: tuple[str, ...] = ()
    """Subject patterns whose objects have one key for all publishers."""
    live_at_once: int = 0
    """So many live events are brought to a session by one input; 0: any."""
    levels: int = 3
    """Levels of relevance, classes of context and priorities."""
    replays_go_on: bool = False
    """True if sessions get what is left of a replay that the restart interrupted."""


@InputForm(node="node")
class NeedTold(Struct, frozen=True, tag_field="kind", tag="need"):
    """What the function of a subscription said of an event that waits; empty: it failed."""

    node: str
    """The node of the subscription."""
    subscription: str
    publisher: str
    event: str
    need: str


class TimePassed(Struct, frozen=True):
    """Nothing but time passed: what was due by then has happened. It decides nothing itself."""


Input = (
    Published
    | Moved
    | ContextPatched
    | Subscribed
    | Unsubscribed
    | Suspended
    | Resumed
    | Announced
    | Unannounced
    | PlaceDefined
    | PolicySet
    | SightSet
    | RulesSet
    | Presence
    | Undelivered
    | QueueDrained
    | Classified
    | Left
    | LiveForgotten
    | Forgot
    | NodeExpired
    | AreaWatched
    | AreaUnwatched
    | RelationshipDefined
    | RelationshipEnded
    | RelationshipSilenced
    | RelationshipSettled
    | SilenceTold
    | Restarted
    | NeedTold
)
