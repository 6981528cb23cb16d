"""The state of an engine: the matcher and the books, shared by its parts."""

from collections.abc import Iterable

from nearcast.core.engine.books.announcement_book import AnnouncementBook
from nearcast.core.engine.books.context_book import ContextBook
from nearcast.core.engine.books.gathering_book import GatheringBook
from nearcast.core.engine.books.live_book import LiveBook
from nearcast.core.engine.books.node_book import NodeBook
from nearcast.core.engine.books.policy_book import PolicyBook
from nearcast.core.engine.books.recent_book import RecentBook
from nearcast.core.engine.books.relationship_book import RelationshipBook
from nearcast.core.engine.books.subscription_book import SubscriptionBook
from nearcast.core.engine.delivery.live_delivery import LiveDelivery
from nearcast.core.engine.dependent import EngineDependent
from nearcast.core.engine.engine_inputs import EngineInputs, LiveEvent
from nearcast.core.engine.settings import EngineSettings
from nearcast.core.engine.shard import Shard
from nearcast.core.engine.state_observer import StateObserver
from nearcast.core.engine.subject_policy import SubjectPolicy
from nearcast.core.engine.updates.area_watch import AreaWatch
from nearcast.core.gathering.waiting import WaitingPool, durable_pools
from nearcast.core.matching.matcher import Matcher
from nearcast.core.model.geometry.places import Places
from nearcast.core.model.inputs import Announced, Restarted
from nearcast.core.rights import Rights


class EngineState:
    """The state of an engine; initially only places."""

    def __init__(self, settings: EngineSettings, places: Places, shard: Shard) -> None:
        self.settings = settings
        self.shard = shard
        self.policy = SubjectPolicy(settings)
        self.policies = PolicyBook(settings.levels)
        self.matcher = Matcher(places)
        self.nodes = NodeBook(settings.position_ttl_s)
        self.rights = Rights(self.matcher, self.nodes.state_of)
        self.announcements = AnnouncementBook()
        self.areas = AreaWatch(self.matcher, self.rights.context, self.nodes.by_name)
        self.relationships = RelationshipBook()
        self.live = LiveBook(self.matcher, settings.shared_objects)
        self.gathering = GatheringBook()
        self.contexts = ContextBook(self.policies, self.rights.context)
        self.subscriptions = SubscriptionBook(self.matcher, self.contexts, self.gathering)
        self.recent = RecentBook(self.matcher, settings)
        self.live_delivery = LiveDelivery(
            self.matcher, self.live, self.subscriptions, settings.live_at_once
        )
        self.dependents: list[EngineDependent] = [self.areas, self.live_delivery, self.recent]
        """Notified of changes, in this order."""

    def observe(self, observer: StateObserver) -> None:
        """Tell an observer of what clients leave here, from now on."""
        self.matcher.live.observer = observer.live_changed
        self.areas.observe(observer.area_changed)
        self.announcements.observer = observer.announcement_changed
        self.relationships.observer = observer.relationship_changed

    def after_restart(
        self,
        restarted: Restarted,
        known: Iterable[tuple[str, str]],
        waiting: Iterable[WaitingPool],
        hidden: Iterable[WaitingPool],
    ) -> EngineInputs:
        """The inputs that stay in force when a broker restarts with the given sessions."""
        kept = set(restarted.sessions)
        everyone = [one for one in self.subscriptions.everyone() if one.owner in kept]
        announced = (one for one in self.announcements.by_subject.values() if one.owner in kept)
        return EngineInputs(
            restarted,
            [
                self.rights.rules,
                *self.policies,
                *map(Announced, announced),
                *self.areas,
                *self.relationships,
            ],
            subscriptions=everyone,
            nodes=list(self.nodes.by_name.values()),
            live=[
                LiveEvent(event, expires, seen & kept) for event, expires, seen in self.live.kept()
            ],
            known=known,
            waiting=durable_pools(waiting, {one.id: one.qos for one in everyone}),
            hidden=durable_pools(hidden, {}),
        )
