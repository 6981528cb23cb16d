"""A broken-down car warns whoever comes near, without a broker (seed D's scenario A).

The car stands on a road and announces warnings 300 m round it: farther than a radio of 200 m, so
cars in the area pass them on. A car that is beyond hears nothing until it has come near; the
warning is true for a minute, and reaches it then from the cars that have it.

Prints:

    the warning, sent 3 times, reached ann, ben
    500 m away, cleo knows nothing: []
    250 m away, cleo knows: lane 2 is blocked
"""

from nearcast.core.model import Position, circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.testing import VirtualRadio

DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude
BREAKDOWN = event_type("road/breakdown", {"lane": int}, validity=60)


def along(road_m: float) -> Position:
    """Return the position so many metres along the road."""
    return Position(53.35, -6.26 + road_m * DEGREES_PER_M)


def main() -> None:
    """Break down, and warn."""
    channel = VirtualRadio(settings=ProximitySettings(recovers=True))
    car = channel.node("car", along(0))
    for name, road_m in (("ann", 120), ("ben", 280), ("cleo", 500)):
        channel.node(name, along(road_m)).subscribe("road/#")
    car.announce(BREAKDOWN, circle((along(0).lat, along(0).lon), 300))
    channel.run(1)
    car.raise_event("road/breakdown", {"lane": 2})
    channel.run(1)
    reached = [name for name in ("ann", "ben", "cleo") if channel.got(name)]
    sent = sum(node.node.proximities.counts.events_sent for node in channel.nodes.values())
    sent += sum(node.node.proximities.counts.events_forwarded for node in channel.nodes.values())
    print(f"the warning, sent {sent} times, reached {', '.join(reached)}")
    print(f"500 m away, cleo knows nothing: {channel.got('cleo')}")
    channel.move("cleo", along(250))
    channel.run(10)
    (delivery,) = channel.nodes["cleo"].delivered
    print(f"250 m away, cleo knows: lane {delivery.event.attributes['lane']} is blocked")


if __name__ == "__main__":
    main()
