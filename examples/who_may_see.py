"""What a node may not see is unknown to its filters and areas.

Ann and Ben ask for the same: taxis within 1 km, once by area and once by filter. The taxi hides
its position from Ben. To him nothing is near and nothing is far: neither the condition nor its
opposite is true. An event that itself says where it is can be seen by all.

Prints:

    ann: by area, by filter
    ben: nothing
      near: the event's position is unknown or hidden
      distance(me, event) < 1000: the filter is unknown
      NOT distance(me, event) < 1000: the filter is unknown
    with its position given, ben: by area, by filter
"""

from msgspec.structs import replace

from nearcast.core.engine.engine import Engine
from nearcast.core.language import parse
from nearcast.core.model import SEE_ATTRIBUTES, SEE_IDENTITY, Event, Position, Subscription, circle
from nearcast.core.model.inputs import Moved, Published, SightSet, Subscribed

HERE, NEARBY = Position(53.35, -6.26), Position(53.352, -6.26)


def main() -> None:
    """Ask on behalf of both."""
    engine = Engine()
    for node in ("ann", "ben"):
        engine.step([Moved(node, HERE), *(Subscribed(each) for each in subscriptions(node))], now=0)
    engine.step([Moved("taxi", NEARBY)], now=0)
    # Ben may know who it is and what it does, but not where.
    engine.step([SightSet("ben", "taxi", SEE_IDENTITY | SEE_ATTRIBUTES)], now=0)

    free = Event("1", "taxi/free", "taxi", time=0, position=NEARBY)
    outcome = engine.step([Published(free)], now=0)
    got = {delivery.node: delivery.subscriptions for delivery in outcome.deliveries}
    for node in ("ann", "ben"):
        print(f"{node}: {named(got.get(node, ()))}")
    for verdict in engine.explain(free, "ben"):
        where = engine.subscriptions[verdict.subscription].where
        why = verdict.steps[-1].why.partition(": ")[0]
        print(f"  {where.to_text() if where else 'near'}: {why}")

    given = replace(free, id="2", at_given=True)
    outcome = engine.step([Published(given)], now=1)
    for delivery in outcome.deliveries:
        if delivery.node == "ben":
            print(f"with its position given, ben: {named(delivery.subscriptions)}")


def subscriptions(node: str) -> list[Subscription]:
    """Return the same condition in two ways, and its opposite."""
    near = parse("distance(me, event) < 1000")
    far = parse("NOT distance(me, event) < 1000")
    return [
        Subscription(f"{node}: by area", node, "taxi/#", from_=circle("me", 1000)),
        Subscription(f"{node}: by filter", node, "taxi/#", where=near),
        Subscription(f"{node}: by the opposite", node, "taxi/#", where=far),
    ]


def named(ids: tuple[str, ...]) -> str:
    """Return the names of subscriptions without their owner."""
    return ", ".join(sorted(name.partition(": ")[2] for name in ids)) or "nothing"


if __name__ == "__main__":
    main()
