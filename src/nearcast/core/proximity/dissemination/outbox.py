"""The outbox: what a node says and passes on, when, and how urgently.

Members pass each message on once, after a part of a delay, so that they do not all send at once.
With gossip those far from the producer pass on only a share of the events (seed D).
"""

from nearcast.core.model.geometry.position import Position
from nearcast.core.proximity.discovery.event_type import LOWEST_PRIORITY, EventType
from nearcast.core.proximity.dissemination.admission import bucket
from nearcast.core.proximity.dissemination.event_intake import key_of
from nearcast.core.proximity.dissemination.recovery import WAITS_S
from nearcast.core.proximity.dissemination.seen_events import EventKey, share_of
from nearcast.core.proximity.dissemination.send_queue import Send, SendQueue
from nearcast.core.proximity.messages import Beacon, EventMessage, Holdings, Request
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityCounts, ProximityStep

_BEACON_PRIORITY = 0


class Outbox:
    """What one node is to send."""

    def __init__(self, node: str, settings: ProximitySettings, counts: ProximityCounts) -> None:
        self._node = node
        self._settings = settings
        self._counts = counts
        rate = settings.channel_bytes_s * settings.node_share
        self.queue = SendQueue(bucket(rate, settings.burst_s, 0.0), settings.queue_most)

    def beacon(self, beacon: Beacon, now: float) -> None:
        """Send a beacon of this node."""
        self._counts.beacons_sent += 1
        self.queue.put(Send(beacon), now, _BEACON_PRIORITY, now + beacon.period_s)

    def event(self, message: EventMessage, event_type: EventType, now: float) -> None:
        """Send an event of this node to its group."""
        self._counts.events_sent += 1
        self._put_event(message, event_type, now)

    def recovery(self, message: Holdings | Request | EventMessage, now: float) -> None:
        """Send what is held, asked for, or sent again: all else goes before."""
        self.queue.put(Send(message), now, LOWEST_PRIORITY, now + WAITS_S)

    def pass_on(
        self, message: EventMessage, event_type: EventType, here: Position, now: float
    ) -> None:
        """Pass on an event of another node; with gossip perhaps."""
        settings, key = self._settings, key_of(message)
        is_far = here.distance_m(Position(*message.naval)) > settings.gossip_m
        if is_far and share_of(key, self._node) >= settings.gossip_share:
            return
        self._counts.events_forwarded += 1
        self._put_event(message, event_type, self._forward_at(key, now))

    def pass_beacon_on(self, beacon: Beacon, now: float) -> None:
        """Pass on a beacon of another node."""
        self._counts.beacons_forwarded += 1
        key = beacon.producer, beacon.incarnation, -beacon.number
        due, overdue_at = self._forward_at(key, now), now + beacon.period_s
        self.queue.put(Send(beacon), due, _BEACON_PRIORITY, overdue_at)

    def flush(self, step: ProximityStep, now: float) -> None:
        """Send what is due and has room on the channel."""
        step.sends += self.queue.take(now)

    @property
    def wake_at(self) -> float:
        """When `flush` is due; infinite if nothing waits."""
        return self.queue.wake_at

    def _put_event(self, message: EventMessage, event_type: EventType, due: float) -> None:
        overdue_at = message.time + event_type.lifetime_s(self._settings.transient_s)
        self.queue.put(Send(message, message.group), due, event_type.priority, overdue_at)

    def _forward_at(self, key: EventKey, now: float) -> float:
        delay_s = self._settings.forward_delay_s
        return now + delay_s * share_of(key, f"{self._node}~") if delay_s else now
