"""What hosts ask of an engine: what is in force, what it knows of nodes, why it decided as it did.

Nothing here changes a later decision.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from nearcast.core.adaptation.awareness import Awareness
from nearcast.core.adaptation.priority_basis import PriorityBasis
from nearcast.core.adaptation.relevance import Levels
from nearcast.core.engine.books.policy_book import PolicyBook
from nearcast.core.engine.books.relationship_book import RelationshipBook
from nearcast.core.engine.delivery.deliveries import Deliveries, Recipient
from nearcast.core.engine.delivery.judged_copies import JudgedCopies, judged_copies
from nearcast.core.engine.delivery.routes import Route
from nearcast.core.engine.delivery.string_pair_table import Texts
from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.queries.explanation import explain, explain_suspended, weighed
from nearcast.core.engine.queries.node_query import NodePage, NodeQuery, NodeSearch, Sees
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.engine.updates.area_watch import AreaWatch
from nearcast.core.engine.updates.base_set_updates import BaseSetUpdates
from nearcast.core.engine.updates.event_ingest import EventIngest
from nearcast.core.engine.updates.gathering_updates import GatheringUpdates
from nearcast.core.engine.updates.priority_updates import PriorityUpdates
from nearcast.core.engine.updates.relationship_updates import RelationshipUpdates
from nearcast.core.engine.updates.session_presence import SessionPresence
from nearcast.core.engine.updates.silence_updates import SilenceUpdates
from nearcast.core.engine.updates.standing_inputs import StandingInputs
from nearcast.core.gathering.needs.needs import Needs
from nearcast.core.gathering.waiting import WaitingPool
from nearcast.core.matching.live.live_events import LiveEvents
from nearcast.core.matching.matcher import Matcher
from nearcast.core.matching.reference import Verdict
from nearcast.core.model.context import NodeState
from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.geometry.area import Area
from nearcast.core.model.geometry.area_resolution import check
from nearcast.core.model.inputs import (
    AreaWatched,
    SilenceTold,
)
from nearcast.core.relationships.relationship import Relationship
from nearcast.core.rights import Rights


class EngineQueries:
    """Questions to the state of an engine."""

    settings: EngineSettings
    matcher: Matcher
    rights: Rights
    policies: PolicyBook
    _state: EngineState
    _event_ingest: EventIngest
    _gathering: GatheringUpdates
    _base_sets: BaseSetUpdates
    _standing: StandingInputs
    _silence: SilenceUpdates
    _presence: SessionPresence
    _priority_updates: PriorityUpdates
    _relationship_updates: RelationshipUpdates

    @property
    def nodes(self) -> Mapping[str, NodeState]:
        """Node states by name."""
        return self._state.nodes.by_name

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """All subscriptions except suspended ones, by id."""
        return self._state.subscriptions.by_id

    @property
    def suspended(self) -> Mapping[str, Subscription]:
        """Subscriptions that match nothing until they are resumed, by id."""
        return self._state.subscriptions.suspended

    def names_in(self, deliveries: Deliveries) -> tuple[Texts, Texts]:
        """Session of each copy and subscription id of each row, by their current numbers."""
        rows = deliveries.rows
        copies = np.flatnonzero(rows.starts).astype(np.int32)
        return self._state.subscriptions.names.taken(rows.subscription, copies)

    @property
    def live(self) -> LiveEvents:
        """All live events, by key."""
        return self.matcher.live

    def judged_copies(self, deliveries: Deliveries) -> JudgedCopies | None:
        """The copies that can get another priority while they wait, and what it follows from."""
        return judged_copies(deliveries, self.matcher.priorities)

    def addressed(
        self,
        event: Event,
        recipients: Iterable[tuple[Sequence[str], int]],
        replayed: bool = False,
        bases: Mapping[str, PriorityBasis] | None = None,
    ) -> Deliveries:
        """Deliveries of an event matched elsewhere, given subscription ids and priorities.

        `bases`: what the priorities follow from, by the ids of subscriptions.
        """
        return self._state.subscriptions.addressed(event, recipients, replayed, bases)

    @property
    def announcements(self) -> Mapping[tuple[str, str], Announcement]:
        """All announcements, by node and subject."""
        return self._state.announcements.by_subject

    @property
    def watched_areas(self) -> AreaWatch:
        """All watched areas with their owners."""
        return self._state.areas

    @property
    def silences(self) -> list[SilenceTold]:
        """Which sessions of nodes keep silent."""
        return list(self._silence.in_force())

    @property
    def relationships(self) -> RelationshipBook:
        """All relationships with their states."""
        return self._state.relationships

    def relationship(self, name: str) -> Relationship:
        """The relationship of a name, with the values of its members now."""
        return self._relationship_updates.relationship(name)

    @property
    def has_readers(self) -> bool:
        """True if any subscription reads node states (`$node/`)."""
        return self._state.subscriptions.readers > 0

    def find_nodes(self, query: NodeQuery, sees: Sees, others: Iterable[str] = ()) -> NodePage:
        """Return a page of nodes matching a query, limited to what the viewer may see.

        `others` are nodes that may have no known state.
        """
        search = NodeSearch(self.matcher, self.rights.context, sees)
        return search.find(query, lambda: self.nodes.keys() | set(others))

    def vet_area(self, area: Area) -> None:
        """Raise `ModelError` if an area names an unknown place."""
        check(area, self.matcher.places)

    def explain(self, event: Event, node: str) -> list[Verdict]:
        """Explain why a node does or does not get an event now: one verdict per subscription."""
        event = self._event_ingest.complete(event)
        wanted = [each for each in self.subscriptions.values() if each.node == node]
        verdicts = [self._explained(event, subscription) for subscription in wanted]
        suspended = [each for each in self.suspended.values() if each.node == node]
        return verdicts + [explain_suspended(each) for each in suspended]

    def _explained(self, event: Event, subscription: Subscription) -> Verdict:
        world, contexts = self.matcher.world, self._state.contexts
        verdict = explain(event, subscription, world)
        if subscription.relevance is None:
            return verdict
        matrix = self.policies.matrix_for(contexts.role(subscription.node))
        context_class = contexts.context_class(subscription.owner)
        return weighed(verdict, event, subscription, world, context_class, matrix)

    def priority_basis(
        self, deliveries: Deliveries, place: int, recipient: Recipient
    ) -> PriorityBasis | None:
        """What the priority of a copy depends on; None if it is always the most urgent."""
        return self._priority_updates.basis(deliveries, place, recipient)

    def priorities(self, session: str) -> Callable[[PriorityBasis], int]:
        """Return what gives the priority of a queued event for a session now; -1: withheld."""
        return self._priority_updates.priorities(session)

    def role_levels(self, node: str, template: str) -> Levels:
        """The relevance that a policy gives to a node's role and task; raise AdaptationError."""
        return self._priority_updates.role_levels(node, template)

    def awareness_of(self, node: str) -> Awareness:
        """How the context of a node is classified."""
        return self._state.contexts.awareness(node)

    def waiting(self) -> list[WaitingPool]:
        """What waits for subscriptions that gather."""
        return self._gathering.in_force()

    def statistics(self) -> dict[str, int]:
        """How many subscriptions gather, what waits, and what was discarded."""
        return self._state.gathering.statistics() | {
            "gathering_discarded_total": self._base_sets.discarded
        }

    def needs(self, id_: str, event: Event) -> Needs:
        """What an event that waits for a subscription needs now."""
        return self._gathering.needs(id_, event)

    def has_relevance(self, session: str) -> bool:
        """Whether a session has a subscription with relevance."""
        return session in self._state.subscriptions.weighted

    def sessions_with_relevance(self) -> list[str]:
        """All sessions that have one."""
        return sorted(self._state.subscriptions.weighted)

    def link_classes(self, session: str) -> Mapping[str, int]:
        """The classes of a session's link, by module."""
        return self._state.contexts.link_classes(session)

    def context_class(self, session: str) -> int:
        """The class of a session now."""
        return self._state.contexts.context_class(session)

    def route(self, publisher: str, subject: str) -> Route | None:
        """The recipients of a node's events on a subject, if the subject alone decides; else None.

        Valid for events that do not stay, have no target and carry no id of their own. The caller
        passes events sent along a route to `note`.
        """
        state = self._state
        if not self.settings.routes or self.matcher.counting:
            return None
        if (publisher, subject) in state.announcements.by_subject:
            return None
        if state.policy.has_elsewhere and state.policy.is_elsewhere(subject):
            return None
        if state.live.is_deferred(subject):
            return None
        return state.subscriptions.routes.of(subject)

    def fitting(self, subject: str) -> list[Subscription]:
        """All subscriptions whose pattern matches a subject, whatever their other conditions."""
        return self._state.subscriptions.routes.fitting(subject)

    def count_fitting(self, subject: str) -> int:
        """The number of subscriptions whose pattern matches a subject."""
        return self._state.subscriptions.routes.count_fitting(subject)

    def has_subscribers(self, subject: str) -> bool:
        """Whether the pattern of any subscription matches a subject."""
        return self._state.subscriptions.routes.has_subscribers(subject)

    def vet(self, value: Subscription | Announcement | Event | AreaWatched) -> None:
        """Raise `ModelError` if the value would be refused for its subject or its area."""
        self._standing.vet(value)

    def announced_by(self, session: str) -> list[tuple[str, str]]:
        """Pairs of node and subject of a session's announcements."""
        return self._state.announcements.of_session(session)

    def has_seen(self, event: Event, session: str) -> bool:
        """True if a session has this version of a live event."""
        return self._state.live.has(event, session)

    def comes_later(self, event: Event, subscriptions: Sequence[Subscription]) -> bool:
        """True if a session that cannot take an event now gets it later, while it is live."""
        return self._state.live_delivery.comes_later(event, subscriptions) and self.has_seen(
            event, subscriptions[0].owner
        )

    def live_key(self, event: Event) -> str:
        """The key under which an event that stays is kept."""
        return self._state.live.key(event)

    def live_events_of(self, node: str) -> int:
        """The number of live events that a node published."""
        return self._state.live.count_of(node)

    def live_events_moved_by(self, node: str) -> int:
        """The number of live events that a move of a node has decided anew."""
        return self._state.live.count_anchored(node)

    def expiry_of(self, key: str) -> float | None:
        """The expiry time of a live event, None if it has none."""
        return self._state.live.expiry(key)
