"""An event that stays valid is met later, once.

A street is flooded for ten minutes, and that concerns whoever is within 200 m. Ann is there and
hears at once. Ben walks in after two minutes and hears then; walking on, and out and in again, he
does not hear again. Cleo comes when it is over.

Prints:

       0 s  ann
      60 s  nobody
     120 s  ben
     180 s  nobody
     240 s  nobody
     300 s  nobody
     660 s  nobody
"""

from nearcast.core.engine.engine import Engine
from nearcast.core.model import Event, Position, Subscription, circle
from nearcast.core.model.inputs import Input, Moved, Published, Subscribed

FLOOD = Position(53.35, -6.26)
DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude


def east(metres: float) -> Position:
    """Return the position so many metres east of the flood."""
    return Position(FLOOD.lat, FLOOD.lon + metres * DEGREES_PER_M)


def main() -> None:
    """Walk past a flood."""
    engine = Engine()
    for node, metres in {"ann": 50, "ben": 500, "cleo": 500}.items():
        subscription = Subscription(node, node, "hazard/#")
        engine.step([Moved(node, east(metres)), Subscribed(subscription)], now=0)
    flood = Event(
        "1", "hazard/flood", "city", 0, position=FLOOD, at_given=True,
        to=circle(FLOOD, 200), valid_s=600,
    )  # fmt: skip
    happens: dict[int, Input] = {
        0: Published(flood),
        60: Moved("ben", east(300)),
        120: Moved("ben", east(150)),
        180: Moved("ben", east(0)),
        240: Moved("ben", east(300)),
        300: Moved("ben", east(100)),
        660: Moved("cleo", east(100)),
    }
    for now, what in happens.items():
        outcome = engine.step([what], now)
        heard = [delivery.node for delivery in outcome.deliveries]
        print(f"{now:4} s  {', '.join(heard) or 'nobody'}")


if __name__ == "__main__":
    main()
