"""A traffic light tells those whom it concerns, without a broker (seed D's scenario C).

The light announces 40 m round it, and raises an event a second for each of its two approaches.
Vehicles subscribe once and for all, to their own approach, while they come nearer. The two filters
together leave few events of all that the radio brings within 200 m.

Prints:

    raised while the car was in radio range: 72
    delivered to the car: 4
    and to the one that comes from the side: 4
"""

from nearcast.core.model import Position, circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.testing import VirtualRadio

DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude
LIGHT = event_type("traffic/light", {"approach": int, "green": bool}, deadline=1)
SPEED_MPS = 11.2


def at(east_m: float, north_m: float) -> Position:
    """Return the position so many metres east and north of the light."""
    return Position(53.354 + north_m / 111_267, -6.288 + east_m * DEGREES_PER_M)


def main() -> None:
    """Let two vehicles pass."""
    channel = VirtualRadio()
    light = channel.node("light", at(0, 0))
    light.announce(LIGHT, circle((at(0, 0).lat, at(0, 0).lon), 40))
    channel.node("car", at(-200, 0)).subscribe(
        "traffic/light", "approach = 1 AND approaching(event)"
    )
    channel.node("bus", at(0, 200)).subscribe(
        "traffic/light", "approach = 2 AND approaching(event)"
    )
    raised = 0
    for second in range(36):
        left_m = 200 - SPEED_MPS * second
        channel.move("car", at(-left_m, 0))
        channel.move("bus", at(0, left_m))
        for approach in (1, 2):
            light.raise_event("traffic/light", {"approach": approach, "green": approach == 1})
            raised += 1
        channel.run(1)
    print(f"raised while the car was in radio range: {raised}")
    print(f"delivered to the car: {len(channel.got('car'))}")
    print(f"and to the one that comes from the side: {len(channel.got('bus'))}")


if __name__ == "__main__":
    main()
