"""Search and rescue without a broker, sealed with a group key (seed D's scenario E).

A coordinator directs four searchers over 600 m, farther than one radio reaches: they pass her
orders on. Everything is sealed with the team's key. A reporter with a radio has another one, and
learns nothing. A searcher who was in a tunnel gets the order afterwards, from a colleague.

Prints:

    order 1 reached: east, north, south, west
    order 2 reached: east, south, west
    out of the tunnel, north has orders: 1, 2
    the reporter has: nothing
"""

from nearcast.core.model import Position, circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.testing import RadioSettings, VirtualRadio
from nearcast.wire.beacons.group_key import GroupKey

DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude
ORDER = event_type("rescue/order", {"number": int}, validity=600, priority=1)
PLACES = {"west": -150, "south": -280, "east": 150, "north": 280}
TUNNEL = Position(54.0, -6.26)


def at(east_m: float) -> Position:
    """Return the position so many metres east of the coordinator."""
    return Position(53.35, -6.26 + east_m * DEGREES_PER_M)


def main() -> None:
    """Direct a team."""
    team, press = GroupKey(b"the team's own key, 32 bytes ..."), GroupKey(bytes(32))
    channel = VirtualRadio(radio=RadioSettings(loss=0.1), settings=ProximitySettings(recovers=True))
    coordinator = channel.node("coordinator", at(0), keys=[team])
    for name, east_m in PLACES.items():
        channel.node(name, at(east_m), keys=[team]).subscribe("rescue/order")
    channel.node("reporter", at(50), keys=[press]).subscribe("#")
    coordinator.announce(ORDER, circle((at(0).lat, at(0).lon), 300))
    channel.run(20)

    def reached(name: str) -> str:
        return ", ".join(sorted(each for each in PLACES if name in channel.got(each)))

    for number in (1, 2):
        order = coordinator.raise_event("rescue/order", {"number": number})
        channel.run(20)
        print(f"order {number} reached: {reached(order)}")
        channel.move("north", TUNNEL)
    channel.move("north", at(280))
    channel.run(20)
    found = sorted(
        delivery.event.attributes["number"] for delivery in channel.nodes["north"].delivered
    )
    print(f"out of the tunnel, north has orders: {', '.join(map(str, found))}")
    print(f"the reporter has: {', '.join(channel.got('reporter')) or 'nothing'}")


if __name__ == "__main__":
    main()
