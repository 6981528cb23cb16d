"""An announced area moves with its publisher.

The ambulance says once that its calls are for everyone within 500 m of it. Three cars stand along
a street; as it drives past, each call reaches those who are near it then. Nobody keeps a list.

Prints:

    at   0 m: ann
    at 400 m: ann, ben
    at 800 m: ben, cleo
"""

from nearcast.core.engine.engine import Engine
from nearcast.core.model import Announcement, Event, Position, Subscription, circle
from nearcast.core.model.inputs import Announced, Moved, Published, Subscribed

SUBJECT = "emergency/vehicle"
DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude


def along(street_m: float) -> Position:
    """Return the position so many metres along the street."""
    return Position(53.35, -6.26 + street_m * DEGREES_PER_M)


def main() -> None:
    """Drive past three cars."""
    engine = Engine()
    cars = {"ann": 100, "ben": 700, "cleo": 1200}
    engine.step([Moved(car, along(street_m)) for car, street_m in cars.items()], now=0)
    engine.step([Subscribed(Subscription(car, car, SUBJECT)) for car in cars], now=0)
    engine.step([Announced(Announcement("ambulance", SUBJECT, circle("me", 500)))], now=0)
    for number, street_m in enumerate((0, 400, 800)):
        call = Event(f"call {number}", SUBJECT, "ambulance", time=number)
        outcome = engine.step([Moved("ambulance", along(street_m)), Published(call)], now=number)
        heard = sorted(delivery.node for delivery in outcome.deliveries)
        print(f"at {street_m:3} m: {', '.join(heard)}")


if __name__ == "__main__":
    main()
