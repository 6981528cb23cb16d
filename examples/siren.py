"""An ambulance and the cars before it, without a broker (seed D's scenario B).

The ambulance announces its siren for 100 m round it, and farther the faster it goes: by what it
travels in 10 s. It drives past two cars at 20 m/s and wails every second. The cars filter for
themselves: they give way as long as it comes nearer. Its beacons come every few seconds, so they
know it a little later than at 300 m.

Prints:

    ann gives way from 200 m to 0 m before her
    ben gives way from 270 m to -10 m before him
"""

from nearcast.core.model import Position, circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.core.proximity.settings import ProximitySettings
from nearcast.testing import RadioSettings, VirtualRadio

DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude
SIREN = event_type("emergency/siren", {"at_m": int}, priority=1, deadline=2)


def along(road_m: float) -> Position:
    """Return the position so many metres along the road."""
    return Position(53.35, -6.26 + road_m * DEGREES_PER_M)


def main() -> None:
    """Drive past two cars."""
    channel = VirtualRadio(
        radio=RadioSettings(range_m=400), settings=ProximitySettings(radio_range_m=400)
    )
    ambulance = channel.node("ambulance", along(-600))
    cars = {"ann": (0, "her"), "ben": (150, "him")}
    for name, (road_m, _) in cars.items():
        channel.node(name, along(road_m)).subscribe("emergency/siren", "approaching(publisher)")
    ambulance.announce(SIREN, circle("me", 100), grow_s=10)
    for road_m in range(-600, 600, 20):
        channel.move("ambulance", along(road_m))
        ambulance.raise_event("emergency/siren", {"at_m": road_m})
        channel.run(1)
    for name, (car_m, whom) in cars.items():
        heard = [
            car_m - delivery.event.attributes["at_m"] for delivery in channel.nodes[name].delivered
        ]
        print(f"{name} gives way from {max(heard)} m to {min(heard)} m before {whom}")


if __name__ == "__main__":
    main()
