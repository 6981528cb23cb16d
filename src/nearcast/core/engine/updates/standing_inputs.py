"""Standing inputs: subscriptions, announcements and watched areas, in force until ended.

A new subscription gets the live events that match it now.
"""

from collections.abc import Iterable, Sequence

from nearcast.core.engine.engine_state import EngineState
from nearcast.core.engine.outcome import EngineStep, Handlers, Outcome
from nearcast.core.engine.updates.gathering_updates import GatheringUpdates
from nearcast.core.model.event import Announcement, Event, Subscription
from nearcast.core.model.geometry.area_resolution import check
from nearcast.core.model.inputs import (
    Announced,
    AreaUnwatched,
    AreaWatched,
    Input,
    Resumed,
    Subscribed,
    Suspended,
    Unannounced,
    Unsubscribed,
)
from nearcast.core.model.subject import check_pattern, check_subject


class StandingInputs:
    """Adds and removes standing inputs."""

    def __init__(self, state: EngineState, gathering: GatheringUpdates) -> None:
        self._gathering = gathering
        self._announcements = state.announcements
        self._areas = state.areas
        self._matcher = state.matcher
        self._subscriptions = state.subscriptions
        self._recent = state.recent
        self._live_delivery = state.live_delivery
        self._places = state.matcher.places
        self._shard = state.shard
        self._together: dict[str, Subscribed] = {}
        """Subscriptions of one request, held until its last one."""
        self.handlers: Handlers = {
            Subscribed: self.subscribe,
            Unsubscribed: self.unsubscribe,
            Suspended: self.suspend,
            Resumed: self.resume_subscription,
            Announced: self.announce,
            Unannounced: self.unannounce,
            AreaWatched: self.watch,
            AreaUnwatched: self.unwatch,
        }

    def vet(self, value: Subscription | Announcement | Event | AreaWatched) -> None:
        """Raise `ModelError` if the value would be refused for its subject or its area."""
        if isinstance(value, Subscription):
            check_pattern(value.subject)
            area = value.from_
        elif isinstance(value, AreaWatched):
            area = value.area
        else:
            check_subject(value.subject)
            area = value.to
        if area is not None:
            check(area, self._places)

    def subscribe(self, each: Subscribed, step: EngineStep) -> None:
        """Add the subscriptions of a request at its last one, with the live events they match."""
        try:
            self.vet(each.subscription)
            self._together[each.subscription.id] = each
        finally:
            if not each.more and self._together:
                together, self._together = self._together, {}
                self._add(list(together.values()), step)

    def _add(self, wanted: Sequence[Subscribed], step: EngineStep) -> None:
        detached = self._gathering.detach(each.subscription.id for each in wanted)
        own = [each for each in wanted if self._shard.has_subscription(each.subscription)]
        # All replace those of the same ids, which may have been in this shard.
        self._subscriptions.drop([each.subscription.id for each in wanted])
        self._subscriptions.add([each.subscription for each in own])
        self._recent.refresh()
        self._gathering.attach(detached, step)
        self._bring(own, step.outcome)

    def _bring(self, wanted: Sequence[Subscribed], outcome: Outcome) -> None:
        """Deliver live events to new subscriptions that match them."""
        wanted = [each for each in wanted if each.subscription.group is None]
        if not wanted:
            return
        numbers = {self._subscriptions.number(each.subscription.id): each for each in wanted}
        met = self._live_delivery.decide_for_new(
            list(numbers), outcome, send=any(each.replay for each in wanted)
        )
        retained = self._matcher.live.columns.retained[met.row]
        self._live_delivery.deliver_live(met.only(~retained), outcome)
        # MQTT retained messages are sent once per filter.
        for number, each in numbers.items():
            own = met.only(retained & (met.subscription == number))
            if len(own.row):
                self._live_delivery.replay(own, outcome, send=each.replay)

    def unsubscribe(self, each: Unsubscribed, step: EngineStep) -> None:
        """Remove a subscription."""
        self._subscriptions.drop([each.id])
        self._recent.refresh()

    def suspend(self, each: Suspended, step: EngineStep) -> None:
        """Let a subscription match nothing."""
        self._gathering.release_for(each.id, step)
        self._subscriptions.suspend(each.id)
        self._recent.refresh()

    def resume_subscription(self, each: Resumed, step: EngineStep) -> None:
        """Let a suspended subscription match again; deliver the live events that it lacks."""
        subscription = self._subscriptions.resume(each.id)
        self._recent.refresh()
        if subscription is not None and subscription.group is None:
            self._live_delivery.deliver_to([self._subscriptions.number(each.id)], step.outcome)

    def announce(self, each: Announced, step: EngineStep) -> None:
        """Set the target of a node's events on a subject."""
        self.vet(each.announcement)
        self._announcements.put(each.announcement)

    def unannounce(self, each: Unannounced, step: EngineStep) -> None:
        """Remove the announced target of a node's events on a subject."""
        self._announcements.end(each.node, each.subject)

    def watch(self, each: AreaWatched, step: EngineStep) -> None:
        """Watch an area for entries and exits."""
        self.vet(each)
        self._put_area(each)

    def unwatch(self, each: AreaUnwatched, step: EngineStep) -> None:
        """Stop watching an area."""
        self._areas.remove(each.name)

    def unfinished(self) -> list[Subscribed]:
        """The subscriptions of a request whose last one has not come yet."""
        return list(self._together.values())

    def resume(self, standing: Iterable[Input]) -> None:
        """Restore announcements, watched areas, suspensions and an unfinished request.

        Not checked again: an area at a place that was removed contains no node.
        """
        for value in standing:
            if isinstance(value, Announced):
                self._announcements.put(value.announcement)
            elif isinstance(value, AreaWatched):
                self._put_area(value)
            elif isinstance(value, Suspended):
                self._subscriptions.suspend(value.id)
            elif isinstance(value, Subscribed):
                self._together[value.subscription.id] = value

    def _put_area(self, each: AreaWatched) -> None:
        self._areas.put(each.name, each.node, each.area, each.where)
