"""An augmented-reality game without a broker (seed D's scenario D).

Every player carries a proximity of 50 m with her: whoever comes into it learns what she has. A
scout wants to know more than players say to strangers, and seeks what anybody within 150 m tells:
a proximity that the consumer defines.

Prints:

    ann sees: nobody
    the scout sees: ann has a key, ben has a lamp
    when they meet, ann sees: ben has a lamp
"""

from nearcast.core.model import Position, circle
from nearcast.core.proximity.discovery.event_type import event_type
from nearcast.testing import RadioNode, VirtualRadio

DEGREES_PER_M = 1 / 66_589  # of longitude, at this latitude
STATUS = event_type("game/status", {"name": str, "has": str}, order="producer")


def at(east_m: float) -> Position:
    """Return the position so many metres east."""
    return Position(53.35, -6.26 + east_m * DEGREES_PER_M)


def seen_by(player: RadioNode) -> str:
    """Return what a player knows of others, and forget it."""
    seen = [delivery.event.attributes for delivery in player.delivered]
    player.delivered.clear()
    return ", ".join(sorted(f"{each['name']} has a {each['has']}" for each in seen)) or "nobody"


def main() -> None:
    """Play."""
    channel = VirtualRadio()
    things = {"ann": "key", "ben": "lamp"}
    for name, east_m in (("ann", 0), ("ben", 120)):
        player = channel.node(name, at(east_m))
        player.announce(STATUS, circle("me", 50))
        player.subscribe("game/status")
    scout = channel.node("scout", at(60))
    scout.subscribe("game/status", within=circle("me", 150))
    channel.run(5)

    def tell_all() -> None:
        for name, thing in things.items():
            channel.nodes[name].raise_event("game/status", {"name": name, "has": thing})
            channel.run(0.1)

    tell_all()
    print(f"ann sees: {seen_by(channel.nodes['ann'])}")
    print(f"the scout sees: {seen_by(scout)}")
    channel.move("ben", at(40))
    channel.run(5)
    tell_all()
    print(f"when they meet, ann sees: {seen_by(channel.nodes['ann'])}")


if __name__ == "__main__":
    main()
