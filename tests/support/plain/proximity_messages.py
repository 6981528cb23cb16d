"""Random messages of nodes without a broker."""

from random import Random

from nearcast.core.model.geometry.area import Area, Around, box, circle, moving_box
from nearcast.core.proximity.discovery.event_type import EventType, Kind
from nearcast.core.proximity.discovery.proximity import proximity
from nearcast.core.proximity.messages import Beacon, EventMessage, Holdings, Message, Request
from tests.support.radio_field import at_m

KINDS: tuple[Kind, ...] = ("integer", "text", "boolean", "number", "position")


def random_type(random: Random) -> EventType:
    names = [f"p{number}" for number in range(random.randint(0, 6))]
    content = tuple((name, random.choice(KINDS)) for name in names)
    return EventType(
        random.choice(("a", "traffic/light", "b/c/é")), random.choice((None, content)),
        random.choice((None, 5.0)), random.randint(1, 9), random.choice((None, 2.0)),
        random.choice(("none", "producer")),
    )  # fmt: skip


def random_area(random: Random) -> Area:
    size_m = random.uniform(1.0, 900.0)
    return random.choice(
        (
            circle("me", size_m),
            circle("me", size_m, offset=(30.0, -size_m)),
            Around("me", moving_box(size_m, 70.0)),
            circle((53.35, -6.26), size_m),
            box(53.3, -6.3, 53.3 + size_m / 9_000.0, -6.2),
        )
    )


def random_message(random: Random) -> Message:
    here = at_m(random.uniform(-900, 900), random.uniform(-900, 900))
    at, number = (here.lat, here.lon), random.randint(1, 1 << 40)
    kind = random.randrange(4)
    if kind == 0:
        described = proximity(random_area(random), here)
        initial = described.initial
        return Beacon(
            "p", 1, number, 1e9, random_type(random), described.area_text,
            (initial.lat, initial.lon), at, 1.5, 0.0, 2.0, random.random() < 0.5,
            sought=random.random() < 0.2,
        )  # fmt: skip
    if kind == 1:
        payload = random.randbytes(random.choice((0, 20, 1_400, 40_000)))
        where = random.choice((None, at))
        return EventMessage(
            random.randrange(1 << 24), "p", 1, number, 3, "traffic/light", 1e9, at, 1.0, True,
            payload, where,
        )  # fmt: skip
    events = tuple(
        ("traffic/light", f"p{each}", 1, tuple(range(1, random.randint(2, 9))))
        for each in range(random.randint(0, 5))
    )
    if kind == 2:
        return Holdings("p", 1, number, 1e9, at, events)
    return Request("p", 1, number, 1e9, "q", events)
