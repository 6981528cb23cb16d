"""One event, and the beacon before it, through nodes that stand somewhere: what it costs.

The nodes are the core's state machines. Whoever is in range hears every message, at once: as in the
text's measurements, nothing is lost.
"""

from collections import deque
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nearcast.core.model.geometry.area import circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.messages import Message
from nearcast.core.proximity.proximity_node import ProximityNode
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.core.proximity.step import ProximityStep
from nearcast.experiments.steam.crowds import RANGE_M, Place, position

WARNING = event_type("warning", {"lane": int})
PLENTY = 1e9


class Spread(Struct, frozen=True):
    """What became of one event."""

    inside: int
    """Consumers in the proximity."""
    connected: int
    """Those of them that a chain of members in range connects to the producer."""
    beacon_cost: int
    cost: int
    """Messages sent for the event, by all."""
    delivered: int


def spread(
    places: Sequence[Place],
    reach_m: float,
    settings: ProximitySettings,
    silent: Collection[int] = (),
    *,
    moves: bool = False,
) -> Spread:
    """Return what becomes of an event of a producer in the middle.

    The consumers in `silent` pass nothing on.
    """
    plenty = ProximitySettings(
        channel_bytes_s=PLENTY, node_share=1.0, type_share=1.0,
        gossip_m=settings.gossip_m, gossip_share=settings.gossip_share,
    )  # fmt: skip
    mute = ProximitySettings(
        channel_bytes_s=PLENTY, node_share=1.0, type_share=1.0, gossip_m=0.0, gossip_share=0.0
    )
    everybody = [(0.0, 0.0), *places]
    nodes = []
    for number, place in enumerate(everybody):
        chosen = mute if number - 1 in silent else plenty
        node = ProximityNode(f"n{number}", chosen)
        node.move(position(place), 0.0)
        if number:
            node.subscribe("warning", "warning", 0.0)
        nodes.append(node)
    near = _in_range(everybody)
    here = position((0.0, 0.0))
    area = circle("me", reach_m) if moves else circle((here.lat, here.lon), reach_m)
    beacon_cost = _settle(nodes, near, nodes[0].announce(WARNING, area, 0.0), 0.0)
    _, step = nodes[0].raise_event("warning", {"lane": 1}, 0.1)
    cost = _settle(nodes, near, step, 0.1)
    delivered = sum(node.counts.delivered for node in nodes)
    inside = [
        number
        for number, place in enumerate(everybody)
        if number and position(place).distance_m(here) <= reach_m
    ]
    connected = len(_connected(near, inside))
    return Spread(len(inside), connected, beacon_cost, cost, delivered)


def _settle(
    nodes: list[ProximityNode], near: list[list[int]], first: ProximityStep, now: float
) -> int:
    """Let all messages arrive; return how many were sent."""
    on_air: deque[tuple[int, Message]] = deque((0, send.message) for send in first.sends)
    sent = 0
    while on_air:
        sender, message = on_air.popleft()
        sent += 1
        for receiver in near[sender]:
            for send in nodes[receiver].receive(message, now).sends:
                on_air.append((receiver, send.message))
    return sent


def _in_range(places: Sequence[Place]) -> list[list[int]]:
    points: npt.NDArray[np.float64] = np.array(places)
    gaps = np.hypot(*(points[:, None, :] - points[None, :, :]).transpose(2, 0, 1))
    np.fill_diagonal(gaps, np.inf)
    return [np.flatnonzero(row <= RANGE_M).tolist() for row in gaps]


def _connected(near: list[list[int]], inside: Sequence[int]) -> set[int]:
    """Return the consumers inside that are reached over consumers inside."""
    members, reached, frontier = set(inside), {0}, [0]
    while frontier:
        found = [each for each in near[frontier.pop()] if each in members and each not in reached]
        reached.update(found)
        frontier += found
    return reached - {0}
